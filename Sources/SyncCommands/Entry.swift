import ArgumentParser
import Foundation
import SyncAssembly
import SyncEngine
import SyncModel
import SyncStore
import SyncSystem

/// The process's entry: parses the command line, runs the verb, exits with its status.
package func runSyncagent() -> Never {
    CurrentProcess.resetSignals()
    CurrentProcess.holdStandardDescriptors()
    SignalPipe.ignoreBrokenPipes()
    let processors = ProcessInfo.processInfo.activeProcessorCount
    boundHeaps(processors: processors)
    do {
        try checkLimits()
        let words = try LayoutChoice.named(ScheduleOptions.joined(arguments()))
        if words.first == "pull", processors > 1 { prepareForPull() }
        var command = try SyncagentCommand.parse(words)
        guard let asynchronous = command as? any AsyncParsableCommand else {
            try command.run()
            terminate(ExitStatus.done.rawValue)
        }
        Task {
            var command = asynchronous
            do {
                try await command.run()
                terminate(ExitStatus.done.rawValue)
            } catch {
                // A pull has printed its last line by now.
                terminate(because: error)
            }
        }
        // The task ends the process; signals only interrupt the wait.
        while true { pause() }
    } catch {
        // Also if an argument is not UTF-8.
        let words = ((try? argumentBytes()) ?? []).map { String(decoding: $0, as: UTF8.self) }
        if words.contains("--json") {
            switch words.first {
            case "pull": PullEnd().write(error, on: Output())
            case "publish" where !SyncagentCommand.exitCode(for: error).isSuccess:
                PublishCommand.write(error, isDryRun: words.contains("--dry-run"), 0, Output())
            default: break
            }
        }
        terminate(because: error)
    }
}

/// Pays on another processor, while the words are parsed, for what is set up at its first use: the conformances of
/// option types that are parsed last, libcurl and OpenSSL, and the coders of a run's record, which is rehearsed in
/// memory. This is an eighth of a pull of one small file.
private func prepareForPull() {
    Task {
        _ = (try? TransferOptions.parse([]), try? TrustOptions.parse([]), try? DestinationOptions.parse([]))
        try? Libcurl.check()
        SyncStore.rehearse()
    }
}

/// Refuses to run with too low limits. libdispatch, which runs Swift's threads, waits for ever for a thread without
/// address space, and ends the program by a signal without a descriptor for a timer.
///
/// - Throws: ``CommandFailure`` with status 78.
private func checkLimits() throws(CommandFailure) {
    let (openFiles, addressSpace): (Int, UInt64) = (24, 300 << 20)
    // The default of most systems. A lower soft limit is raised, if the hard limit allows more.
    let usual: UInt64 = 1_024
    if let limit = CurrentProcess.raiseOpenFileLimit(usual), limit < openFiles {
        throw CommandFailure(
            .configuration,
            "syncagent needs at least \(openFiles) open files, and the limit is \(limit). Raise it: ulimit -n \(usual)"
        )
    }
    guard CurrentProcess.addressSpaceLimit >= addressSpace else {
        throw CommandFailure(
            .configuration,
            "syncagent needs at least \(addressSpace >> 20) MiB of address space, and the limit is "
                + "\(CurrentProcess.addressSpaceLimit >> 20) MiB. Raise it: ulimit -v \(addressSpace >> 10)")
    }
}

/// The arguments without the program's name, as the kernel has them. proc(5). A library that was loaded earlier, such
/// as faketime's, may have moved the environment; then Swift does not find the arguments.
///
/// - Throws: ``CommandFailure`` with status 64 for an argument that is not UTF-8, since a repaired path would name
///   another file; with status 78 if /proc is not mounted, which Swift's threads need, too.
private func arguments() throws(CommandFailure) -> [String] {
    var words: [String] = []
    for bytes in try argumentBytes() {
        guard let word = String(validating: bytes, as: UTF8.self) else {
            throw CommandFailure(
                .usage,
                "an argument is not UTF-8: \(shownBytes(bytes)). Rename what it names, or reach it by a symbolic link.")
        }
        words.append(word)
    }
    return words
}

