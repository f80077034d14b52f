import ArgumentParser
import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncSystem
import SyncTrust

struct KeysCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "keys", abstract: "Create, show and change the keys that sign releases.",
        subcommands: [
            KeysNewCommand.self, KeysShowCommand.self, KeysRefreshCommand.self, KeysRotateCommand.self,
            KeysSignCommand.self,
        ])
}

struct KeysNewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new", abstract: "Create a project's keys and the root that lists them.",
        discussion: """
            Writes root.key, release.key, fresh.key and 1.root. Publishing needs release.key and fresh.key. Keep \
            root.key offline: it is needed only to change a key. Machines that pull pin 1.root or its digest.

            Name root keys made on other machines by their .pub files. If too few of the keys that must sign are here, \
            the command writes 1.root.pending instead of 1.root; pass it around and run 'syncagent keys sign' on it.

            If too many root keys are lost to change a key, give --after the directory that was published with them: \
            the new keys begin with the next root number. Then publish with them, and pin the project again on every \
            machine.
            """)

    @Argument(help: "The directory for the keys.", completion: .directory) var directory: String

    @Option(help: "The project's name, such as com.example.tower.".taking("id")) var project: String

    @Option(help: "How many root keys to create: root.key, root-2.key and so on.".taking("n")) var rootKeys = 1

    @Option(name: .customLong("root-threshold"), help: "How many root keys must sign a change of keys.".taking("n"))
    var threshold = 1

    @Option(
        name: .customLong("root-public"),
        help: "The public half of a root key made elsewhere, for example with ssh-keygen -t ed25519; repeatable."
            .taking("file"), completion: .file(extensions: ["pub"]))
    var otherRoots: [String] = []

    @Option(
        name: .customLong("mirror"),
        help: "The URL of a mirror, such as https://mirror.example.com/tower/; repeatable.".taking("url"))
    var mirrors: [String] = []

    @Option(help: "How long the root is valid, such as 2y.".taking("time"), transform: validity) var until =
        validityOfRoots

    @Option(
        help:
            "Start over because root keys are lost: after the newest root in this published directory, or after this root."
            .taking("path"), completion: .file())
    var after: String?

    func validate() throws {
        if let reason = ManifestRules.objection(identifier: project, what: "project") {
            throw ValidationError("--project: \(reason).")
        }
        let all = (1...16).contains(rootKeys) ? rootKeys + otherRoots.count : 0
        guard (1...16).contains(all), (1...all).contains(threshold) else {
            throw ValidationError("--root-keys takes 1 to 16, and --root-threshold 1 to the number of root keys.")
        }
        guard mirrors.count <= RootStatement.mostMirrors else {
            throw ValidationError("--mirror takes at most \(RootStatement.mostMirrors) mirrors, not \(mirrors.count).")
        }
        for mirror in mirrors {
            _ = try rethrowing(RootStatement.mirror(mirror)) { (fault: TrustFault) in
                ValidationError("--mirror: \(fault.reason).")
            }
        }
    }

    func run() async throws {
        let output = Output()
        let now = SystemTime.milliseconds()
        let others = try otherRoots.map { try publicKey($0, option: "--root-public") }
        let beginning = RootStatement(
            project: project, number: try after.map { try KeyDirectory.number(after: $0, of: project) } ?? 1,
            signed: now,
            until: now + until, root: RoleKeys(keys: others, threshold: threshold), release: RoleKeys(),
            fresh: RoleKeys(), mirrors: mirrors)
        let (root, keys) = try KeyDirectory.make(directory, beginning, rootKeys: rootKeys)
        guard let made = keys else { return root.write(output) }
        output.message("\(escaped(made.path)): keys of \(project), root \(made.newest.content.number)")
        output.message("Sign with:  syncagent publish … --sign \(escaped(made.path))")
        if after != nil {
            output.message("On each machine, forget the old keys with:  syncagent trust forget \(project)")
        }
        output.message("Trust it with:  syncagent pull … --trust SHA256:\(made.newest.statement.digest)")
        let names = try KeyDirectory.names(.root, in: made.path).joined(separator: ", ")
        output.message("Keep \(names) offline: only needed to change a key.")
    }
}

struct KeysShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show a directory of keys, or a statement such as 1.root, 42.release or fresh.")

    @Argument(help: "The directory or statement.", completion: .file()) var path: String

    @OptionGroup(title: "Output") var format: JSONFlag

    func run() async throws {
        let output = Output()
        var isDirectory: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
        let text: StatementText
        if exists, isDirectory.boolValue {
            let keys = try KeyDirectory(path)
            text = StatementText(root: keys.newest)
            for role in Role.allCases where !format.json {
                for name in try KeyDirectory.names(role, in: path) {
                    output.message("\(escaped(path))/\(escaped(name))")
                }
            }
        } else {
            text = try StatementText(file: path)
        }
        if format.json { return output.event(text.json, flushing: true) }
        for line in text.lines { output.line(line) }
    }
}

