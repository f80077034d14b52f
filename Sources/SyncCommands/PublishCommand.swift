import ArgumentParser
import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncReport
import SyncSystem
import SyncTrust

/// `syncagent publish`: makes packs and a manifest out of a directory.
struct PublishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Make packs and a manifest out of a directory, for any static web server.",
        discussion: """
            Writes manifest.json, manifest.json.zst and packs/ into the output directory; the manifest last, so \
            that the directory can be served or copied at any time. Publishing again into the same directory \
            writes only what is new. Equal input gives equal output; SOURCE_DATE_EPOCH fixes the time in it.

            Examples:

              syncagent publish tower --to site --group 'maps=maps/**'
            """
    )

    @Argument(help: "The directory with the files.", completion: .directory)
    var directory: String

    @Option(
        name: .customLong("to"),
        help: ArgumentHelp("The directory to publish to.", valueName: "out"),
        completion: .directory
    )
    var output: String

    @Option(
        help: ArgumentHelp(
            "The project's name, such as com.example.tower.  (default: the base's, or the directory's name)",
            valueName: "id"
        )
    )
    var project: String?

    @Option(
        help: ArgumentHelp(
            "The manifest whose packs are reused.  (default: the one in the output directory)",
            valueName: "manifest"
        ),
        completion: .file(extensions: ["json", "zst"])
    )
    var base: String?

    @Flag(name: .customLong("no-base"), help: "Reuse nothing; write every pack.")
    var withoutBase = false

    @Option(
        help: ArgumentHelp("The manifest's revision.  (default: the base's plus 1)", valueName: "n")
    )
    var revision: UInt64?

    @Option(
        name: .customLong("group"),
        help: ArgumentHelp(
            "Declare a group of files; the same name may be given with more patterns.",
            valueName: "name=glob"
        )
    )
    var groups: [String] = []

    @Option(
        name: .customLong("group-hook"),
        help: ArgumentHelp(
            "Name a hook for a group; the puller's configuration says what it runs.",
            valueName: "name=hook"
        )
    )
    var groupHooks: [String] = []

    @Option(
        name: .customLong("exclude"),
        help: ArgumentHelp(
            "Leave out paths that match, such as **/.git or *.tmp; may be given more than once.",
            valueName: "glob"
        )
    )
    var excluded: [String] = []

    @Flag(help: "Leave out links that lead out of the directory, instead of refusing to publish.")
    var safeLinks = false

    @Option(help: ArgumentHelp("Most bytes of a pack.", valueName: "size"), transform: positiveByteCount)
    var packSize = ByteCount(32 << 20)

    @Option(help: ArgumentHelp("zstd's level, 1 to 19.", valueName: "n"))
    var level: Int32 = 3

    @Option(
        help: ArgumentHelp("Workers that hash and compress.  (default: one for each core)", valueName: "n")
    )
    var jobs: Int?

    @Flag(help: "Read every file, also those that look untouched since the last publish.")
    var rehash = false

    @Flag(help: "Rewrite packs that are mostly unused, and join small ones.")
    var repack = false

    @Flag(
        name: .customLong("no-deltas"),
        help: "Do not also store changed blobs as deltas for whoever has the base."
    )
    var withoutDeltas = false

    @Option(
        help: ArgumentHelp(
            "Compress blobs with a dictionary of what they have in common: auto (where it saves 4 MiB and 4 %), always or never.",
            valueName: "when"
        )
    )
    var dictionary = PublishOptions.DictionaryUse.automatic

    @Flag(
        inversion: .prefixedNo,
        help:
            "Cut the manifest into parts, so that an update reads only those that changed.  (default: above 50,000 files)"
    )
    var manifestParts: Bool?

    @OptionGroup(title: "Signatures")
    var signing: SigningOptions

    @OptionGroup(title: "Output")
    var reporting: ReportingOptions

    func validate() throws {
        if base != nil, withoutBase {
            throw ValidationError("--base and --no-base exclude each other.")
        }
        if repack, withoutBase {
            throw ValidationError("--repack rewrites packs of a base; --no-base has none.")
        }
        if directory.isEmpty { throw ValidationError("DIRECTORY wants a path, not an empty string.") }
        if output.isEmpty { throw ValidationError("--to wants a directory, not an empty string.") }
        _ = try declaredGroups()
    }

    func run() async throws {
        let start = ContinuousClock.now
        let output = reporting.output()
        let options = try publishOptions(environment: .ofProcess)
        let report = try await publish(options, reporting.display(on: output), output)
        let elapsed = Int64((ContinuousClock.now - start) / .milliseconds(1))
        for warning in report.warnings { output.warning(warning) }
        if reporting.json {
            output.event(report.json(time: Self.now(), elapsed: elapsed), flushing: true)
        }
        output.message(Self.summary(report, milliseconds: elapsed))
        if let fresh = report.fresh {
            output.message(
                "Signed under root \(fresh.root); counts until \(timestamp(milliseconds: fresh.until))."
            )
        }
        if report.repackPays, !repack {
            output.message("Some packs are mostly unused or small; --repack would rewrite them.")
        }
    }

    /// Runs the publisher on a thread of its own: it blocks.
    private func publish(
        _ options: PublishOptions,
        _ display: ProgressDisplay,
        _ output: Output
    ) async throws -> PublishReport {
        do {
            return try await StopSignals.cancelling(
                notice: { output.message("Stopping; what was published before stays.") },
                atOnce: { output.clearProgress() },
                {
                    try await display.whileRunning {
                        try await onThread("publish") { flag in
                            try Publisher(options).run(isCancelled: { flag.isSet }) { step in
                                display.report(ProgressSnapshot(step))
                            }
                        }
                    }
                }
            )
        } catch let error as PublishError {
            if error.code == .cancelled, let status = StopSignals.requestedStatus {
                throw CommandFailure(status)
            }
            throw CommandFailure(error.exitStatus, error.description)
        }
    }

    /// The options as the publisher takes them.
    func publishOptions(environment: EnvironmentPaths) throws -> PublishOptions {
        var options = PublishOptions(directory: directory, output: output)
        options.project = project
        options.revision = revision
        options.created = Self.now()
        options.packSize = packSize.bytes
        options.level = level
        options.jobs = jobs ?? ProcessInfo.processInfo.activeProcessorCount
        options.groups = try declaredGroups()
        options.repack = repack
        options.deltas = !withoutDeltas
        options.dictionary = dictionary
        options.form = manifestParts.map { $0 ? .parts : .oneText } ?? .automatic
        options.exclude = excluded
        options.leavesOutUnsafeLinks = safeLinks
        options.base = withoutBase ? .none : base.map { .manifest($0) } ?? .inOutput
        options.now = Int64(Date().timeIntervalSince1970 * 1_000_000_000)
        options.trustsStamps = !rehash
        options.stampCache = stampCache(environment)
        options.signing = try signing.signing(for: output, [.release, .fresh])
        // The keys know whose they are.
        options.project = options.project ?? options.signing?.root.project
        return options
    }

    /// A file of the state directory, one for each pair of directories; `nil` where there can be none.
    private func stampCache(_ environment: EnvironmentPaths) -> String? {
        // Without a state directory every file is read, as with --rehash.
        guard let state = try? environment.stateDirectory() else { return nil }
        let name = PublishOptions.stampCacheName(
            directory: Self.absolute(directory),
            output: Self.absolute(output)
        )
        let folder = "\(state)/publish"
        guard (try? openStateDirectory(folder, create: true)) != nil else { return nil }
        return "\(folder)/\(name)"
    }

    private static func absolute(_ path: String) -> String {
        URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    }

    private func declaredGroups() throws -> [Manifest.Group] {
        var result: [Manifest.Group] = []
        func index(of name: String) -> Int {
            if let known = result.firstIndex(where: { $0.name == name }) { return known }
            result.append(Manifest.Group(name: name, include: [], hooks: []))
            return result.count - 1
        }
        for (option, texts) in [("--group", groups), ("--group-hook", groupHooks)] {
            for text in texts {
                let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
                guard parts.count == 2 else {
                    throw ValidationError("\(option) takes NAME=…, not '\(escaped(text))'.")
                }
                let position = index(of: parts[0])
                if option == "--group" {
                    result[position].include.append(parts[1])
                } else {
                    result[position].hooks.append(parts[1])
                }
            }
        }
        return result
    }

    /// Now, or what reproducible builds ask for. <https://reproducible-builds.org/specs/source-date-epoch/>
    private static func now() -> String {
        if let text = ProcessInfo.processInfo.environment["SOURCE_DATE_EPOCH"], let seconds = Int64(text),
            (0..<253_402_300_800).contains(seconds)
        {
            return timestamp(milliseconds: seconds * 1000)
        }
        return timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }

    /// What was done, in two lines.
    static func summary(_ report: PublishReport, milliseconds: Int64) -> String {
        var first = "\(escaped(report.project)) revision \(report.revision): "
        first += Figures.count(report.files, "file")
        if report.links > 0 { first += ", " + Figures.count(report.links, "link") }
        first += ", \(ByteCount(report.rawBytes)) stored in \(ByteCount(report.storedBytes))"
        let seconds = ProgressText.seconds(milliseconds: milliseconds)
        if report.unchanged { return first + "; nothing changed, \(seconds) s" }
        var second = "\(Figures.count(report.packsWritten, "pack")) written, \(ByteCount(report.newBytes))"
        if report.packsReused > 0 { second += "; \(Figures.grouped(report.packsReused)) reused" }
        if report.deltaBytes > 0 {
            second += "; \(Figures.count(report.deltas, "delta")), \(ByteCount(report.deltaBytes))"
        }
        if report.parts > 0 {
            second += "; \(Figures.grouped(report.partsWritten)) of "
            second += "\(Figures.count(report.parts, "manifest part")) written, "
            second += "\(ByteCount(report.partBytes))"
        }
        if report.savedBytes > 0 {
            second += "; \(ByteCount(report.savedBytes)) less with a dictionary"
            if report.dictionaryBytes > 0 { second += " of \(ByteCount(report.dictionaryBytes))" }
        }
        if report.deadBytes > 0 { second += "; \(ByteCount(report.deadBytes)) in them no longer used" }
        if report.packsDropped > 0 {
            second += "; \(Figures.count(report.packsDropped, "old pack")) no longer named"
        }
        return "\(first)\n\(second); manifest \(ByteCount(report.compressedManifestBytes)), \(seconds) s"
    }
}

extension PublishOptions.DictionaryUse: ExpressibleByArgument {}

extension ProgressSnapshot {
    fileprivate init(_ progress: PublishProgress) {
        let phase =
            switch progress.step {
            case .walking: "Looking"
            case .sampling: "Sampling"
            case .reading: "Packing"
            case .finishing: "Finishing"
            }
        let isCounted = progress.step == .reading || progress.step == .finishing
        self.init(
            phase: phase,
            filesDone: progress.files,
            filesTotal: isCounted ? progress.totalFiles : nil,
            bytesDone: progress.bytes,
            bytesTotal: isCounted ? progress.totalBytes : nil
        )
    }
}