/// Bytes for a message: ASCII as it is, every other byte as `\x` and two digits. A long text is cut.
private func shownBytes(_ bytes: Data) -> String {
    let shown = bytes.prefix(200).map { byte in
        let isPlain = (0x20..<0x7F).contains(byte)
        return isPlain ? String(Unicode.Scalar(byte)) : "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }
    return shown.joined() + (bytes.count > 200 ? "…" : "")
}

private func argumentBytes() throws(CommandFailure) -> [Data] {
    guard let file = FileHandle(forReadingAtPath: "/proc/self/cmdline"), let bytes = try? file.readToEnd(),
        bytes.last == 0
    else {
        throw CommandFailure(
            .configuration, "syncagent needs the proc file system, and /proc is not mounted: mount -t proc proc /proc")
    }
    return Array(bytes.dropLast().split(separator: 0, omittingEmptySubsequences: false).dropFirst())
}

/// Ends the process at once, as _exit(2) does: all that must last has been written with write(2) by then.
///
/// Not with exit(3): its handlers, such as `OPENSSL_cleanup` of OPENSSL_init_crypto(3), destroy state that threads may
/// still use, such as one that hashes or one that waits for a name server past a deadline.
private func terminate(_ status: Int32) -> Never {
    // A truncated listing must not exit with 0, nor with diff's 1.
    guard let lost = Output.lost, status <= 1 else { CurrentProcess.exit(status) }
    Output().error("cannot write to standard output: \(lost)")
    CurrentProcess.exit(ExitStatus.ioError.rawValue)
}

private func terminate(because error: any Error) -> Never {
    if let failure = CommandFailure(error) {
        // Help in place of an error needs no program name before it.
        if failure.message.hasPrefix("OVERVIEW:") {
            Output().message(SyncagentCommand.arranged(failure.message))
        } else if !failure.message.isEmpty {
            Output().error(failure.message)
        }
        terminate(failure.status.rawValue)
    }
    // Wrong arguments, and --help and --version, which end a parse by throwing.
    let (code, text) = (SyncagentCommand.exitCode(for: error), SyncagentCommand.fullMessage(for: error))
    if code.isSuccess {
        Output().line(SyncagentCommand.arranged(text))
    } else if !text.isEmpty {
        Output().message(text)
    }
    terminate(code.rawValue)
}

/// A command that only has subcommands. Alone it ends with its help as an error, so that a script with an empty verb
/// does not seem to succeed.
protocol CommandGroup: AsyncParsableCommand {}

extension CommandGroup {
    func run() async throws { throw CommandFailure(.usage, SyncagentCommand.helpMessage(for: Self.self)) }
}

/// The only executable. Every verb is a subcommand in its own file.
struct SyncagentCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "syncagent",
        abstract: "Make a directory match a published manifest: verified, and with few requests.",
        discussion: """
            Data goes to standard output, progress and messages to standard error.

            Exit status: 0 done, 1 internal error, 2 incomplete or differing files, 5 files in place but a \
            hook failed, 64 usage, 65 manifest or data invalid, 66 manifest not found, 69 no server reachable, \
            73 cannot create destination or state, 74 I/O error or disk full, 75 session busy, 77 refused by a \
            server or by policy, 78 configuration, 130 or 143 interrupted, with everything fetched so far kept.
            """, version: syncagentVersion,
        groupedSubcommands: [
            .init(
                name: "Pull",
                subcommands: [
                    PullCommand.self, PlanCommand.self, VerifyCommand.self, RevisionsCommand.self,
                    RollbackCommand.self, TrustCommand.self,
                ]),
            .init(
                name: "Publish",
                subcommands: [
                    PublishCommand.self, ReleasesCommand.self, ChannelCommand.self, KeysCommand.self, ServeCommand.self,
                ]),
            .init(
                name: "Read a manifest",
                subcommands: [LsCommand.self, DiffCommand.self, CatCommand.self, ImportCommand.self]),
            .init(
                name: "Background pulls and schedules",
                subcommands: [
                    ScheduleCommand.self, StatusCommand.self, AttachCommand.self, WaitCommand.self, EventsCommand.self,
                    PauseCommand.self, ResumeCommand.self, CancelCommand.self, PrioritizeCommand.self,
                    RemoveCommand.self, HooksCommand.self, AgentCommand.self,
                ]),
            .init(name: "Reports", subcommands: [ReportCommand.self, MetricsCommand.self]),
            .init(
                name: "Maintenance",
                subcommands: [DoctorCommand.self, GCCommand.self, PluginsCommand.self, CompletionCommand.self]),
        ])
}