struct KeysRefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Confirm that the published release is still the newest, before its time stamp expires.",
        discussion: "Needs only the roots and fresh.key, so it can run unattended on the web server.")

    @OptionGroup var published: PublishedOptions

    @OptionGroup var signing: SigningOptions

    func run() async throws {
        let terminal = Output()
        let output = published.target.name
        guard let signed = try signing.signing(for: output, [.fresh]) else {
            throw CommandFailure(.usage, "--sign needs the directory with fresh.key and the roots")
        }
        let refreshed = try await published.target.working(isWriting: true, isSigning: true) { place in
            try signed.refresh(place)
        }
        for (fresh, root) in refreshed.statements {
            if let channel = fresh.channel, fresh.isRemoved {
                terminal.message("\(escaped(fresh.project)) channel \(channel) stays removed")
                continue
            }
            let channel = fresh.channel.map { ", channel \($0)," } ?? ""
            let former = root < fresh.root ? "; it was signed under root \(root) before" : ""
            terminal.message(
                "\(escaped(fresh.project)) revision \(fresh.revision)\(channel) is valid until "
                    + timestamp(milliseconds: fresh.until) + former)
        }
        if let ahead = refreshed.ahead {
            terminal.warning(
                "revision \(ahead) was signed as well, but nothing points at it: machines still get revision \(refreshed.newest). A publish "
                    + "was interrupted, or an older trust/fresh was restored. To make it the newest, publish again with --sign; "
                    + "to withdraw it, remove \(escaped(output))/trust/\(ahead).release")
        }
        for error in refreshed.refused.dropLast() { terminal.warning(error.description) }
        if let error = refreshed.refused.last { throw CommandFailure(error.exitStatus, error.description) }
    }
}

struct KeysRotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate", abstract: "Replace a key, and write a new root that lists the new one.",
        discussion: """
            Needs root.key, or as many root keys as the root requires. The old key is kept as NAME.key.1; the next \
            publish or refresh revokes it. If too few of the root keys are here, or none, or they have passphrases, \
            the command writes N.root.pending instead of N.root; run 'syncagent keys sign' on it where they are.
            """)

    @Argument(help: "The directory with the keys.", completion: .directory) var directory: String

    @Option(help: "Which key: root, release or fresh.".taking("role")) var role: Role

    @Option(
        help: "Which of several keys to replace, as 'syncagent keys show' prints it.  (default: the one that is here)"
            .taking("SHA256:…"))
    var replace: String?

    @Option(
        help: "The public half of a new key made elsewhere.  (default: create a key)".taking("file"),
        completion: .file(extensions: ["pub"]))
    var by: String?

    @Option(help: "How long the new root is valid, such as 2y.".taking("time"), transform: validity)
    var until = validityOfRoots

    func run() async throws {
        let output = Output()
        let now = SystemTime.milliseconds()
        let other = try by.map { try publicKey($0, option: "--by") }
        let former = try KeyDirectory(directory)
        let signed = former.newest.content.signed
        if signed > now + TrustCheck.clockTolerance { output.warning(SigningOptions.clockWarning(signed, now: now)) }
        let outcome = try former.rotated(role, replacing: replace, by: other, now: now, until: now + until)
        guard let keys = outcome.keys else { return outcome.root.write(output) }
        output.message(
            "\(escaped(keys.path)): new \(role.rawValue) key, root \(keys.newest.content.number)"
                + (keys.kept.map { "; the old key is kept as \(escaped($0))" } ?? ""))
        // Content that a revoked release key has signed is not signed again without review.
        output.message(
            "Now publish again with --sign"
                + (role == .release ? "." : ", or: syncagent keys refresh OUT --sign \(escaped(keys.path))"))
    }
}

