import SyncModel
package import SyncPlugins
import SyncSystem

/// Runs git(1), for what only it can do: references, trees, objects. Never a checkout, a hook, or a question to the
/// user.
package struct Git: Sendable {
    private let program: String
    private let variables: [String]
    private let isStopped: @Sendable () -> Bool

    /// How long one call may take.
    package static let patience = Duration.seconds(600)
    /// Most **bytes** of an answer that are kept.
    private static let longest = 128 << 20

    /// - Parameters:
    ///   - environment: This process's variables; git gets those for proxies, certificates and credentials.
    ///   - isStopped: Called several times a second.
    /// - Throws: ``/SyncPlugins/PluginError`` where git is not installed.
    package init(_ environment: [String: String], isStopped: @escaping @Sendable () -> Bool) throws(PluginError) {
        let places = ["/usr/local/bin", "/usr/bin", "/bin"]
        guard let place = places.first(where: { isPermitted(.execute, "\($0)/git") }) else {
            throw .lfs(.unavailable, "git is not installed; it reads the repository")
        }
        program = place + "/git"
        let kept = environment.filter { name, _ in
            ["HOME", "USER", "XDG_CONFIG_HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"].contains(name)
                || name.lowercased().hasSuffix("_proxy") || name.hasPrefix("GIT_SSL_") || name.hasPrefix("GIT_HTTP_")
                || name.hasPrefix("GIT_CONFIG_")
        }
        variables =
            kept.map { "\($0.key)=\($0.value)" } + [
                "PATH=" + places.joined(separator: ":"), "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=",
                "SSH_ASKPASS=", "GIT_ALLOW_PROTOCOL=http:https:file", "GIT_LFS_SKIP_SMUDGE=1",
            ]
        self.isStopped = isStopped
    }

    /// Runs git.
    ///
    /// - Parameters:
    ///   - directory: A bare repository; `nil` for none.
    ///   - input: Its standard input.
    ///   - more: Further variables, `NAME=value`.
    ///   - patience: How long the call may take.
    ///   - isTooMuch: Called several times a second; `true` ends the call.
    /// - Returns: Its standard output.
    package func run(
        _ arguments: [String], in directory: String? = nil, reading input: [UInt8]? = nil,
        variables more: [String] = [], patience: Duration = Git.patience, isTooMuch: () -> Bool = { false }
    ) throws(PluginError) -> [UInt8] {
        func fault(_ code: PluginError.Code, _ message: String) -> PluginError {
            .lfs(code, "git \(arguments.first { !$0.hasPrefix("-") && !$0.contains("=") } ?? ""): \(message)")
        }
        let place = directory.map { ["--git-dir=\($0)"] } ?? []
        let settings = [
            "protocol.version=2", "gc.auto=0", "core.hooksPath=/dev/null", "core.fsmonitor=false",
            // Gives up a server that is silent for a minute.
            "http.lowSpeedLimit=1", "http.lowSpeedTime=60",
        ]
        var start = ProgramStart(
            [program] + place + settings.flatMap { ["-c", $0] } + arguments, variables: variables + more)
        start.mask = 0o077
        var file: SharedDescriptor?
        if let input {
            do throws(FileError) { file = SharedDescriptor(try unnamedFile("git", holding: input)) } catch {
                throw fault(.unavailable, error.reason)
            }
            start.input = file?.raw
        }
        var wasTooMuch = false
        let (end, output, errors) = withExtendedLifetime(file) {
            start.collect(deadline: patience, most: Self.longest) {
                wasTooMuch = wasTooMuch || isTooMuch()
                return wasTooMuch || isStopped()
            }
        }
        switch end {
        case .exited(0): return output
        case .exited:
            let reason = Self.reason(errors)
            throw fault(Self.code(reason ?? ""), reason ?? "\(end)")
        case .stopped where wasTooMuch: throw fault(.badAnswer, "the repository gives more than is allowed")
        case .stopped: throw fault(.cancelled, "\(end)")
        case .timedOut, .silent: throw fault(.timedOut, "it took more than \(patience.components.seconds) s")
        case .overflowed: throw fault(.badAnswer, "it wrote more than \(ByteCount(UInt64(Self.longest)))")
        case .signalled, .unknown, .notRun: throw fault(.unavailable, "\(end)")
        }
    }

    /// The line that says why git failed: the first one with `fatal:` or `error:`, else the last one.
    private static func reason(_ errors: String) -> String? {
        let lines = errors.split(whereSeparator: \.isNewline).filter { !$0.allSatisfy(\.isWhitespace) }
        let fatal = lines.first {
            $0.hasPrefix("fatal: ") || $0.hasPrefix("error: ") || $0.hasPrefix("remote: error: ")
        }
        guard let line = fatal ?? lines.last else { return nil }
        let words = line.drop { $0 != ":" }.dropFirst()
        return escaped(String((fatal == nil ? line : words.drop { $0 == " " }).prefix(300)))
    }

    private static func code(_ reason: String) -> PluginError.Code {
        let missing = [
            "not found", "not our ref", "not a valid object name", "does not exist",
            "does not appear to be a git repository", "couldn't find remote ref", "expected commit type",
        ]
        let refused = [
            "could not read Username", "could not read Password", "Authentication failed", "error: 403",
            "access denied",
            "dubious ownership", "terminal prompts disabled",
        ]
        if missing.contains(where: reason.contains) { return .notThere }
        return refused.contains(where: reason.contains) ? .refused : .unavailable
    }
}
