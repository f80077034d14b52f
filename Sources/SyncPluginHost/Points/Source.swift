import SyncModel
package import SyncPlugins
import SyncSystem

/// A source that is a program: it gets the URL as its last argument and prints a manifest. No JSON-RPC, no shell.
///
/// `SYNCAGENT_AT` is `source.at` of the manifest that it printed last; if that is still current, it prints nothing. For
/// a plugin, `SYNCAGENT_SETTINGS` contains its settings. Its standard error is for people.
package struct SourceProgram: SetSource {
    /// argv without the URL; an absolute path first.
    private let arguments: [String]
    /// Its name in messages.
    private let name: String
    /// Checks that it may still be run.
    private let check: @Sendable () throws(PluginError) -> Void
    private let time: Duration
    private let silence: Duration?
    private let variables: [String]
    private let isStopped: @Sendable () -> Bool

    /// Longest time, unless another one is set.
    private static let longest = Duration.seconds(600)
    /// **Bytes** of the longest manifest.
    private static let mostText = 64 << 20

    /// The source that is a plugin's program.
    ///
    /// - Parameters:
    ///   - settings: The text of a JSON object.
    ///   - time: Longest time; `nil` for ten minutes.
    ///   - silence: Longest time without output; `nil` for no limit but the longest time.
    ///   - environment: This process's variables, of which the program gets few.
    ///   - destination: The tree from which nothing may run.
    ///   - isStopped: Asked several times a second; `true` ends the program early.
    package init(
        _ program: PluginProgram, settings: String, time: Duration? = nil, silence: Duration? = nil,
        environment: [String: String], destination: String?, isStopped: @escaping @Sendable () -> Bool = { false }
    ) {
        (arguments, name, self.isStopped) = ([program.path], program.name, isStopped)
        (self.time, self.silence) = (time ?? Self.longest, silence)
        check = { () throws(PluginError) in try program.check(destination: destination) }
        variables = programVariables(environment) + ["SYNCAGENT_SETTINGS=\(settings)"]
    }

    /// The source that is a command, with the URL after its arguments.
    ///
    /// - Parameter command: An absolute path first.
    package init(
        command: [String], time: Duration? = nil, silence: Duration? = nil, environment: [String: String],
        destination: String?, isStopped: @escaping @Sendable () -> Bool = { false }
    ) throws(PluginError) {
        let limit = time ?? Self.longest
        let program = try SmallProgram(command, destination: destination, limit: limit, environment: environment)
        (arguments, name, self.isStopped) = (program.arguments, program.name, isStopped)
        (self.time, self.silence) = (limit, silence)
        check = { () throws(PluginError) in
            _ = try SmallProgram(command, destination: destination, limit: limit, environment: environment)
        }
        variables = programVariables(environment)
    }

    package func manifest(of url: String, known: String?) throws(PluginError) -> SourceAnswer {
        guard !isStopped() else { throw fault(.cancelled, "it was stopped") }
        // The program may have been changed since.
        try check()
        var start = ProgramStart(arguments + [url], variables: variables + (known.map { ["SYNCAGENT_AT=\($0)"] } ?? []))
        start.mask = 0o077
        start.limits = PluginLimits().process
        let (end, output, errors) = start.collect(
            deadline: time, silence: silence, most: Self.mostText, isStopped: isStopped)
        let said = Self.lastLine(errors, without: url)
        func ended(_ reason: String) -> String { reason + (said.map { ": \($0)" } ?? "") }
        switch end {
        case .exited(0): break
        case .exited(let status): throw fault(Self.codes[status] ?? .unavailable, said ?? "\(end)")
        case .signalled: throw fault(.unavailable, ended("\(end)"))
        case .timedOut:
            throw fault(.timedOut, ended("it took more than \(time.components.seconds) s and was ended"))
        case .silent:
            throw fault(.timedOut, ended("it wrote nothing for \(silence?.components.seconds ?? 0) s and was ended"))
        case .overflowed:
            throw fault(.badAnswer, "it printed more than \(ByteCount(UInt64(Self.mostText))) and was ended")
        case .stopped: throw fault(.cancelled, "\(end)")
        case .unknown, .notRun: throw fault(.unavailable, "\(end)")
        }
        guard output.contains(where: { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }) else {
            guard known != nil else { throw fault(.badAnswer, ended("it printed nothing")) }
            return .unchanged
        }
        return .manifest(output)
    }

    /// The meanings of exit statuses of sysexits.h.
    private static let codes: [Int32: PluginError.Code] = [
        64: .misused, 65: .badAnswer, 66: .notThere, 77: .refused, 78: .refused,
    ]

    private func fault(_ code: PluginError.Code, _ message: String) -> PluginError {
        PluginError(plugin: name, code: code, message: message)
    }

    /// The last line of standard error, without the secrets that a URL may contain: a user and password, a query.
    private static func lastLine(_ text: String, without url: String) -> String? {
        let lines = text.split(whereSeparator: \.isNewline).map { line in line.drop { $0.isWhitespace } }
        guard let last = lines.last(where: { !$0.isEmpty }) else { return nil }
        var line = String(last.prefix(2_000)).replacing(url, with: redacted(url: url))
        for secret in secrets(of: url) { line = line.replacing(secret, with: "…") }
        return escaped(String(line.prefix(300)))
    }

    /// The secret parts of a URL, the longest first.
    private static func secrets(of url: String) -> [String] {
        let plain = url.prefix { $0 != "?" && $0 != "#" }
        var secrets: [String] = []
        if plain.endIndex < url.endIndex {
            let query = String(url[url.index(after: plain.endIndex)...])
            secrets.append(query)
            for part in query.split(whereSeparator: { "&#;?".contains($0) }) {
                secrets.append(String(part.firstIndex(of: "=").map { part[part.index(after: $0)...] } ?? part))
            }
        }
        if let slashes = plain.firstRange(of: "://") {
            let authority = plain[slashes.upperBound...].prefix { $0 != "/" }
            if let at = authority.lastIndex(of: "@") {
                secrets.append(String(authority[..<at]))
                secrets += authority[..<at].split(separator: ":", maxSplits: 1).map(String.init)
            }
        }
        // As written, and as a program may have decoded them. Shorter ones would match any text.
        secrets += secrets.compactMap { text in percentDecoded(text.utf8).map { String(decoding: $0, as: UTF8.self) } }
        return Set(secrets).filter { $0.utf8.count >= 4 }.sorted { $0.utf8.count > $1.utf8.count }
    }
}

