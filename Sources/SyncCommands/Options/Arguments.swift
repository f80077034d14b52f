import ArgumentParser
import Foundation
import SyncAssembly
import SyncEngine
import SyncManifest
import SyncModel
import SyncSystem
import SyncTransfer

extension CompletionKind {
    /// Files that may be manifests.
    static var manifests: CompletionKind { .file(extensions: ["json", "zst"]) }
}

extension String {
    /// The help of an option whose value has this name.
    func taking(_ value: String) -> ArgumentHelp { ArgumentHelp(self, valueName: value) }
}

/// How much a command prints, and in which form.
struct ReportingOptions: ParsableArguments {
    @Flag(help: "Print JSON to standard output, one object per line.") var json = false

    @Flag(name: .shortAndLong, help: "Print only warnings and errors.") var quiet = false

    func output() -> Output { Output(quiet: quiet, hasColour: EnvironmentPaths.ofProcess.wantsColour) }

    func display(on output: Output) -> ProgressDisplay {
        let style = ProgressDisplay.style(quiet: quiet, json: json, environment: .ofProcess)
        let hasColour = style == .terminal && EnvironmentPaths.ofProcess.wantsColour
        return ProgressDisplay(output: output, style: style, hasColour: hasColour)
    }
}

/// Whose sessions a read-only command shows.
struct SystemOption: ParsableArguments {
    @Flag(help: "Show the sessions of the system's own user, in /var/lib/syncagent; for root and that user.")
    var system = false

    /// The environment of that user.
    func environment() throws(CommandFailure) -> EnvironmentPaths { system ? try .ofSystem() : .ofProcess }
}

/// How much is printed about single files.
struct VerboseOption: ParsableArguments {
    @Flag(
        name: [.customShort("v"), .customLong("verbose")],
        help: "List each file and what happens to it; given twice, list unchanged files as well.")
    var verbose: Int

    var detail: PlanDetail { PlanDetail(rawValue: min(2, verbose)) ?? .totals }
}

/// Which files are listed.
enum PlanDetail: Int, Sendable {
    case totals
    /// Files with an action.
    case changes
    case all

    var isWanted: Bool { self != .totals }

    func shows(_ file: PlannedFile) -> Bool { self == .all || file.action != .unchanged }
}

/// The release of a set.
struct ReleaseOptions: ParsableArguments {
    @Option(
        help: "The channel to follow, such as beta.  (default: the release that manifest.json holds)".taking("name"))
    var channel: String?

    @Option(help: "Use this revision instead of the newest; the publisher must still have it.".taking("n"))
    var revision: UInt64?

    func validate() throws {
        if let channel = ChannelName.meant(channel), let reason = ChannelName.objection(channel) {
            throw ValidationError("--channel: \(reason).")
        }
        if revision == 0 { throw ValidationError("--revision counts from 1.") }
    }

    func apply(to recipe: inout RunRecipe) {
        (recipe.channel, recipe.revision) = (ChannelName.meant(channel), revision)
    }
}

/// The manifest, the destination and the part of it that a verb works on.
struct TargetOptions: ParsableArguments {
    @Argument(
        help:
            "The manifest: a path, an http(s) URL or s3://BUCKET/PREFIX; or in its place a checksum list, a Metalink, hf://ORG/NAME, oci://HOST/NAME:TAG or lfs+https://HOST/PATH.git.",
        completion: .manifests)
    var manifest: String

    @Argument(
        help:
            "Only these files, or files below these directories; named as in the manifest. For patterns there is --include."
            .taking("path"))
    var paths: [String] = []

    @Option(
        name: .customLong("into"), help: "The destination directory.  (default: ./<project>)".taking("dir"),
        completion: .directory)
    var destination: String?

    @Option(
        help: "The session's name.  (default: the manifest's project, or PROJECT:NAME for another destination)".taking(
            "id"))
    var session: String?

    @Option(name: .customLong("group"), help: "Only the files of this group; repeatable.".taking("name"))
    var groups: [String] = []

    @Option(
        help:
            "Only files whose path, or a directory above it, matches, such as maps or **/*.pdf; repeatable. Unlike a group, which the publisher defines, a selection completes only the group 'all' and runs no other group's hooks. Files that are not selected are left alone, even by --prune."
            .taking("glob"))
    var include: [String] = []

    @Option(help: "Skip files whose path, or a directory above it, matches; repeatable.".taking("glob"))
    var exclude: [String] = []

    func validate() throws {
        try requireLocation(manifest, "MANIFEST")
        if destination == "" { throw ValidationError("--into needs a directory, not an empty string.") }
        if let destination { try requireLocal(destination, "--into", "run the pull there") }
        if let objection = session.flatMap(RunRecipe.objection(toSession:)) {
            throw ValidationError("--session: \(objection).")
        }
        if let path = paths.first(where: Glob.isPattern) {
            throw ValidationError("PATH '\(escaped(path))' is a pattern: use --include.")
        }
        let selections = [("--include", include), ("--exclude", exclude), ("PATH", paths)]
        for (option, patterns) in selections {
            for pattern in patterns {
                let plain = pattern.hasSuffix("/") ? pattern.dropLast() : pattern[...]
                let components = plain.split(separator: "/", omittingEmptySubsequences: false)
                guard components.contains(where: { ["", ".", ".."].contains($0) }) else { continue }
                throw ValidationError(
                    "\(option) '\(escaped(pattern))' matches no path: write it relative to the destination, without '.' and '..'."
                )
            }
        }
        if groups.contains("") { throw ValidationError("--group needs a name, not an empty string.") }
    }
}