extension SyncagentCommand {
    /// Parses a command line with the command that its verbs name, which reads each option's declaration once. If that
    /// fails, parses it from the top: only then do help and errors have the command's whole name.
    ///
    /// - Parameter words: The arguments, without the program's name.
    /// - Throws: ``CommandFailure`` with status 64 that names an unknown command; the parser's own errors.
    static func parse(_ words: [String]) throws -> any ParsableCommand {
        let (command, rest) = try command(named: words)
        // If help is requested, the parser creates a command of its own.
        if command.configuration.subcommands.isEmpty, let parsed = try? command.parseAsRoot(Array(rest)),
            type(of: parsed) == command
        {
            return parsed
        }
        return try parseAsRoot(words)
    }

    /// Follows the verbs of a command line. A typo gets the nearest name, and help for an unknown command is not a
    /// success.
    ///
    /// - Returns: The command that the verbs name, and the words behind them.
    /// - Throws: ``CommandFailure`` with status 64 that names an unknown command.
    static func command(named words: [String]) throws(CommandFailure) -> (any ParsableCommand.Type, ArraySlice<String>)
    {
        let asksForHelp = words.first == "help"
        var words = asksForHelp ? words.dropFirst() : words[...]
        var command: any ParsableCommand.Type = SyncagentCommand.self
        var known = [String]()
        while let word = words.first, !word.hasPrefix("-") {
            let below = command.configuration.subcommands
            // `help` is a command of the parser's own, at the top.
            if below.isEmpty || (known.isEmpty && word == "help") { break }
            guard let next = below.first(where: { names(of: $0).contains(word) }) else {
                throw unknown(word, below.flatMap(names), above: known)
            }
            words.removeFirst()
            command = next
            known.append(word)
        }
        return (asksForHelp ? SyncagentCommand.self : command, words)
    }

    private static func names(of command: any ParsableCommand.Type) -> [String] {
        [command.configuration.commandName ?? ""] + command.configuration.aliases
    }

    private static func unknown(_ word: String, _ names: [String], above: [String]) -> CommandFailure {
        let near = names.map { ($0, editDistance(Array(word.prefix(64)), Array($0))) }.min { $0.1 < $1.1 }
        let line = (["syncagent"] + above).joined(separator: " ")
        // A third of the letters may be wrong, and two in a short word.
        let guess = near.flatMap { $0.1 <= max(2, word.count / 3) && $0.1 < $0.0.count ? $0.0 : nil }
        let advice = guess.map { "Did you mean '\(line) \($0)'? " } ?? ""
        return CommandFailure(
            .usage, "'\(escaped(word))' is not a command. \(advice)'\(line) --help' lists all commands.")
    }
}

extension SyncagentCommand {
    /// Arranges a help text: a verb's own options come first, then the groups that many verbs share.
    ///
    /// Moves the section `OPTIONS`, which the parser writes last, before the sections with titles of their own, and
    /// shortens the titles of groups of commands: `PULL SUBCOMMANDS` becomes `PULL`. Other texts stay as they are.
    static func arranged(_ text: String) -> String {
        guard text.hasPrefix("OVERVIEW:") else { return text }
        var sections: [[Substring]] = [[]]
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            guard isTitle(line) else {
                sections[sections.count - 1].append(line)
                continue
            }
            sections.append([line.hasSuffix(" SUBCOMMANDS:") ? line.dropLast(" SUBCOMMANDS:".count) + ":" : line])
        }
        guard let own = sections.firstIndex(where: { $0.first == "OPTIONS:" }),
            let titled = sections.firstIndex(where: { section in
                section.first.map { isTitle($0) && !["OPTIONS:", "ARGUMENTS:", "SUBCOMMANDS:"].contains($0) } ?? false
            }), titled < own
        else { return sections.joined().joined(separator: "\n") }
        var options = sections.remove(at: own)
        // Each section but the last one ends with an empty line.
        if options.last?.isEmpty != true { options.append("") }
        sections.insert(options, at: titled)
        var lines = sections.joined().map(String.init)
        while lines.last?.isEmpty == true { lines.removeLast() }
        return lines.joined(separator: "\n")
    }

    /// `TRANSFER:`: capitals alone on a line.
    private static func isTitle(_ line: Substring) -> Bool {
        line.count > 1 && line.hasSuffix(":") && line.first?.isUppercase == true && !line.contains(where: \.isLowercase)
    }
}
