import ArgumentParser
import SyncAgent
import SyncControl
import SyncDaemon
import SyncFiles
import SyncModel
import SyncStore
import SyncSystem

/// `syncagent hooks`: what was run when groups were complete, and what is owed.
struct HooksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hooks",
        abstract: "List hooks, run one again, or leave a receipt from inside one.",
        subcommands: [HooksListCommand.self, HooksReplayCommand.self, HooksReceiptCommand.self]
    )

    func run() async throws {
        throw CommandFailure(.usage, SyncagentCommand.helpMessage(for: HooksCommand.self))
    }
}

/// `syncagent hooks list`.
struct HooksListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List hooks, the latest first, with how they ended; needs no agent."
    )

    @Argument(help: ArgumentHelp("Only this session's.", valueName: "session"))
    var session: String?

    @Flag(help: "Show what the last attempt of each wrote.")
    var output = false

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func run() async throws {
        let terminal = Output()
        let state = try StateAccess(output: terminal)
        guard let store = try state.existingStore() else { return }
        if let session { _ = try StateAccess.session(session, in: store) }
        let hooks: [HookStatus]
        do throws(ControlError) {
            hooks = try StateAccess.reader(store).hooks(session: session)
        } catch {
            throw CommandFailure(error)
        }
        if format.json {
            for hook in hooks { try terminal.value(hook) }
            return
        }
        guard !hooks.isEmpty else { return terminal.message("No hooks.") }
        let text = SessionText(now: EngineAssembly.milliseconds(), hasAgent: true)
        let table = TextTable.lines(
            [["NUMBER", "SESSION", "GROUP", "BATCH", "STATE", "ATTEMPT", "ENDED", "WHEN", "PROGRAM"]]
                + hooks.map { row($0, text) }
        )
        terminal.line(table[0])
        for (hook, line) in zip(hooks, table.dropFirst()) {
            terminal.line(line)
            guard output, let written = hook.output else { continue }
            for line in written.split(separator: "\n") { terminal.line("    " + escaped(String(line))) }
        }
    }

    private func row(_ hook: HookStatus, _ text: SessionText) -> [String] {
        [
            String(hook.number), escaped(hook.session), escaped(hook.group),
            hook.batch.map { String($0) } ?? "-", hook.state.rawValue, String(hook.attempt),
            hook.ended.map(escaped) ?? "-",
            (hook.finished ?? hook.started ?? hook.due).map(text.moment) ?? "-",
            hook.arguments.map(escaped).joined(separator: " "),
        ]
    }
}

/// `syncagent hooks replay`.
struct HooksReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Run a hook that has ended once more, with the next attempt's number.",
        discussion: """
            It is called even if it has left a receipt. A hook that checks for its receipt finds it and does \
            nothing: remove DEST/.syncagent/receipts/RUN_ID.GROUP first.
            """
    )

    @Argument(help: ArgumentHelp("The hook, as 'syncagent hooks list' numbers it.", valueName: "number"))
    var number: Int64

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        _ = try state.store()
        let number = number
        let hook = try await AgentReach(state: state).ask { try await $0.replay(hook: number) }
        if format.json { return try output.value(hook) }
        output.message("Hook \(hook.number) of \(escaped(hook.session)) is \(hook.state).")
    }
}

/// `syncagent hooks receipt`: a hook's word that its work is done, so that it is not called again.
struct HooksReceiptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receipt",
        abstract: "Leave a receipt from inside a hook: its work for this run is done.",
        discussion: """
            A hook is called at least once: when the machine dies while it runs, it is called again. A hook that \
            leaves a receipt as its last step has its effect once: after a crash a hook with a receipt counts as \
            done and is not called. For work that must not be done twice even within a crash, let the receipt and the \
            work be one step, such as a transaction with the run's identifier in it.

                #!/bin/sh
                run=$SYNCAGENT_RUN_ID
                syncagent hooks receipt "$run" --check && exit 0
                ./reindex . && syncagent hooks receipt "$run"

            Exit status: 0 the receipt was made now (with --check: it is there), 2 it was there before (with --check: \
            it is not), 66 no such run. The receipt is DEST/.syncagent/receipts/RUN_ID.GROUP.
            """
    )

    @Argument(help: ArgumentHelp("The run: $SYNCAGENT_RUN_ID.", valueName: "run-id"))
    var run: String

    @Option(
        help: ArgumentHelp(
            "The group whose hook it is.  (default: $SYNCAGENT_GROUP, or all)",
            valueName: "name"
        )
    )
    var group: String?

    @Flag(help: "Only look whether there is one.")
    var check = false

    func validate() throws {
        if run.isEmpty { throw ValidationError("RUN-ID wants an identifier, not an empty string.") }
    }

    func run() async throws {
        let environment = EnvironmentPaths.ofProcess
        let path = try destination(environment)
        // A receipt says that a group's hook has done its work; that one batch is done says nothing about the others.
        if environment.hookRun() == run, environment.hookBatch() != nil {
            if check { throw CommandFailure(.incomplete) }
            throw CommandFailure(
                .usage,
                "A file hook is called once more after a crash, and leaves no receipt."
            )
        }
        let group = group ?? (environment.hookRun() == run ? environment.hookGroup() : nil) ?? "all"
        let receipt = HookReceipt(run: run, group: group)
        let isGood: Bool
        do throws(FileError) {
            let destination = try Destination.open(path: path, create: false)
            isGood = check ? receipt.exists(in: destination) : try receipt.leave(in: destination)
        } catch {
            throw CommandFailure(.ioError, "\(error)")
        }
        guard isGood else { throw CommandFailure(.incomplete) }
    }

    /// Where the run's files are: a hook is told, everybody else asks the store.
    private func destination(_ environment: EnvironmentPaths) throws(CommandFailure) -> String {
        if environment.hookRun() == run, let path = environment.hookDestination() { return path }
        let store = try StateAccess(environment: environment, output: Output()).store()
        return try asking { () throws(StoreError) in
            let session = try store.run(run).session
            return try store.session(session)?.destination
        } ?? ""
    }
}
