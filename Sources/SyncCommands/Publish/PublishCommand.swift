import ArgumentParser
import Foundation
import SyncAssembly
import SyncManifest
import SyncModel
import SyncPublisher
import SyncRemotes
import SyncSystem
import SyncTrust

struct PublishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish", abstract: "Turn a directory into packs and a manifest for any static web server.",
        discussion: """
            Writes manifest.json, manifest.json.zst and packs/ to the output directory, the manifest last, so the \
            directory can be served or copied at any time. Publishing to the same directory again writes only what is \
            new. The same input gives the same output; SOURCE_DATE_EPOCH fixes the time stamp in it.

            Groups, mirrors, the files URL and --loose carry over from the base unless they are given again, and \
            publish.json in the source directory holds settings that do not change. A .syncignore file in any \
            directory lists what to leave out there, in gitignore syntax.

            Examples:

              syncagent publish tower --to site --group 'maps=maps/**'
              syncagent publish tower --to site --dry-run
              syncagent publish tower --to tower --loose
              syncagent publish tower --to site --shard 0/2
              syncagent publish tower --to site --shard 1/2
              syncagent publish tower --to site --join 2
            """)

    @Argument(help: "The directory to publish.", completion: .directory) var directory: String

    @Option(
        name: .customLong("to"),
        help: "The output directory, a bucket as s3://BUCKET/PREFIX, or a registry as oci://HOST/NAME:TAG."
            .taking("out"),
        completion: .directory)
    var place: String

    @Option(
        help: "The project's name, such as com.example.tower.  (default: the base's, or the directory's name)".taking(
            "id"))
    var project: String?

    @Option(
        help:
            "Publish to this channel, such as beta; manifest.json stays as it is, and every release is kept from now on. See 'syncagent channel'."
            .taking("name"))
    var channel: String?

    @Option(
        help:
            "The manifest whose packs to reuse, or the published directory that has it: a path or a URL.  (default: the one in the output directory)"
            .taking("manifest"), completion: .manifests)
    var base: String?

    @Flag(name: .customLong("no-base"), help: "Reuse nothing; write every pack.") var withoutBase = false

    @Flag(
        help:
            "With --sign: sign what the base says, even if this machine has not signed it and cannot check its signature."
    )
    var acceptBase = false

    @Option(help: "The manifest's revision.  (default: the base's plus 1)".taking("n")) var revision: UInt64?

    @Option(
        name: .customLong("group"),
        help: "Declare a group of files; repeat a name to add patterns to it.  (default: the base's groups)".taking(
            "name=glob"))
    var groups: [String] = []

    @Option(
        name: .customLong("group-hook"),
        help: "Name a hook for a group; the configuration of each machine says which program it runs.".taking(
            "name=hook"))
    var groupHooks: [String] = []

    @Flag(name: .customLong("no-groups"), help: "Declare no groups, even if the base has some.")
    var withoutGroups = false

    @Option(
        name: .customLong("mirror"),
        help:
            "Another URL of the published directory, used after the manifest's own; repeatable.  (default: the base's)"
            .taking("url"))
    var mirrors: [String] = []

    @Flag(name: .customLong("no-mirrors"), help: "Name no mirrors, even if the base does.") var withoutMirrors = false

    @Option(
        name: .customLong("files-url"),
        help: "A URL that serves the plain files one by one; used after the packs.  (default: the base's)".taking("url")
    )
    var filesURL: String?

    @Flag(name: .customLong("no-files-url"), help: "Name no files URL, even if the base does.")
    var withoutFilesURL = false

    @Flag(
        inversion: .prefixedNo,
        help:
            "Make no packs: the manifest points at the plain files, by URLs relative to it or by --files-url. The output may then be the source directory itself. --no-loose makes packs.  (default: as in the base)"
    )
    var loose: Bool?

    @Option(
        name: .customLong("exclude"),
        help: "Leave out matching paths, such as **/*.tmp; a pattern without **/ matches only at the top; repeatable."
            .taking("glob"))
    var excluded: [String] = []

    @Option(
        name: .customLong("exclude-from"),
        help: "Leave out what the patterns in this file match, in gitignore syntax; .syncignore files take precedence."
            .taking("file"), completion: .file())
    var excludedFrom: [String] = []

    @Option(
        help:
            "Keep modification times, permissions or both: times,modes.  (default: as in the base)"
            .taking("what"))
    var preserve: PublishOptions.KeptTraits?

    @Flag(name: .customLong("no-preserve"), help: "Keep neither, even if the base does.") var withoutPreserve = false

    @Option(
        name: .customLong("config"),
        help: "A JSON file with settings that do not change.  (default: publish.json in the source directory)".taking(
            "file"), completion: .file(extensions: ["json"]))
    var config: String?

    @Flag(name: .customLong("no-config"), help: "Treat publish.json as an ordinary file of the set.")
    var withoutConfig = false

    @Flag(name: .customLong("dry-run"), help: "Show what would be new, changed and removed; write nothing.")
    var isDryRun = false

    @OptionGroup var verbose: VerboseOption

    @Flag(help: "Leave out symbolic links that point outside the directory, instead of refusing to publish.")
    var safeLinks = false

    @Option(help: "The largest size of a pack.  (default: 32 MiB)".taking("size"), transform: positiveByteCount)
    var packSize: ByteCount?

    @Option(help: "The zstd compression level, 1 to 19.  (default: 3)".taking("n")) var level: Int32?

    @Option(help: "How many workers hash and compress.  (default: one per core)".taking("n")) var jobs: Int?

    @Flag(help: "Read every file, even those that look unchanged since the last publish.") var rehash = false

    @Flag(help: "Rewrite packs of which more than a fifth is unused, and join small ones.") var repack = false

    @Option(
        help:
            "Keep this many of the newest releases and those that channels point at; remove what only older ones need, once nothing has named it for 24 hours. See 'syncagent releases'.  (default: keep all)"
            .taking("n"))
    var retain: Int?

    @Flag(
        name: .customLong("no-deltas"),
        help: "Do not store changed blobs, or parts of the manifest, as deltas against the base.")
    var withoutDeltas = false

    @Option(
        help:
            "Compress blobs with a shared dictionary: auto (if it saves 4 MiB and 4 %), always or never.  (default: auto)"
            .taking("when"))
    var dictionary: PublishOptions.DictionaryUse?

    @Flag(
        inversion: .prefixedNo,
        help:
            "Split the manifest into parts, so that an update reads only those that changed; --no-manifest-parts keeps it whole.  (default: split above 50,000 files; above 500 in a bucket or registry)"
    )
    var manifestParts: Bool?

    @OptionGroup(title: "Transfer") var limits: SendingOptions

    @OptionGroup(title: "Transfer") var bucket: BucketOptions

    /// The place to publish to, with the options for its bucket.
    var output: String { (try? namedPlace()) ?? place }

    /// The same; the options may concern only the base's bucket.
    private func namedPlace() throws(ValidationError) -> String {
        func isBucket(_ location: String?) -> Bool {
            location.flatMap { urlScheme(of: $0) } == S3Address.scheme
        }
        return isBucket(base) && !isBucket(place) ? place : try bucket.named(place)
    }

    @OptionGroup(title: "Shards") var pieces: ShardOptions

    @OptionGroup(title: "Safeguards") var permitted: PublishPermits

    @OptionGroup(title: "Signatures") var signing: SigningOptions

    @OptionGroup(title: "Output") var reporting: ReportingOptions

    func validate() throws {
        if let channel = ChannelName.meant(channel), let reason = ChannelName.objection(channel) {
            throw ValidationError("--channel: \(reason).")
        }
        if repack, withoutBase {
            throw ValidationError("--repack rewrites the base's packs, and with --no-base there is no base.")
        }
        for (isBoth, name) in [
            (withoutBase && base != nil, "--base and --no-base"),
            (withoutGroups && !(groups + groupHooks).isEmpty, "--no-groups and --group"),
            (withoutMirrors && !mirrors.isEmpty, "--no-mirrors and --mirror"),
            (withoutFilesURL && filesURL != nil, "--no-files-url and --files-url"),
            (withoutPreserve && preserve != nil, "--no-preserve and --preserve"),
            (withoutConfig && config != nil, "--no-config and --config"),
        ] where isBoth { throw ValidationError("\(name) are mutually exclusive.") }
        if acceptBase, signing.sign == nil, signing.signer == nil {
            throw ValidationError("--accept-base needs --sign.")
        }
        if verbose.verbose > 0, !isDryRun { throw ValidationError("-v lists what would be published; add --dry-run.") }
        if isDryRun, let option = pieces.given { throw ValidationError("\(option) does not go with --dry-run.") }
        if directory.isEmpty { throw ValidationError("DIRECTORY needs a path, not an empty string.") }
        if filesURL?.isEmpty == true { throw ValidationError("--files-url needs a URL, not an empty string.") }
        if config?.isEmpty == true { throw ValidationError("--config needs a file, not an empty string.") }
        if excludedFrom.contains("") { throw ValidationError("--exclude-from needs a file, not an empty string.") }
        for mirror in mirrors { try requireURL(mirror, "--mirror") }
        if let filesURL { try requireURL(filesURL, "--files-url") }
        _ = try namedPlace()
        if let base, urlScheme(of: base) == S3Address.scheme { _ = try bucket.named(base) }
        try HomeTarget(output).check(
            "--to",
            "publish to a directory here and copy it there, as with rsync, or to a bucket (s3://BUCKET/PREFIX) or a "
                + "registry (oci://HOST/NAME:TAG)")
        if let objection = Homes.objection(toPublishingTo: output) { throw ValidationError("--to: \(objection).") }
        if let base { try requireLocation(base, "--base", hasOptions: false) }
        _ = try declaredGroups()
    }

    func run() async throws {
        let (output, start) = (reporting.output(), ContinuousClock.now)
        do { try await publish(output, start) } catch {
            let elapsed = Int64((ContinuousClock.now - start) / .milliseconds(1))
            if reporting.json { Self.write(error, isDryRun: isDryRun, elapsed, output) }
            throw error
        }
    }

    /// Prints the last line of `publish --json` after a failure, however early.
    ///
    /// - Parameter elapsed: **Milliseconds**.
    static func write(_ error: any Error, isDryRun: Bool, _ elapsed: Int64, _ output: Output) {
        let cause = PullEnd.cause(error) { "stopped" }
        let line = PublishReport().json(isDryRun: isDryRun, time: now(), elapsed: elapsed, failure: cause)
        output.event(line, flushing: true)
    }

    private func publish(_ output: Output, _ start: ContinuousClock.Instant) async throws {
        let home = try HomeTarget(self.output).home(isWriting: !isDryRun, limitRate: limits.limitRate?.bytes) {
            output.warning($0)
        }
        var options = try publishOptions(environment: .ofProcess)
        options.home = home
        let report = try await working(options, output) {
            [isDryRun] options, isCancelled, progress throws(PublishError) in
            isDryRun
                ? try options.preview(isCancelled: isCancelled, progress: progress)
                : try options.publish(isCancelled: isCancelled, progress: progress)
        }
        let (time, elapsed) = (Self.now(), Int64((ContinuousClock.now - start) / .milliseconds(1)))
        for warning in report.warnings { output.warning(warning) }
        if verbose.detail.isWanted {
            for change in report.changes {
                if reporting.json {
                    output.event(change.json(time: time))
                } else {
                    output.line(change.line(amongAll: verbose.detail == .all), flushing: false)
                }
            }
            if !reporting.json { output.flush() }
        }
        if reporting.json {
            output.event(report.json(isDryRun: isDryRun, time: time, elapsed: elapsed), flushing: true)
        }
        if !report.kept.isEmpty { output.message(report.keptWords) }
        if let text = report.leftOutWords { output.message(text) }
        output.message(report.summary(isDryRun: isDryRun, milliseconds: elapsed))
        if let fresh = report.fresh {
            output.message("Signed under root \(fresh.root); valid until \(timestamp(milliseconds: fresh.until)).")
        }
        if let pruned = report.pruned, let text = pruned.removal { output.message(text) }
        if report.repackPays, !repack, report.pruned == nil {
            output.message("Some packs are mostly unused or small; --repack would rewrite them.")
        }
    }

    func publishOptions(environment: EnvironmentPaths) throws -> PublishOptions {
        var options = PublishOptions(directory: directory, output: output)
        try readFile(into: &options)
        if let work = pieces.work { options.leaveOut(for: work) }
        options.project = project ?? options.project
        options.revision = revision
        if let channel { (options.channel, options.keepsReleases) = (ChannelName.meant(channel), true) }
        if options.keepsReleases { try HomeTarget(output).check(channel: options.channel ?? ChannelName.ofDefault) }
        options.created = try Self.created()
        options.packSize = packSize?.bytes ?? options.packSize
        options.level = level ?? options.level
        options.jobs = jobs ?? min(256, ProcessInfo.processInfo.activeProcessorCount)
        let declared = try declaredGroups()
        if withoutGroups || !declared.isEmpty { options.groups = declared }
        if withoutMirrors || !mirrors.isEmpty { options.mirrors = mirrors }
        options.filesURL = withoutFilesURL ? "" : filesURL ?? options.filesURL
        options.isLoose = loose ?? options.isLoose
        options.preserve = withoutPreserve ? [] : preserve ?? options.preserve
        options.repack = repack
        options.retain = retain ?? options.retain
        options.deltas = options.deltas && !withoutDeltas
        options.dictionary = dictionary ?? options.dictionary
        options.isInParts = manifestParts ?? options.isInParts
        options.exclude += excluded
        options.excludeFrom = excludedFrom
        options.permits = permitted.permits.union(acceptBase ? .foreignBase : [])
        options.ownNames = try ownConfig()
        options.listsUnchanged = verbose.detail == .all
        options.leavesOutUnsafeLinks = safeLinks || options.leavesOutUnsafeLinks
        // The output itself needs no other reader.
        options.base = withoutBase ? .none : base.map { $0 == place ? .inOutput : .manifest($0) } ?? .inOutput
        options.now = SystemTime.ofFiles
        options.trustsStamps = !rehash
        options.shards = pieces.work
        options.stampCache = try stampCache(environment)
        options.signing = try signing.signing(for: output, of: directory, [.release, .fresh], isDryRun: isDryRun)
        // The keys name their project.
        options.project = options.project ?? options.signing?.root.project
        return options
    }

    /// The path of the settings file relative to the directory, if it lies in it: it is not a file of the set.
    private func ownConfig() throws(CommandFailure) -> Set<String> {
        guard !withoutConfig else { return [] }
        guard let config else { return [PublishOptions.fileName] }
        // If the file is reached by a link, the link is left out as well.
        let file = URL(fileURLWithPath: try EnvironmentPaths.absolute(config))
        let place = file.deletingLastPathComponent().resolvingSymlinksInPath().path
        let path = "\(place)/\(file.lastPathComponent)"
        let top = "\(try Self.absolute(directory))/"
        return Set(
            [path, file.resolvingSymlinksInPath().path].filter { $0.hasPrefix(top) }.map {
                String($0.dropFirst(top.count))
            })
    }

    /// Reads the settings file into the options; does nothing if there is no such file.
    private func readFile(into options: inout PublishOptions) throws {
        guard !withoutConfig else { return }
        var place = (directory: try EnvironmentPaths.absolute(directory), name: PublishOptions.fileName)
        if let config {
            let path = try Self.absolute(config)
            let slash = path.lastIndex(of: "/") ?? path.startIndex
            place = (String(path[...slash]), String(path[path.index(after: slash)...]))
        }
        do throws(SettingsError) {
            if try options.read(place.name, in: place.directory, mayBeLink: config != nil) { return }
        } catch {
            let hint = config == nil ? "\nif it is a file of the set, publish with --no-config" : ""
            throw CommandFailure(.configuration, error.description + hint)
        }
        guard let config else { return }
        throw CommandFailure(.noInput, "there is no file \(escaped(config)), which --config names")
    }

    /// The stamp cache in the state directory, one for each pair of directories; `nil` without a state directory.
    private func stampCache(_ environment: EnvironmentPaths) throws(CommandFailure) -> String? {
        // Without a state directory every file is read, as with --rehash.
        guard let state = try? environment.stateDirectory() else { return nil }
        let name = PublishOptions.stampCacheName(
            directory: try Self.absolute(directory),
            output: Homes.isNamed(by: output) ? output : try Self.absolute(output))
        let folder = "\(state)/publish"
        guard (try? openStateDirectory(folder, create: !isDryRun)) != nil else { return nil }
        // Shards know only their own files.
        guard let shard = pieces.shard else { return "\(folder)/\(name)" }
        return "\(folder)/\(name).\(shard.name)"
    }

    private static func absolute(_ path: String) throws(CommandFailure) -> String {
        URL(fileURLWithPath: try EnvironmentPaths.absolute(path)).resolvingSymlinksInPath().path
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
                guard parts.count == 2 else { throw ValidationError("\(option) takes NAME=…, not '\(escaped(text))'.") }
                let position = index(of: parts[0])
                if option == "--group" {
                    result[position].include.append(parts[1])
                } else {
                    result[position].hooks.append(parts[1])
                }
            }
        }
        // One --group-hook alone would replace the base's groups by one without files, whose hook every run would call.
        if let empty = result.first(where: \.include.isEmpty) {
            throw ValidationError(
                "--group-hook names the group '\(escaped(empty.name))', and no --group says which files it has: name the "
                    + "patterns of every group again.")
        }
        return result
    }

    /// The time of a release. Refuses an invalid SOURCE_DATE_EPOCH.
    static func created() throws(CommandFailure) -> String {
        if let text = ProcessInfo.processInfo.environment["SOURCE_DATE_EPOCH"], !text.isEmpty, epoch(text) == nil {
            throw CommandFailure(
                .usage, "SOURCE_DATE_EPOCH is '\(escaped(text))'; it takes seconds since 1970, such as 1795140000.")
        }
        return now()
    }

    /// The current time, or that for reproducible builds. <https://reproducible-builds.org/specs/source-date-epoch/>
    private static func now() -> String {
        let fixed = ProcessInfo.processInfo.environment["SOURCE_DATE_EPOCH"].flatMap(epoch)
        return timestamp(milliseconds: fixed ?? SystemTime.milliseconds())
    }

    /// **Milliseconds** since 1970; `nil` for a time that no manifest can have.
    private static func epoch(_ text: String) -> Int64? {
        Int64(text).flatMap { (0..<253_402_300_800).contains($0) ? $0 * 1_000 : nil }
    }
}

/// How much of the network a publish may use.
struct SendingOptions: ParsableArguments {
    @Option(
        help: "Send at most this many bytes per second, such as 500K or 10MB.".taking("rate"),
        transform: positiveByteCount)
    var limitRate: ByteCount?
}

extension PublishOptions.DictionaryUse: ExpressibleByArgument {}

extension PublishOptions.KeptTraits: ExpressibleByArgument {
    /// `times,modes`
    public init?(argument: String) {
        self.init(words: argument.split(separator: ",", omittingEmptySubsequences: false))
    }
}
