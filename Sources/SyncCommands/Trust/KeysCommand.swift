import ArgumentParser
import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTrust

/// `syncagent keys`: the keys that sign what is published.
struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Make, show and change the keys that sign what is published.",
        subcommands: [
            KeysNewCommand.self, KeysShowCommand.self, KeysRefreshCommand.self, KeysRotateCommand.self,
        ]
    )

    func run() async throws { throw CommandFailure(.usage, KeysCommand.helpMessage()) }
}

/// `syncagent keys new`.
struct KeysNewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new",
        abstract: "Make the keys of a project, and the root that names them.",
        discussion: """
            Writes root.key, release.key, fresh.key and 1.root. Publishing needs release.key and fresh.key; put \
            root.key away, it is needed only when a key changes. Whoever pulls pins 1.root, or its digest.
            """
    )

    @Argument(help: "The directory for the keys.", completion: .directory)
    var directory: String

    @Option(help: ArgumentHelp("The project's name, such as com.example.tower.", valueName: "id"))
    var project: String

    @OptionGroup
    var secret: PassphraseOption

    @Option(
        help: ArgumentHelp("Root keys to make, root.key, root-2.key and so on.", valueName: "n")
    )
    var rootKeys = 1

    @Option(
        name: .customLong("root-threshold"),
        help: ArgumentHelp("How many of them have to sign a change of keys.", valueName: "n")
    )
    var threshold = 1

    @Option(
        name: .customLong("mirror"),
        help: ArgumentHelp(
            "Another place with the same files, as https://mirror.example.com/tower/; may be given more than once.",
            valueName: "url"
        )
    )
    var mirrors: [String] = []

    @Option(
        help: ArgumentHelp("How long the root counts, such as 2y.", valueName: "time"),
        transform: validity
    )
    var until = KeyTimes.ofRoots

    func validate() throws {
        if let reason = ManifestRules.objection(identifier: project, what: "project") {
            throw ValidationError("--project: \(reason).")
        }
        guard (1...16).contains(rootKeys), (1...rootKeys).contains(threshold) else {
            throw ValidationError(
                "--root-keys takes 1 to 16, --root-threshold 1 to as many as there are keys."
            )
        }
        for mirror in mirrors {
            do throws(TrustFault) {
                _ = try RootStatement.mirror(mirror)
            } catch {
                throw ValidationError("--mirror: \(error.reason).")
            }
        }
    }

    func run() async throws {
        let output = Output()
        let now = EngineAssembly.milliseconds()
        var beginning = KeyDirectory.Beginning(project: project, now: now, until: now + until)
        (beginning.rootKeys, beginning.threshold, beginning.mirrors) = (rootKeys, threshold, mirrors)
        let secret = try secret.passphrase()
        let made = try publishing { () throws(PublishError) in
            try KeyDirectory.make(directory, beginning, passphrase: secret)
        }
        output.message("\(escaped(made.path)): keys of \(project), root 1")
        output.message("Sign with:  syncagent publish … --sign \(escaped(made.path))")
        output.message("Trust it with:  syncagent pull … --trust SHA256:\(made.newest.statement.digest)")
        output.message("Put root.key away: it is needed only when a key changes.")
    }
}

/// `syncagent keys show`.
struct KeysShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a directory of keys, or a statement such as 1.root, 42.release or fresh."
    )

    @Argument(help: "The directory, or a statement.", completion: .file())
    var path: String

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func run() async throws {
        let output = Output()
        var isDirectory: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
        let text: StatementText
        if exists, isDirectory.boolValue {
            let keys = try publishing { () throws(PublishError) in try KeyDirectory(path, passphrase: nil) }
            text = StatementText(root: keys.newest)
            for role in Role.allCases where !format.json {
                for name in keys.names(role) { output.message("\(escaped(path))/\(escaped(name))") }
            }
        } else {
            text = try StatementText(file: path)
        }
        if format.json {
            output.event(text.json, flushing: true)
        } else {
            text.lines.forEach { output.line($0) }
        }
    }
}

/// `syncagent keys refresh`.
struct KeysRefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Say once more that what is published is the newest, before the last word on it runs out.",
        discussion:
            "Needs the roots and fresh.key alone, so it can run unattended where the files are served."
    )

    @Argument(help: "The directory that was published to.", completion: .directory)
    var output: String

    @OptionGroup
    var signing: SigningOptions

    func run() async throws {
        let terminal = Output()
        guard let signed = try signing.signing(for: output, [.fresh]) else {
            throw ValidationError("--sign wants the directory with fresh.key and the roots.")
        }
        let out = output
        guard FileManager.default.fileExists(atPath: out) else {
            throw CommandFailure(.noInput, "\(escaped(out)): there is no such directory")
        }
        let fresh = try publishing { () throws(PublishError) in try Publisher.refresh(out, signed) }
        terminal.message(
            "\(escaped(fresh.project)) revision \(fresh.revision) counts until \(timestamp(milliseconds: fresh.until))"
        )
    }
}

/// `syncagent keys rotate`.
struct KeysRotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Put a new key in the place of one, and write the root that says so.",
        discussion: """
            Needs root.key, or as many root keys as the root asks for. The old key stays as NAME.key.1; with the \
            next publish or refresh it counts no more.
            """
    )

    @Argument(help: "The directory with the keys.", completion: .directory)
    var directory: String

    @Option(help: ArgumentHelp("Which key: root, release or fresh.", valueName: "role"))
    var role: Role

    @OptionGroup
    var secret: PassphraseOption

    @Option(
        help: ArgumentHelp("How long the new root counts, such as 2y.", valueName: "time"),
        transform: validity
    )
    var until = KeyTimes.ofRoots

    func run() async throws {
        let output = Output()
        let now = EngineAssembly.milliseconds()
        let secret = try secret.passphrase()
        let keys = try publishing { () throws(PublishError) in
            try KeyDirectory(directory, passphrase: secret).rotated(role, now: now, until: now + until)
        }
        output.message(
            "\(escaped(keys.path)): new \(role.rawValue).key, root \(keys.newest.content.number); "
                + "the old key is kept as \(role.rawValue).key.1"
        )
        output.message(
            "Now publish again with --sign, or: syncagent keys refresh OUT --sign \(escaped(keys.path))"
        )
    }
}

/// How long what is signed counts, **milliseconds**.
enum KeyTimes {
    static let day: Int64 = 86_400_000
    /// A root need not be signed again and again: a thief of its keys is shut out by the next one.
    static let ofRoots = 3652 * day
    /// The most anybody may ask for.
    static let most = 7305 * day
}

/// Reads a time such as `30d`, `12h` or `2y`, in **milliseconds**.
@Sendable
func validity(_ text: String) throws -> Int64 {
    let units: [Character: Int64] = ["m": 60_000, "h": 3_600_000, "d": KeyTimes.day, "y": 365 * KeyTimes.day]
    let count = Int64(text.dropLast())
    let (time, overflow) = (count ?? 0).multipliedReportingOverflow(by: text.last.flatMap { units[$0] } ?? 0)
    guard !overflow, time > 0, time <= KeyTimes.most else {
        throw ValidationError("'\(escaped(text))' is no time such as 30d, 12h or 2y.")
    }
    return time
}

extension Role: ExpressibleByArgument {}

/// Runs a step of the publisher for a command.
func publishing<R>(_ work: () throws(PublishError) -> R) throws(CommandFailure) -> R {
    do throws(PublishError) {
        return try work()
    } catch {
        throw CommandFailure(error.exitStatus, error.description)
    }
}
