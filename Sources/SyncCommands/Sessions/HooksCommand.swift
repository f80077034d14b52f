import ArgumentParser
import SyncAgent
import SyncControl
import SyncDaemon
import SyncModel
import SyncStore

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