/// Checks a source.
///
/// - Parameters:
///   - url: The URL of an existing set.
///   - read: The fault of a manifest, `nil` for none, and its `source.at`.
package func check(
    source plugin: any SetSource, url: String, read: (_ manifest: [UInt8]) -> (objection: String?, at: String?)
) -> [CheckResult] {
    var results: [CheckResult] = []
    var first: [UInt8]?
    var at: String?
    results.rule(
        "A URL gives a manifest with absolute URLs",
        "Print one JSON object as Manifests/FORMAT.md describes it, and exit with 0."
    ) {
        switch Result(catching: { () throws(PluginError) in try plugin.manifest(of: url, known: nil) }) {
        case .failure(let error): return error.message
        case .success(.unchanged): return "it printed nothing, although nothing was known"
        case .success(.manifest(let text)):
            let objection: String?
            (objection, at) = read(text)
            first = text
            return objection
        }
    }
    guard let first else { return results }
    results.rule(
        "The same set gives the same manifest",
        "Sort what you list, and leave out times of your own: otherwise every pull examines everything."
    ) {
        switch Result(catching: { () throws(PluginError) in try plugin.manifest(of: url, known: nil) }) {
        case .failure(let error): error.message
        case .success(let answer): answer == .manifest(first) ? nil : "the second one differs"
        }
    }
    if let at {
        results.rule(
            "A state that still holds gives nothing, or the same manifest",
            "Compare SYNCAGENT_AT with what would be source.at now, if possible before listing anything."
        ) {
            switch Result(catching: { () throws(PluginError) in try plugin.manifest(of: url, known: at) }) {
            case .failure(let error): error.message
            case .success(.unchanged): nil
            case .success(.manifest(let text)): text == first ? nil : "it printed another manifest"
            }
        }
    }
    results.rule(
        "What is not there is an error",
        "Say on standard error what is wrong, and exit with 66 for what is not there, 77 for what is refused, 69 for what cannot be reached."
    ) {
        let other = url.hasSuffix("/") ? url + "syncagent-none/" : url + ".syncagent-none"
        return switch Result(catching: { () throws(PluginError) in try plugin.manifest(of: other, known: nil) }) {
        case .failure: nil
        case .success: "it printed a manifest"
        }
    }
    return results
}
