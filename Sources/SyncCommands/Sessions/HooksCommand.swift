import ArgumentParser
import SyncAgent
import SyncDaemon
import SyncFiles
import SyncModel
import SyncStore
import SyncSystem

struct HooksCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "hooks", abstract: "List hooks, run one again, or leave a receipt from within one.",
        subcommands: [HooksListCommand.self, HooksReplayCommand.self, HooksReceiptCommand.self])
}

struct HooksListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the latest 200 hooks and how they ended, latest first; needs no agent.")

    @Argument(help: "Only this session.  (default: all)".taking("session")) var session: String?

    @Flag(help: "Show the output of each hook's last attempt.") var output = false

    @OptionGroup(title: "Output") var format: JSONFlag

    func run() async throws {
        let terminal = Output()
        let state = try StateAccess(output: terminal)
        guard let store = try state.existingStore() else {
            if session != nil { throw StateAccess.noSessions }
            if !format.json { terminal.message("No hooks.") }
            return
        }
        if let session { _ = try StateAccess.session(session, in: store) }
        let hooks = try store.hookStatuses(session: session)
        if format.json {
            for hook in hooks { try terminal.value(hook) }
            return
        }
        guard !hooks.isEmpty else { return terminal.message("No hooks.") }
        let text = SessionText(now: SystemTime.milliseconds())
        let table = tableLines(
            [["NUMBER", "SESSION", "GROUP", "BATCH", "STATE", "ATTEMPT", "ENDED", "WHEN", "PROGRAM"]]
                + hooks.map { row($0, text) })
        terminal.line(table[0])
        for (hook, line) in zip(hooks, table.dropFirst()) {
            terminal.line(line)
            guard output, let written = hook.output else { continue }
            for line in written.split(separator: "\n") { terminal.line("    " + escaped(String(line))) }
        }
    }

    private func row(_ hook: HookStatus, _ text: SessionText) -> [String] {
        [
            String(hook.number), escaped(hook.session), escaped(hook.group), hook.batch.map { String($0) } ?? "-",
            hook.state.rawValue, String(hook.attempt), hook.ended.map(escaped) ?? "-",
            (hook.finished ?? hook.started ?? hook.due).map(text.moment) ?? "-",
            hook.arguments.map(escaped).joined(separator: " "),
        ]
    }
}

struct HooksReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Run an ended hook again, as its next attempt.",
        discussion: """
            The hook runs even if it left a receipt. If it checks for its own receipt it does nothing: remove \
            DEST/.syncagent/receipts/RUN_ID.GROUP first, or RUN_ID.GROUP.NUMBER if its group has several hooks.
            """)

    @Argument(help: "The hook's number in 'syncagent hooks list'.".taking("number")) var number: Int64

    @OptionGroup(title: "Output") var format: JSONFlag

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        _ = try state.store()
        let number = number
        let hook = try await state.askAgent { try await $0.replay(hook: number) }
        if format.json { return try output.value(hook) }
        output.message("Hook \(hook.number) of \(escaped(hook.session)) is \(hook.state).")
    }
}

struct HooksReceiptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receipt", abstract: "Record from within a hook that its work for this run is done.",
        discussion: """
            A hook runs at least once: if the machine crashes while it runs, it runs again. A hook that leaves a receipt \
            as its last step does not run again after a crash. The receipt does not cover a crash between the work and \
            the receipt: for work that must never happen twice, make both one step, such as a transaction that stores \
            the run's identifier.

                #!/bin/sh
                run=$SYNCAGENT_RUN_ID
                syncagent hooks receipt "$run" --check && exit 0
                ./reindex . && syncagent hooks receipt "$run"

            Exit status: 0 the receipt was created (with --check: it exists), 2 it existed already (with --check: it \
            does not exist), 66 no such run or hook. The receipt is DEST/.syncagent/receipts/RUN_ID.GROUP; if the \
            group has several hooks, each has its own, RUN_ID.GROUP.$SYNCAGENT_HOOK.
            """)

    @Argument(help: "The run: $SYNCAGENT_RUN_ID.".taking("run-id")) var run: String

    @Option(help: "The hook's group.  (default: $SYNCAGENT_GROUP, or all)".taking("name")) var group: String?

    @Flag(help: "Only check whether there is a receipt.") var check = false

    func validate() throws {
        if run.isEmpty { throw ValidationError("RUN-ID needs an identifier, not an empty string.") }
    }

    func run() async throws {
        let environment = EnvironmentPaths.ofProcess
        // A receipt records that a group's hook has done its work. One finished batch says nothing about the others.
        if environment.hookRun() == run, environment.hookBatch() != nil {
            if check { throw CommandFailure(.incomplete) }
            throw CommandFailure(.usage, "A file hook runs again after a crash and leaves no receipt.")
        }
        let own = environment.hookRun() == run ? environment.hookGroup() : nil
        let group = group ?? own ?? RunRecipe.groupOfAll
        // Set if the group has several hooks, each of which has its own receipt.
        let number = group == own ? environment.lookup("SYNCAGENT_HOOK").flatMap(Int64.init) : nil
        let path = try (group == own ? environment.hookDestination() : nil) ?? destination(of: group, environment)
        let receipt = HookReceipt(run: run, group: group, hook: number)
        let isGood: Bool
        do throws(FileError) {
            let destination = try Destination.open(path: path, create: false)
            isGood = try check ? receipt.exists(in: destination) : receipt.leave(in: destination)
        } catch { throw CommandFailure(.ioError, "\(error)") }
        guard isGood else { throw CommandFailure(.incomplete) }
    }

    /// The destination of a hook whose environment this process does not have; a receipt without a hook is of no use.
    private func destination(of group: String, _ environment: EnvironmentPaths) throws -> String {
        let store = try StateAccess(environment: environment, output: Output()).store()
        _ = try store.run(run)
        let hooks = try store.hooks(run: run, limit: .max).filter { $0.group == group && $0.batch == nil }
        guard let hook = hooks.first else {
            throw CommandFailure(
                .noInput,
                "Run \(escaped(run)) has no hook of group '\(escaped(group))' that leaves a receipt. "
                    + "'syncagent hooks list' lists the hooks.")
        }
        guard hooks.count == 1 else {
            throw CommandFailure(
                .usage,
                "Group '\(escaped(group))' has several hooks, each with its own receipt: run this command from within "
                    + "the hook.")
        }
        return hook.destination
    }
}
