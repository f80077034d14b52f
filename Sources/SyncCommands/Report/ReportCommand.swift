import ArgumentParser
import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncReport
import SyncSchedule
import SyncStore
import SyncSystem

struct ReportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Report what arrived, from where, how long it took, what failed and what to do about it.",
        discussion: """
            Covers all sessions or one, for the last 24 hours or since --since. Needs no agent and starts none. The \
            HTML page is a single self-contained file with charts of up to 30 nights. \
            Documentation/reference/Report.md describes the JSON.
            """)

    @Argument(help: "Only this session.  (default: all)".taking("session")) var session: String?

    @Option(help: "Start of the period: 90m, 12h, 7d, 2026-11-20, or 2026-11-20T02:00.  (default: 24h)".taking("time"))
    var since: String?

    @Flag(help: "Print one JSON object.") var json = false

    @Flag(help: "Print an HTML page.") var html = false

    @Option(
        help: "Write to this file instead of standard output; for a symbolic link, to its target.".taking(
            "file"),
        completion: .file())
    var output: String?

    @Option(
        help:
            "POST the JSON to this http or https URL and print nothing; @FILE reads a URL that contains a secret from a file."
            .taking("url"))
    var post: String?

    @OptionGroup var place: SystemOption

    func validate() throws {
        if session == "" { throw ValidationError("SESSION needs a name, not an empty string.") }
        if post != nil, json || html || output != nil {
            throw ValidationError("--post sends JSON and prints nothing; leave out --json, --html and --output.")
        }
        if json, html { throw ValidationError("--json and --html are mutually exclusive.") }
        if output == "" { throw ValidationError("--output needs a file, not an empty string.") }
        _ = try start(now: SystemTime.milliseconds())
    }

    private func start(now: Int64) throws -> Int64 {
        guard let since else { return now - 86_400_000 }
        guard let start = reportStart(since, now: now, zone: .machine) else {
            if since.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
                _ = try setting(of: "--since", SettingValue.period(since))
            }
            throw ValidationError(
                "--since '\(escaped(since))' is not a time such as 12h, 7d, 2026-11-20 or 2026-11-20T02:00.")
        }
        guard start < now else { throw ValidationError("--since '\(escaped(since))' is in the future.") }
        return start
    }

    func run() async throws {
        let terminal = Output()
        let receiver = try post.map { try reportReceiver($0) }
        let environment = try place.environment()
        let state = try StateAccess(environment: environment, output: terminal)
        let clock = ReportClock.here(SystemTime.milliseconds())
        var report = MorningReport(
            version: syncagentVersion, host: CurrentProcess.hostName, generated: clock.now,
            since: try start(now: clock.now), sessions: [])
        let schedules = ReportSchedules(now: clock.now, environment: environment)
        if let store = try state.existingStore() {
            let names = try session.map { [try StateAccess.session($0, in: store)] }
            var reader = ReportReader(store: store, clock: clock, version: report.version)
            reader.host = report.host
            (reader.schedules, reader.unmet) = (schedules.bySession, schedules.all)
            let hasNights = json || html || receiver != nil
            report = try reader.report(of: names, since: report.since, hasNights: hasNights)
        } else if session != nil {
            throw StateAccess.noSessions
        }
        report.warnings = PinStore(stateDirectory: state.place.stateDirectory).warnings
        for line in report.warnings { terminal.warning(line) }
        if let receiver {
            let host = environment.host
            return try await onThread("report", cancellable: { [report] _ in try report.post(to: receiver, on: host) })
        }
        let text: String
        if json {
            text = report.json.text
        } else if html {
            text = report.page(clock)
        } else {
            text = report.lines(clock).joined(separator: "\n")
        }
        guard let output else { return terminal.line(text) }
        do throws(CommandFailure) { try replaceFile(output, by: text.hasSuffix("\n") ? text : text + "\n") } catch {
            guard place.system else { throw error }
            throw CommandFailure(
                error.status,
                "\(error.message); with --system the file is written as the user whose sessions they are: leave out "
                    + "--output, and redirect standard output.", cause: error.cause)
        }
    }
}

extension ReportClock {
    /// The machine's own time zone.
    static func here(_ now: Int64) -> ReportClock {
        ReportClock(now: now) { Int(Zone.machine.offset(at: floorDivision($0, 1_000).quotient)) }
    }
}

/// Parses the value of `--since`.
///
/// - Parameters:
///   - text: `90m`, `12h`, `7d`; a local date, at midnight; a local date and time; RFC 3339.
///   - now: **Milliseconds** since 1970.
///   - zone: The zone of times without an offset.
/// - Returns: **Milliseconds** since 1970; `nil` for any other text.
func reportStart(_ text: String, now: Int64, zone: Zone) -> Int64? {
    if let period = try? period(text) { return now - Int64(period / .milliseconds(1)) }
    return zone.moment(text) ?? parseTimestamp(text.replacing(" ", with: "T", maxReplacements: 1))
}

/// Writes a file that the user has named. It replaces the former one as a whole: a reader sees one or the
/// other. rename(2)
///
/// A symbolic link stays, and the file it leads to is replaced, as with a shell's `>`.
///
/// - Throws: ``CommandFailure`` with status 73 if the place cannot be written to, 74 if the disk is full.
func replaceFile(_ path: String, by text: String) throws(CommandFailure) {
    try replaceFile(path, by: Array(text.utf8), mode: 0o644)
}

/// The same for bytes.
///
/// - Parameter mode: The file's final mode, whatever the umask.
func replaceFile(_ path: String, by bytes: [UInt8], mode: FileMode) throws(CommandFailure) {
    let target = try replaceable(path)
    do throws(FileError) { try replaceFile(target, with: bytes, mode: mode) } catch {
        throw CommandFailure(
            error.trouble == .unwritten ? .ioError : .cannotCreate, "cannot write \(escaped(path)): \(error.reason)")
    }
}

/// The file that ``replaceFile(_:by:mode:)`` would replace. Lets a caller that needs long for the content check first.
///
/// - Throws: ``CommandFailure`` with status 73 if the place cannot be written to.
@discardableResult func replaceable(_ path: String) throws(CommandFailure) -> String {
    func refusal(_ reason: String) -> CommandFailure {
        CommandFailure(.cannotCreate, "cannot write \(escaped(path)): \(reason)")
    }
    // A device or a pipe would be replaced, but the user wants to write into it.
    guard status(following: path)?.kind ?? .file == .file else { throw refusal("it is not a regular file") }
    var target = path
    if case .success(let found?) = status(currentDirectory, path), found.kind == .link {
        guard let real = realPath(path) else {
            let code = Errno.last
            throw refusal(
                code == .noSuchFileOrDirectory ? "it is a symbolic link that leads to nothing" : "\(code)")
        }
        guard !real.unicodeScalars.contains("\u{FFFD}") else {
            throw refusal("it is a symbolic link that leads to a path that is not UTF-8")
        }
        target = real
    }
    guard isPermitted(.change, parent(of: target)) else { throw refusal("\(Errno.last)") }
    return target
}