/// Refuses an empty manifest, and a password in its URL, where it would be recorded and shown.
///
/// - Parameter hasOptions: Whether the command has the options of a pull.
func requireLocation(_ location: String, _ name: String, hasOptions: Bool = true) throws {
    if location.isEmpty { throw ValidationError("\(name) needs a path or a URL, not an empty string.") }
    let scheme = urlScheme(of: location) ?? ""
    // What an `@` is about in `hf://` is a revision; what it is for a plugin, that has to say.
    guard webSchemes.union(builtInSchemes).subtracting(["hf"]).contains(scheme),
        let colon = location.range(of: "://")
    else { return }
    let isWithHost = location[colon.upperBound...].first.map { $0 != "/" && $0 != "?" && $0 != "#" } == true
    guard isWithHost || !webSchemes.contains(scheme) else {
        throw ValidationError("\(name) is a URL without a host: \(redacted(url: location))")
    }
    // Scalars, not characters: an `@` with a combining mark behind it also ends a password.
    let authority = location.unicodeScalars[colon.upperBound...].prefix { !"/?#".unicodeScalars.contains($0) }
    guard !authority.contains("@") else {
        let remedy =
            switch scheme {
            case "oci": "log in with 'docker login' or 'oras login'"
            case "s3": "keys are for AWS's own files"
            case let other where other.hasPrefix("lfs+"): "leave them out: git's credential helpers have them"
            default:
                "write them into a credentials file, which \(hasOptions ? "--credentials or " : "")credentials_file in "
                    + "the configuration names"
            }
        throw ValidationError("\(name) is a URL with a user name or password in it; \(remedy).")
    }
    try requireURL(location, name)
}

/// Refuses an `http` or `https` URL that nobody can request.
func requireURL(_ url: String, _ name: String) throws {
    if let objection = webURLObjection(url) { throw ValidationError("\(name) is \(objection).") }
}

/// Why an `http` or `https` URL cannot be requested, such as one with the port 99999: what it is; `nil` if it can, and
/// for other URLs.
func webURLObjection(_ url: String) -> String? {
    guard isWebURL(url) else { return nil }
    do { _ = try CurlURL(url) } catch {
        return "not a URL that can be requested, \(redacted(url: url)): \(error)"
    }
    return nil
}

/// Refuses a place on another machine, since a directory of that name would be created here.
///
/// Remote places are recognized as by rsync(1) and scp(1): a colon before the first slash, which a path such as `./a:b`
/// does not have.
func requireLocal(_ path: String, _ option: String, _ remedy: String) throws {
    guard let colon = path.firstIndex(of: ":"), colon > path.startIndex, !path[..<colon].contains("/") else { return }
    // The user's name is not shown.
    let place = path.contains("://") ? redacted(url: path) : escaped(String(path.split(separator: "@").last ?? ""))
    throw ValidationError(
        "\(option) needs a directory of this machine, not '\(place)': \(remedy); for a directory of that name, begin with ./"
    )
}

/// Parses the value of an option such as `--limit-rate`: `65536`, `64K`, `1.5MB`; more than zero.
@Sendable func positiveByteCount(_ text: String) throws -> ByteCount {
    guard let count = ByteCount(parsing: text), count.bytes > 0 else { throw noByteCount(text) }
    return count
}

/// Parses the value of an option such as `--speed-limit`: as ``positiveByteCount(_:)``, or 0.
@Sendable func byteCount(_ text: String) throws -> ByteCount {
    guard let count = ByteCount(parsing: text) else { throw noByteCount(text) }
    return count
}

private func noByteCount(_ text: String) -> ValidationError {
    ValidationError("'\(escaped(text))' is not a number of bytes such as 65536, 64K or 1.5MB.")
}

/// Parses a word of an enumeration.
func oneWord<Words: RawRepresentable<String> & CaseIterable>(_ text: String, _ option: String) throws -> Words {
    if let word = Words(rawValue: text) { return word }
    let known = Words.allCases.map(\.rawValue).joined(separator: ", ")
    throw ValidationError("\(option) takes one of \(known), not '\(escaped(text))'.")
}

/// Parses the value of an option such as `--idle-timeout`, see ``SettingValue/duration(_:)``.
@Sendable func duration(_ text: String) throws -> Duration { try setting(SettingValue.duration(text)) }

/// Parses the value of an option such as `--deadline`, see ``SettingValue/period(_:)``.
@Sendable func period(_ text: String) throws -> Duration { try setting(SettingValue.period(text)) }

/// Parses a setting for the argument parser.
///
/// - Parameter name: The option's name, if the parser does not print it.
func setting<Value>(of name: String? = nil, _ read: @autoclosure () throws(SettingsError) -> Value) throws -> Value {
    do throws(SettingsError) { return try read() } catch {
        if error == .noWorkingDirectory { throw CommandFailure(.cannotCreate, "\(error).") }
        throw ValidationError("\(name.map { $0 + ": " } ?? "")\(error.description).")
    }
}
