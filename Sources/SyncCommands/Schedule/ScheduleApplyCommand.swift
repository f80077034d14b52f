import ArgumentParser
import SyncAssembly
import SyncModel
import SyncSchedule
import SyncSystem

struct ScheduleApplyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apply", abstract: "Make the schedules match a file.",
        discussion: """
            The file is JSON: {"format": "syncagent-schedules/1", "schedules": [{"name": "tower", "manifest": "https://…", \
            "into": "/srv/tower", "nightly": "02:00"}]}. The other keys of a schedule are the options of 'schedule add', \
            with '_' for '-'; use true for a flag and a list for a repeatable option. "paused" is true or false; if it is \
            left out, it stays as it is.

            Prints a line for each schedule: added, changed, unchanged or removed. Applying the same file again changes \
            nothing. If any part of the file is invalid, nothing is changed.

            Exit status: 0 the schedules match the file, 65 the file is invalid, 66 there is no such file; otherwise the \
            status of the first schedule that could not be set up; the others are set up.
            """)

    @Argument(help: "The file with the schedules.", completion: .file()) var file: String

    @Flag(help: "Remove schedules that are not in the file.") var prune = false

    @Flag(help: "Show what would change; change nothing.") var dryRun = false

    @Flag(help: "Print JSON, one object per line.") var json = false

    func run() async throws {
        let output = Output()
        let records = try ScheduleRecords()
        let plans = try await plans(records, output)
        let now = SystemTime.milliseconds()
        var failure: CommandFailure?
        var (needsAgent, isChanged) = (false, false)
        func apply(_ name: String, _ work: () async throws -> ScheduleRecords.Change) async {
            do { write(name, try await work(), output) } catch {
                let error = CommandFailure(error) ?? CommandFailure(.internalError, "\(error)")
                output.error("\(name): \(error.message)")
                failure = failure ?? error
            }
        }
        for (add, plan) in plans {
            await apply(plan.name) {
                let change = try records.change(plan, now: now)
                guard !dryRun else { return change }
                // The trusted root is recorded now that the whole file is valid.
                if add.trust.trust != nil { _ = try await add.plan(output, keeping: plan.backend, isReadOnly: false) }
                guard change != .unchanged else { return change }
                _ = try records.replace(plan, output: output)
                isChanged = true
                if plan.backend.needsAgent, !plan.definition.isPaused { needsAgent = true }
                return change
            }
        }
        if prune {
            for name in try records.names() where !plans.contains(where: { $0.plan.name == name }) {
                await apply(name) {
                    guard !dryRun else { return .removed }
                    _ = try records.discard(name)
                    isChanged = true
                    return .removed
                }
            }
        }
        output.flush()
        if isChanged { MetricsFile.keepAfterChange(output) }
        if needsAgent { try await StateAccess(output: output).reachAgent() }
        // The message has been printed.
        if let failure { throw CommandFailure(failure.status) }
    }

    private func write(_ name: String, _ change: ScheduleRecords.Change, _ output: Output) {
        if json {
            let line = JSONLine.object { line in
                line.field("schedule", name)
                line.field("change", change.rawValue)
                line.field("dry_run", dryRun)
            }
            return output.event(line)
        }
        let isWish = dryRun && change != .unchanged
        output.line("\(name): \(isWish ? "would be " : "")\(change.rawValue)")
    }

    /// Parses and checks the whole file before anything is changed.
    private func plans(_ records: ScheduleRecords, _ output: Output) async throws -> [(
        add: ScheduleAddCommand, plan: ScheduleRecords.Record
    )] {
        let shown = escaped(file)
        let path = try EnvironmentPaths.standardized(file)
        guard let bytes = try readScheduleFile(path) else {
            throw CommandFailure(.noInput, "\(shown): there is no such file.")
        }
        var plans: [(add: ScheduleAddCommand, plan: ScheduleRecords.Record)] = []
        for entry in try ScheduleEntry.all(in: bytes, shown: shown) {
            if let reason = Self.unknown(entry.keys) { throw CommandFailure(.dataInvalid, "\(entry.place): \(reason)") }
            let former = (try? records.find(entry.name)) ?? nil
            do {
                let add = try ScheduleAddCommand.parse(entry.arguments)
                var plan = try await add.plan(output, keeping: former?.backend, isReadOnly: true).plan
                plan.definition.isPaused = entry.isPaused ?? former?.definition.isPaused ?? false
                plans.append((add, plan))
            } catch {
                // The parser repeats the file's text unescaped.
                let words = ScheduleAddCommand.message(for: error).split(separator: "\n").map { escaped(String($0)) }
                    .joined(separator: "\n")
                let failure = CommandFailure(error) ?? CommandFailure(.usage, words)
                let status = failure.status == .usage ? .dataInvalid : failure.status
                throw CommandFailure(status, "\(entry.place): \(failure.message)")
            }
        }
        return plans
    }

    /// The message for the first key that is not an option of `schedule add`; other errors may result from it.
    private static func unknown(_ keys: [String]) -> String? {
        let help = ScheduleAddCommand.helpMessage(includeHidden: true, columns: 200)
        // The line of an option begins with its names; what follows may mention options of other commands.
        let words = help.split(separator: "\n").filter { $0.hasPrefix("  -") }.flatMap { line in
            line.split(separator: " ").prefix(while: { $0.hasPrefix("-") })
        }
        let options = words.filter { $0.hasPrefix("--") }.map { String($0.dropFirst(2)).replacing("-", with: "_") }
        guard let key = keys.first(where: { !options.contains($0.replacing("-", with: "_")) }) else { return nil }
        let meant = nearest(key, in: Set(options).sorted())
        return "\(escaped(key)): no such key" + (meant.map { "; did you mean “\($0)”?" } ?? "")
    }
}