struct KeysSignCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sign", abstract: "Show a root that several machines have to sign, and add a signature.",
        discussion: """
            Shows N.root.pending with each of its keys and what changes, asks, and adds the signature of a root key. \
            With the last signature that is needed it becomes N.root. It is compared with the newest root next to \
            the key, or with the one that --from names, never with one that merely came with it. Roots in between \
            are read from the directory of N.root.pending.
            """)

    @Argument(help: "The pending root, such as 2.root.pending.", completion: .file(extensions: ["pending"]))
    var file: String

    @Option(help: "A root key, or the directory that holds it as root.key.".taking("key"), completion: .file())
    var with: String?

    @Option(help: "A program that signs, as for 'syncagent publish'.".taking("program"), completion: .file())
    var signer: String?

    @Option(
        help: "The root to compare it with, which you know to be right.  (default: the newest one next to the key)"
            .taking("root"), completion: .file(extensions: ["root"]))
    var from: String?

    @Flag(
        help:
            "It is the first root of new keys, because the former root keys are lost: there is no root to compare it with."
    )
    var first = false

    @Flag(help: "Sign without asking; needed where there is no terminal.") var yes = false

    func validate() throws {
        if with == nil, signer == nil { throw ValidationError("--with needs a root key, or its directory.") }
        if first, from != nil { throw ValidationError("--first and --from are mutually exclusive.") }
    }

    func run() async throws {
        let output = Output()
        let program = try SigningOptions.program(signer)
        var pending = try PendingRoot(file, after: from, heldIn: with.map(PendingRoot.keyDirectory), isFirst: first)
        let keys = try with.map { try pending.keys(at: $0, leavesLocked: program != nil) } ?? []
        pending.show(output)
        try confirm(output)
        // From here on a stop ends the program that signs, too.
        _ = StopSignals.firstRequest()
        do {
            try pending.sign(by: keys, program: program) { StopSignals.requestedStatus != nil }
        } catch {
            if let status = StopSignals.requestedStatus { throw CommandFailure(status) }
            throw error
        }
        pending.conclude(written: try pending.write(), output)
    }

    /// Asks for confirmation, so that nothing is signed unseen.
    private func confirm(_ output: Output) throws(CommandFailure) {
        guard !yes else { return }
        guard isTerminal(STDIN_FILENO), isTerminal(STDERR_FILENO) else {
            throw CommandFailure(
                .usage,
                "nothing was signed: there is no terminal to ask on; compare what is shown above with what the others "
                    + "have, and add --yes")
        }
        output.message("Compare this with what the others have. Sign it? Type yes:")
        guard readLine()?.filter({ !$0.isWhitespace }) == "yes" else {
            throw CommandFailure(.refused, "nothing was signed")
        }
    }
}

// The messages about a pending root.
extension PendingRoot {
    /// Shows a pending root that was just created.
    fileprivate func write(_ output: Output) {
        show(output)
        conclude(written: path, output)
    }

    /// Shows everything that a signature confirms.
    fileprivate func show(_ output: Output) {
        for line in StatementText(pending: self).lines { output.message(line) }
        if let before, let reference {
            let known = escaped(reference)
            let (number, digest) = (before.content.number, before.statement.digest)
            output.message("Compared with root \(number), SHA256:\(digest), by \(known):")
        }
        for change in changes { output.message(change) }
    }

    /// Shows the signatures so far, and the next step.
    fileprivate func conclude(written: String, _ output: Output) {
        for count in counts {
            output.message("root \(count.root) has \(count.signed) of the \(count.needed) signatures that it requires")
        }
        guard !isComplete else {
            let next =
                before == nil
                ? "Trust it with:  syncagent pull … --trust \(escaped(written))"
                : "Copy it next to the previous roots where releases are signed, and publish again with --sign, or refresh."
            output.message("\(escaped(written)) has enough signatures and is valid now.")
            output.message("Keep a copy next to each root key: the next root is compared with it.")
            return output.message(next)
        }
        for count in counts where count.signed < count.needed {
            let keys = count.missing.map(\.fingerprint).joined(separator: ", ")
            output.message("Still needed: \(count.needed - count.signed) of \(keys)")
        }
        let name = written.split(separator: "/").last.map(String.init) ?? written
        let isAnew = before == nil && content.number > 1
        output.message(
            "Take \(escaped(written)) to the next key:  syncagent keys sign \(escaped(name)) --with KEY"
                + (isAnew ? " --first" : ""))
    }
}

/// Reads a public key for an option. No other user may be able to write the file, since the key will be trusted.
private func publicKey(_ path: String, option: String) throws -> PublicKey {
    let bytes = try rethrowing(readUnchangeable(path, limit: 4096)) { (error: FileError) in
        let status: ExitStatus = error.isMissing ? .noInput : error.isRefusal ? .refused : .ioError
        return CommandFailure(status, "\(option): \(error)")
    }
    return try rethrowing(PublicKey(text: String(decoding: bytes, as: UTF8.self))) { (fault: TrustFault) in
        CommandFailure(.dataInvalid, "\(option): \(escaped(path)): \(fault.reason)")
    }
}

/// Reads a file that was named on the command line.
func inputFile(_ path: String, limit: Int) throws(CommandFailure) -> [UInt8] {
    try rethrowing(readFile(path, trust: .input, limit: limit)) { (error: FileError) in
        CommandFailure(error.isMissing ? .noInput : .ioError, "\(error)")
    }
}

/// A root need not be signed again often: stolen keys are revoked by the next root. **Milliseconds**.
private let validityOfRoots = 3652 * day

private let day: Int64 = 86_400_000

/// Parses a time such as `30d`, `12h` or `2y`, in **milliseconds**.
@Sendable func validity(_ text: String) throws -> Int64 {
    let units: [Character: Int64] = ["m": 60_000, "h": 3_600_000, "d": day, "y": 365 * day]
    let digits = text.dropLast()
    let count = digits.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int64(digits) : nil
    let (time, overflow) = (count ?? 0).multipliedReportingOverflow(by: text.last.flatMap { units[$0] } ?? 0)
    guard !overflow, time > 0, time <= 7305 * day else {
        throw ValidationError("'\(escaped(text))' is not a time such as 30d, 12h or 2y, of at most 20y.")
    }
    return time
}

extension Role: ExpressibleByArgument {}
