import ArgumentParser
import SyncAssembly
import SyncModel
import SyncPublisher
import SyncSchedule
import SyncSystem
import SyncTrust

struct ReleasesCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "releases", abstract: "List, remove and bring back the releases of a published set.",
        discussion: """
            Every release stays where it was published until it is pruned, so that a bad night can be undone: restore \
            makes the contents of an older release the newest.
            """,
        subcommands: [ReleasesListCommand.self, ReleasesPruneCommand.self, ReleasesRestoreCommand.self])
}

struct ReleasesListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the releases, the newest first.",
        discussion: """
            SIZE is the size of the release's files, OWN that of the packs that no other release needs. With --json, \
            each line is an object with revision, created, manifest (the SHA-256 of its text), files, bytes, \
            own_bytes and channels.
            """)

    @OptionGroup var published: PublishedOptions

    @OptionGroup(title: "Output") var format: JSONFlag

    func run() async throws {
        let output = Output()
        let list = try await published.target.working(isWriting: false) { place in try ReleaseList(place) }
        for warning in list.warnings { output.warning(warning) }
        if format.json {
            for entry in list.entries { output.event(entry.json) }
        } else {
            for line in list.lines { output.line(line, flushing: false) }
        }
        output.flush()
        if list.entries.isEmpty {
            throw CommandFailure(.dataInvalid, "no release of \(escaped(published.target.name)) can be read")
        }
    }
}

struct ReleasesPruneCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prune", abstract: "Remove old releases, and what nothing else needs.",
        discussion: """
            Keeps the newest N releases, those that a channel or a signed statement points at, and with --older-than \
            all that are not older. What only other releases need is removed once nothing has named it for the time \
            of --grace, so that a running pull can finish. 'publish --retain N' does this with every publish.

            Examples:

              syncagent releases prune site --keep 14 --dry-run
              syncagent releases prune site --keep 14 --older-than 30d
            """)

    @OptionGroup var published: PublishedOptions

    @Option(help: "Keep this many of the newest releases.".taking("n")) var keep: Int

    @Option(
        help: "Also keep releases that are not older than this: 30d, 12h, 2026-11-20 or 2026-11-20T02:00.".taking(
            "time"))
    var olderThan: String?

    @Option(
        help: "How long a running pull may take to finish: 24h, 90m, or 0 if nobody pulls.  (default: 24h)".taking(
            "time"),
        transform: gracePeriod)
    var grace: Int64?

    @Flag(name: .customLong("dry-run"), help: "List what would be removed; remove nothing.") var isDryRun = false

    @OptionGroup(title: "Output") var format: JSONFlag

    func validate() throws {
        guard PublishOptions.retained.contains(keep) else {
            throw ValidationError("--keep takes 1 or more, not \(keep): the newest release always stays.")
        }
        _ = try limit(now: SystemTime.milliseconds())
    }

    private func limit(now: Int64) throws -> Int64? {
        guard let olderThan else { return nil }
        guard let limit = reportStart(olderThan, now: now, zone: .machine) else {
            throw ValidationError(
                "--older-than '\(escaped(olderThan))' is not a time such as 30d, 12h, 2026-11-20 or 2026-11-20T02:00.")
        }
        return limit
    }

    func run() async throws {
        let output = Output()
        let now = SystemTime.milliseconds()
        var prune = Prune(keep: keep, olderThan: try limit(now: now), now: now)
        prune.grace = grace ?? prune.grace
        let report = try await published.target.working(isWriting: !isDryRun) { [prune, isDryRun] place in
            try prune.run(place, isDryRun: isDryRun)
        }
        for file in report.files where format.json || isDryRun {
            if format.json {
                let line = JSONLine.object { line in
                    line.field("object", file.path)
                    line.field("bytes", file.bytes)
                }
                output.event(line)
            } else {
                output.line(file.path, flushing: false)
            }
        }
        if format.json { output.event(report.json) }
        output.flush()
        output.message(report.summary(isDryRun: isDryRun))
    }
}

struct ReleasesRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Make the contents of an older release the newest.",
        discussion: """
            Publishes the old contents as a new revision, which every machine gets with its next pull; nothing is \
            packed again. A signed set needs --sign or --signer, and only what was signed before is signed again. \
            Channels stay where they are: 'syncagent channel set' moves them.

            Examples:

              syncagent releases restore site 41
              syncagent releases restore site 41 --sign keys
            """)

    @OptionGroup var published: PublishedOptions

    @Argument(help: "The revision, or the SHA-256 of its manifest.") var revision: String

    @OptionGroup(title: "Signatures") var signing: SigningOptions

    @OptionGroup(title: "Output") var format: JSONFlag

    func validate() throws {
        guard UInt64(revision) != nil || SHA256Digest(hex: revision) != nil else {
            throw ValidationError("'\(escaped(revision))' is neither a revision nor the SHA-256 of a manifest.")
        }
    }

    func run() async throws {
        let output = Output()
        let created = try PublishCommand.created()
        let signer = try signing.signing(for: published.target.name, [.release, .fresh])
        let report = try await published.target.working(isWriting: true, isSigning: signer != nil) { [revision] place in
            try Restore(place, signing: signer).run(revision, created: created, now: SystemTime.milliseconds())
        }
        if format.json { output.event(report.json, flushing: true) }
        let project = escaped(report.project)
        output.message(
            report.isUnchanged
                ? "\(project): revision \(report.revision), the newest one, has these contents already"
                : "\(project): revision \(report.revision) has the contents of revision \(report.restored)")
        if let until = report.validUntil { output.message("Signed; valid until \(timestamp(milliseconds: until)).") }
    }
}

/// Parses the value of `--grace`, as **milliseconds**.
@Sendable private func gracePeriod(_ text: String) throws -> Int64 {
    if ["0", "0s"].contains(text) { return 0 }
    return Int64(try setting(of: "--grace", SettingValue.period(text)) / .milliseconds(1))
}
