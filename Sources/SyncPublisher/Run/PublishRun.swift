import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem
import SyncTrust

/// One publish: makes a set that any static web server can serve out of a directory. Holds the state that the steps
/// share.
///
/// 1. Walk the source; refuse what no manifest can carry, all of it by name. Make a dictionary, where one pays.
/// 2. Read in path order; large files are cut into chunks. Workers hash and compress.
/// 3. Collect in path order and write packs; content that has a place already is not written again.
/// 4. Count how much of the base's packs is still needed; repack if asked to.
/// 5. Make packs durable and name them, then the manifest, then the statements that sign it.
///
/// Memory is bounded by the pipeline's window, about **16 MiB** and a few for each worker, besides about
/// **200 bytes** for each file and blob. Making a dictionary takes about **80 MiB** more.
struct PublishRun {
    let options: PublishOptions
    let output: OutputDirectory
    var base: BaseSet?
    let before: PublishedBefore
    let catalogue = Catalogue()
    let project: String
    let placement: OutputPlacement
    let choices: PublishChoices
    var report = PublishReport()
    /// The dictionary for new blobs.
    private var dictionary: EncodingDictionary?
    /// The blob of a new dictionary, with the pack number of the catalogue.
    private(set) var madeDictionary: Manifest.OwnBlob?

    init(_ options: PublishOptions, _ output: OutputDirectory, _ placement: OutputPlacement) throws(PublishError) {
        (self.options, self.output, self.placement) = (options, output, placement)
        let parts: BaseParts = options.shards == nil ? .all : .first
        let base = try BaseSet.load(options, output, ownPlace: placement.ownPlace, parts)
        self.base = base
        choices = try PublishChoices(options, base: base?.manifest, ownPlace: placement.ownPlace)
        if !choices.isLoose { try output.checkFolders() }
        before = try PublishedBefore(output, base: base, signing: options.signing, isLoose: choices.isLoose)
        var named = options
        if base == nil, let joined = try options.projectOfShards(in: output) { named.project = joined }
        project = try named.projectName(base: base?.manifest, published: before.project)
        try check()
        try checkRename()
        if let keys = options.signing?.root.project, keys != project {
            throw .refused(
                "the keys are for project \(keys), but this is \(shown(project))",
                "use the keys of this project, or --project")
        }
        func requireRevision(above last: UInt64, _ what: String) throws(PublishError) {
            guard let revision = options.revision, revision <= last else { return }
            throw .usage("revision \(revision) is not above \(what)", "leave --revision out, or choose a larger one")
        }
        let former = base?.manifest.revision ?? 0
        try requireRevision(above: former, "the base's, \(former)")
        try requireRevision(above: before.revision, "\(before.revision), which \(shown(output.path)) has")
        if let signing = options.signing {
            try checkBase(signing)
            let last = try signing.known?.lastRevision ?? 0
            try requireRevision(above: last, "\(last), which this machine has signed")
        }
    }

    /// Makes the base's packs ready for use. They are read if the release is signed, or if stamps are not trusted.
    mutating func prepareBase(
        isPreview: Bool = false, isCancelled: () -> Bool, progress: (PublishProgress) -> Void
    ) throws(PublishError) {
        let options = options
        if options.signing != nil || !options.trustsStamps {
            try base?.checkPacks(options, isRemembered: !isPreview, isCancelled: isCancelled) { done, total in
                progress(PublishProgress(step: .checking, files: 0, bytes: done, totalBytes: total))
            }
        }
        try base?.register(in: catalogue)
    }

    /// Checks that the options fit the output.
    private func check() throws(PublishError) {
        if choices.isLoose, output.home != nil {
            throw .usage(
                "a loose set has only its files as they are, which are not sent anywhere",
                "publish it in packs, without --loose; or copy the files there, and publish to a directory with --files-url"
            )
        }
        if choices.isLoose, options.isInParts == true {
            throw .usage(
                "manifest parts are stored in packs, and a loose set has none", "leave out --manifest-parts or --loose")
        }
        if choices.isLoose, options.keepsReleases {
            throw .usage(
                "a loose set has its files as they are now, and no channel could point at them as they were",
                "leave out --channel or --loose")
        }
        if choices.isLoose, options.retain != nil {
            throw .usage(
                "a loose set has its files as they are now, and keeps no releases", "leave out --retain or --loose")
        }
        try checkFilesURL()
        guard placement == .same else { return }
        guard choices.isLoose else {
            throw .usage(
                "the output \(shown(options.output)) is the source itself",
                "name another output directory, or publish the files as they are with --loose")
        }
        if options.signing != nil {
            throw .usage(
                "the signatures would be among the files that are published",
                "name another output directory for a signed set")
        }
        // Without a base here, this name belongs to a file of the user. A base that was loaded from here is known to be
        // a manifest.
        if base == nil || options.base != .inOutput {
            var inOutput = options
            inOutput.base = .inOutput
            for name in ["manifest.json", "manifest.json.zst"] where try output.size(.top, name) != nil {
                guard name == "manifest.json", (try? BaseSet.load(inOutput, output, ownPlace: "")) != nil else {
                    throw .invalid(
                        "\(shown(options.output))/\(name) is a file of the set, and would be replaced",
                        "name another output directory")
                }
                break
            }
        }
    }

    /// Refuses a loose set below the output whose base has its files elsewhere below it: the URLs would lead to the files
    /// of another directory, if to any.
    private func checkFilesURL() throws(PublishError) {
        guard choices.isLoose, options.filesURL == nil, placement != .apart, let url = choices.filesURL,
            urlScheme(of: url) == nil, !url.hasPrefix("/"), !url.hasPrefix("../")
        else { return }
        let again = choices.mirrors.isEmpty ? "" : ", and name the mirrors again with --mirror"
        let place = url.isEmpty ? "./" : url
        throw .usage(
            "the files of the base are at \(shown(place)) in \(shown(options.output)), and "
                + "\(shown(options.directory)) is not there",
            "if the files have moved, add --no-files-url\(again); if a server has them there, add "
                + "--files-url \(shown(place))")
    }

    mutating func run(_ root: SourceRoot, isCancelled: () -> Bool, progress: (PublishProgress) -> Void)
        throws(PublishError) -> PublishReport
    {
        try prepareBase(isCancelled: isCancelled, progress: progress)
        let tree = try walk(root, isCancelled: isCancelled, progress: progress)
        let packed = try pack(tree, root, isCancelled: isCancelled, progress: progress)
        try writeManifest(packed.files, mayBeUnchanged: !packed.hasNews)
        keepStamps(packed.files.entries)
        report.warnings += [base?.place.ranges?.warning].compactMap(\.self)
        return report
    }

    /// Packs the content that has no place yet, and collects what the manifest needs.
    ///
    /// - Returns: The manifest's contents, and whether there are packs that the base does not name, or some that are no
    ///   longer needed.
    mutating func pack(
        _ tree: SourceTree, _ root: SourceRoot, isCancelled: () -> Bool, progress: (PublishProgress) -> Void
    ) throws(PublishError) -> (files: ManifestFiles, hasNews: Bool) {
        if !choices.isLoose { try output.make(.packs, .manifests) }
        let purpose = choices.isLoose ? Collector.Purpose.hashing : .packing
        let writer = try PackWriter(output, packSize: options.packSize, firstPack: base?.packs.count ?? 0)
        var collector = Collector(tree, catalogue, writer, base?.manifest, for: purpose)
        if !choices.isLoose { try chooseDictionary(root, tree, writer, progress: progress) }
        report.bufferBytes = try SourceReading(
            of: tree, in: root, catalogue: catalogue, options: options, dictionary: dictionary, for: purpose
        ).run(
            &collector, isCancelled: isCancelled, progress: progress)
        completeBase(collector.ledger)
        if isCancelled() { throw .cancelled }
        var last = collector.progress
        last.step = .finishing
        progress(last)
        let ledger = collector.ledger
        var deltas = choices.isLoose ? [:] : carriedDeltas(tree, ledger, catalogue.places, base)
        func used(_ parts: [Int: UInt64] = [:]) -> PackUsage {
            PackUsage(base, catalogue.places, ledger, deltas: deltas, parts: parts, packSize: options.packSize)
        }
        var usage = used()
        let moving = options.repack ? usage.worthRepacking : usage.mostlyUnused(atMost: writer.bytes)
        if options.repack || options.retain != nil, !moving.isEmpty {
            var repacker = Repacker(worthRepacking: moving, packs: base?.packs ?? [], output: output)
            try repacker.repack(ledger.blobsInOrder(count: catalogue.places.count), of: catalogue, to: writer)
            report.movedBytes = repacker.bytes
            for pack in repacker.left where try output.size(.packs, pack.packName) != nil {
                report.warnings.append(
                    "pack \(pack.packName) cannot be read, or does not have the content that its name says: it stays; "
                        + "--rehash makes it again")
            }
            usage = used()
        }
        if options.deltas, !choices.isLoose, let base, deltas.isEmpty {
            let plan = DeltaPlan(tree, ledger, catalogue.places, base)
            var maker = DeltaMaker(
                root: root, tree: tree, places: catalogue.places, base: base, options: options, output: output)
            (deltas, report.deltaBytes) = try maker.run(plan.tasks, writer, isCancelled: isCancelled)
            self.base = maker.base
        }
        try writer.finish()
        report.deltas = deltas.values.reduce(0) { $0 + $1.count }
        let entries = ManifestEntries(
            tree: tree, ledger: ledger, places: catalogue.places, deltas: deltas,
            prefixes: choices.filePrefixes(ownPlace: placement.ownPlace))
        let parts = try isInParts(tree) ? makeParts(entries, writer) : nil
        try output.home?.drain { sent, bytes in
            progress(PublishProgress(step: .sending, files: last.files, bytes: sent, totalBytes: bytes))
        }
        usage = used(PartMaker.bytes(parts?.all.flatMap(\.all) ?? []))
        fill(tree, collector)
        fill(usage, written: writer.written + (parts?.writer.written ?? []))
        let packsOfParts = parts?.writer.packs ?? []
        let files = manifestFiles(entries, usage, writer.packs, parts: parts?.all, packsOfParts)
        return (files, !writer.packs.isEmpty || !packsOfParts.isEmpty || usage.droppedPacks > 0)
    }

    /// Reports what ``run(_:isCancelled:progress:)`` would do. Nothing is written.
    mutating func preview(_ root: SourceRoot, isCancelled: () -> Bool, progress: (PublishProgress) -> Void)
        throws(PublishError) -> PublishReport
    {
        try prepareBase(isPreview: true, isCancelled: isCancelled, progress: progress)
        let tree = try walk(root, isCancelled: isCancelled, progress: progress)
        let writer = try PackWriter(output, packSize: options.packSize)
        let purpose = choices.isLoose ? Collector.Purpose.hashing : .counting
        var collector = Collector(tree, catalogue, writer, base?.manifest, for: purpose)
        _ = try SourceReading(of: tree, in: root, catalogue: catalogue, options: options, for: purpose).run(
            &collector, isCancelled: isCancelled, progress: progress)
        completeBase(collector.ledger)
        if isCancelled() { throw .cancelled }
        fill(tree, collector)
        report.revision = try nextRevision()
        report.encodedBytes = collector.unplaced
        let isOther = try differsInAnyCase(tree)
        var isThere = false
        if let base { isThere = try isShown(base) }
        report.compare(
            tree, collector.ledger.digests, with: base?.manifest, hasOtherChoices: isOther, isShown: isThere,
            listsAll: options.listsUnchanged)
        if report.unchanged, options.repack, !choices.isLoose {
            report.warnings.append(
                "a dry run does not know which packs --repack rewrites: there is a new revision if it rewrites any")
        }
        return report
    }

    /// Completes the base's digests, where it was read from outlines, once the tree has been read.
    private mutating func completeBase(_ ledger: Ledger) {
        let catalogue = catalogue
        base?.completeDigests(from: ledger, catalogue)
    }

    /// Whether a publish would make a manifest of its own even if each file were as in the base.
    private func differsInAnyCase(_ tree: SourceTree) throws(PublishError) -> Bool {
        guard let base else { return true }
        if choices.differsFromBase || options.revision != nil || project != base.manifest.project { return true }
        if try !mayStay(base.manifest) { return true }
        guard !choices.isLoose else { return false }
        // A pack that is missing or damaged is made again, and so is an outline.
        return base.usable.contains(false) || !base.damagedOutlines.isEmpty
            || tree.count > 0 && isInParts(tree) == base.manifest.parts.isEmpty
    }

    mutating func walk(_ root: SourceRoot, isCancelled: () -> Bool, progress: (PublishProgress) -> Void)
        throws(PublishError) -> SourceTree
    {
        var walk = try treeWalk()
        try walk.run(root) { count throws(PublishError) in
            if isCancelled() { throw .cancelled }
            progress(PublishProgress(step: .walking, files: count))
        }
        try walk.checkLinks(root)
        if let error = walk.notes.error { throw error }
        if choices.isLoose, choices.filesURL == nil, placement == .apart,
            let name = Self.names.first(where: { name in
                walk.tree.entries.indices.contains { walk.tree.path($0) == name }
            })
        {
            throw .invalid(
                "\(name) of the set would take the place of the manifest itself",
                "leave it out with --exclude \(name), or say with --files-url where the files are")
        }
        var (filled, budget) = (Set<String>(), PatternBudget(options.limits))
        try noteGroups(walk.tree, &filled, &budget, isCancelled: isCancelled)
        try reportNotes(walk.notes, filled, count: walk.count)
        // Moved, not copied: there may be millions of entries.
        var tree = walk.finish()
        spareUntouched(&tree)
        return tree
    }

    private static let names = ["manifest.json", "manifest.json.zst"]

    /// - Parameter range: Paths outside are not walked.
    func treeWalk(within range: TreeWalk.PathRange = (nil, nil)) throws(PublishError) -> TreeWalk {
        let ownNames = placement == .same ? Set(Self.names + [OutputLock.name]) : []
        return try TreeWalk(
            options, keeping: choices.preserve, ownNames: ownNames.union(options.ownNames), within: range)
    }

    /// Reports the notes of a walk, and refuses a source that is probably not the right one.
    ///
    /// - Parameters:
    ///   - filled: The groups that select something in the source.
    ///   - count: The number of its entries.
    mutating func reportNotes(_ notes: WalkNotes, _ filled: Set<String>, count: Int) throws(PublishError) {
        report.excluded = notes.excluded
        report.usuallyLeftOut = notes.usuallyLeftOut.sorted()
        report.warnings += notes.warnings + (base?.warnings ?? [])
        report.warnings += groupWarnings(filled)
        if let loss = loss(count) {
            guard output.isReadOnly else { throw loss }
            report.warnings.append("publish would refuse this: \(loss.summary)")
        }
        report.isLoose = choices.isLoose
        report.kept = choices.kept
    }

    /// Why the source is probably not the right one, such as a disk that is not mounted; `nil` if nothing suggests
    /// that.
    private func loss(_ count: Int) -> PublishError? {
        guard !options.permits.contains(.fewerFiles) else { return nil }
        // Even without a base, the publish replaces the published set. If that set is unreadable, it may be why there
        // is no base.
        let published = BasePlace(.top, "manifest.json", of: output)
        let here = options.shards == nil ? base.map { ($0.manifest.files.count, $0.manifest.revision) } : nil
        let place = base?.place ?? (options.base == .none ? published : nil)
        let size: (entries: Int, revision: UInt64)? = here ?? place?.extent
        let former = size?.entries ?? 0
        guard count == 0 || count < former - count else { return nil }
        let found = count == 0 ? "no files or links" : count == 1 ? "one file or link" : "\(count) files and links"
        let what = "\(shown(options.directory)) has \(found)"
        let before = size.map { ", less than half of the \(former) of revision \($0.revision)" } ?? ""
        return .refused(
            what + (former > 0 ? before : ""),
            "is it the right directory, and is everything mounted? If so: --allow-fewer; nothing was published")
    }

    /// Chooses the base's dictionary, so that one set has one; otherwise a new one, if it pays.
    private mutating func chooseDictionary(
        _ root: SourceRoot, _ tree: SourceTree, _ writer: PackWriter, progress: (PublishProgress) -> Void
    ) throws(PublishError) {
        guard options.dictionary != .never else { return }
        if let base, base.manifest.dictionary != nil {
            guard let bytes = base.dictionary else { return }
            let encoding = try DictionaryMaker.encoding(bytes, level: options.level)
            if base.isDictionaryUsable {
                dictionary = encoding
            } else if options.shards == nil {
                try keep((bytes, encoding, try DictionaryMaker.frame(of: bytes)), writer)
            }
            return
        }
        // A new dictionary would be for all shards, and none of them sees the files of the others.
        guard options.shards == nil else { return }
        let (made, effort) = try withoutActuallyEscaping(progress) { progress throws(PublishError) in
            var maker = DictionaryMaker(root: root, tree: tree, base: base, options: options) { step, done, total in
                progress(PublishProgress(step: step, files: tree.count, bytes: done, totalBytes: total))
            }
            return (try maker.make(), maker.effort)
        }
        report.trialBytes = effort
        if let made { try keep(made, writer) }
    }

    /// Stores a dictionary, for this set's new blobs.
    private mutating func keep(_ made: DictionaryMaker.Made, _ writer: PackWriter) throws(PublishError) {
        dictionary = made.encoding
        // The dictionary gets a pack of its own, so that repacking blobs never moves it.
        let blob = try writer.append(made.frame, of: made.bytes)
        try writer.cut()
        madeDictionary = Manifest.OwnBlob(blob: blob, digest: try calling { try sha256(made.bytes) })
        report.dictionaryBytes = blob.storedLength
    }

    private mutating func fill(_ tree: SourceTree, _ collector: Collector) {
        report.project = project
        report.files = tree.fileCount
        report.links = tree.count - tree.fileCount
        report.directories = tree.directories.count
        report.unreadFiles = collector.unread
        report.savedBytes = collector.saved
        report.rawBytes = tree.totalSize
    }

    /// - Parameter written: **Bytes** of each new pack; 0 for one that existed already.
    private mutating func fill(_ usage: PackUsage, written: [UInt64]) {
        report.uniqueBytes = usage.uniqueBytes
        report.storedBytes = usage.liveBytes
        report.deadBytes = usage.deadBytes
        let bytes = written.reduce(0, +)
        report.newBytes = bytes - min(bytes, report.deltaBytes + report.partBytes)
        report.packsWritten = written.count { $0 > 0 }
        report.packsReused = usage.keptPacks.count + written.count { $0 == 0 }
        report.packsDropped = usage.droppedPacks
        report.repackPays = !usage.worthRepacking.isEmpty
    }
}

/// The last step of a publish: the manifest, and what the next publish needs.
extension PublishRun {
    /// The manifest's contents: packs of the base that are still needed, then the new ones.
    private func manifestFiles(
        _ entries: ManifestEntries, _ usage: PackUsage, _ newPacks: [Manifest.Pack], parts: [Manifest.Part]?,
        _ packsOfParts: [Manifest.Pack]
    ) -> ManifestFiles {
        var packs: [Manifest.Pack] = []
        var indices: [UInt32?] = []
        for (number, pack) in (base?.packs ?? []).enumerated() {
            let isKept = usage.keptPacks.contains(number)
            indices.append(isKept ? UInt32(packs.count) : nil)
            guard isKept else { continue }
            packs.append(pack)
            // A mirror of this directory has all of its packs.
            let name = options.packURLPrefix + pack.sha256.packName
            if pack.urls == [name] { packs[packs.count - 1].urls = choices.packURLs(name) }
        }
        for pack in newPacks {
            indices.append(UInt32(packs.count))
            packs.append(named(pack))
        }
        var dictionary = madeDictionary ?? (usage.keepsDictionary ? base?.manifest.dictionary : nil)
        if let pack = dictionary.flatMap({ indices[Int($0.blob.pack)] }) { dictionary?.blob.pack = pack }
        let (ofBase, firstOfParts) = (UInt32(base?.packs.count ?? 0), UInt32(packs.count))
        packs += packsOfParts.map(named)
        return ManifestFiles(
            entries: entries, packs: packs, packIndices: indices,
            chunking: choices.isLoose || entries.ledger.digests.isEmpty ? nil : options.chunks, project: project,
            groups: choices.groups, userData: base?.manifest.userData,
            parts: parts?.map { part in
                var part = part
                part.renumberPacks { $0 < ofBase ? indices[Int($0)] ?? .max : firstOfParts + $0 - ofBase }
                return part
            }, dictionary: dictionary)
    }

    func named(_ pack: Manifest.Pack) -> Manifest.Pack {
        var pack = pack
        pack.urls = choices.packURLs(options.packURLPrefix + pack.sha256.packName)
        return pack
    }

    /// Writes the manifest, unless it would equal the base; that is only possible with the base's packs and no others.
    mutating func writeManifest(_ files: ManifestFiles, mayBeUnchanged: Bool) throws(PublishError) {
        if !choices.isLoose { try output.keepRelease() }
        if options.keepsReleases { try Channels(output).begin() }
        if let base, case let former = base.manifest, mayBeUnchanged, options.revision == nil, try mayStay(former),
            try files.digest(revision: former.revision, created: former.created) == former.digest
        {
            // The manifest can still be new in the output: for another channel, or from a base elsewhere.
            report.unchanged = try isShown(base)
            if report.unchanged, options.channel == nil, try isInPlace(former.digest, former.revision) { return }
            return try write(files, revision: former.revision, created: former.created)
        }
        // Packs of a base elsewhere may be made anew each time, and the result can still equal the manifest in the
        // output.
        if options.revision == nil, base?.place.isElsewhere == true, before.manifests.count == 1,
            let there = before.manifests.first, try mayStay(there, under: before.revision),
            try files.digest(revision: before.revision, created: before.created) == there
        {
            report.unchanged = try isShown(there)
            if report.unchanged, options.channel == nil, try isInPlace(there, before.revision) { return }
            return try write(files, revision: before.revision, created: before.created)
        }
        let revision = try nextRevision()
        if let last = try output.keptRevisions().last, revision <= last {
            throw .usage(
                "revision \(revision) is not above \(last), which is kept for channels",
                last < PublishOptions.lastRevision
                    ? "use --revision \(last + 1), or remove what has that number"
                    : "remove what has that number")
        }
        try write(files, revision: revision, created: options.created)
    }

    /// The highest revision that was signed with valid keys; 0 for an unsigned set.
    private func lastSigned() throws(PublishError) -> UInt64 {
        guard let signing = options.signing else { return 0 }
        let known = try signing.known?.lastRevision ?? 0
        return try SignedOutput(output: output, signing: signing).newestRelease(above: known) ?? known
    }

    func nextRevision() throws(PublishError) -> UInt64 {
        if let revision = options.revision { return revision }
        let former = max(base?.manifest.revision ?? 0, before.revision, try lastSigned())
        let (next, overflow) = former.addingReportingOverflow(1)
        guard !overflow, next <= PublishOptions.lastRevision else {
            throw .invalid(
                "\(shown(output.path)) has the highest possible revision",
                "publish to another directory, under another project name")
        }
        return next
    }

    /// Whether the base may be published as it is, because it replaces neither a newer release nor another one of its
    /// number. Pinned machines do not go back behind the last signed revision.
    private func mayStay(_ base: Manifest) throws(PublishError) -> Bool {
        guard try base.revision >= lastSigned() else { return false }
        guard base.revision == before.revision else { return base.revision > before.revision }
        return before.manifests == [base.digest]
    }

    /// Whether a manifest in the output may keep its number: nothing newer was signed, and nothing else under that
    /// number.
    private func mayStay(_ manifest: SHA256Digest, under revision: UInt64) throws(PublishError) -> Bool {
        let last = try lastSigned()
        guard revision == last, let signing = options.signing else { return revision > last }
        let known = try? SignedOutput(output: output, signing: signing).signed(revision)
        return known?.content.manifest == manifest
    }

    private mutating func write(_ files: ManifestFiles, revision: UInt64, created: String?) throws(PublishError) {
        if let channel = options.channel { _ = try Channels(output).index(with: channel, at: revision, project) }
        let written = try files.write(
            to: output, revision: revision, created: created,
            isKept: options.keepsReleases ? true : try output.hasChannels(), isNewest: options.channel == nil
        ) { digest throws(PublishError) in
            guard let signing = options.signing else { return }
            try signing.memory?.note(made: digest, under: signing.roots, now: signing.now)
        }
        if let channel = options.channel {
            try output.give("\(revision).json.zst", from: .channels, "\(channel).json.zst", in: .channels)
            try Channels(output).note(channel, revision, project)
        }
        // Signing does the same.
        if !choices.isLoose, options.signing == nil {
            do throws(PublishError) {
                try output.keep(written.digest, ofRevision: options.channel == nil ? nil : revision)
            } catch { throw output.after("revision \(revision) is published", error) }
        }
        report.revision = revision
        report.manifestDigest = written.digest
        report.manifestBytes = written.size
        report.compressedManifestBytes = written.compressed
    }

    /// Whether the channel that is published to points at the base already.
    private func isShown(_ base: BaseSet) throws(PublishError) -> Bool {
        if options.channel == nil, base.place.isNewest { return true }
        return try isShown(base.manifest.digest)
    }

    /// Whether that channel points at a manifest already.
    private func isShown(_ digest: SHA256Digest) throws(PublishError) -> Bool {
        if let channel = options.channel {
            guard let text = try output.manifestText(.channels, "\(channel).json.zst") else { return false }
            return try calling { try sha256(text) } == digest
        }
        return try output.digest(.top, "manifest.json") == digest
    }

    /// Whether both forms of a manifest are in the output already.
    private mutating func isInPlace(_ manifest: SHA256Digest, _ revision: UInt64) throws(PublishError) -> Bool {
        guard let plain = try output.size(.top, "manifest.json"),
            let frame = try output.size(.top, "manifest.json.zst"),
            try output.digest(.top, "manifest.json") == manifest,
            // A killed run may have replaced only this file.
            let text = try output.manifestText(.top, "manifest.json.zst"), (try? sha256(text)) == manifest
        else { return false }
        report.revision = revision
        report.manifestDigest = manifest
        report.manifestBytes = plain
        report.compressedManifestBytes = frame
        return true
    }

    /// Writes the stamps of the files. A failure only costs time at the next publish.
    mutating func keepStamps(_ entries: ManifestEntries) {
        guard let path = options.stampCache, let now = options.now else { return }
        let tree = entries.tree
        let withKeys = options.permits.contains(.privateKeys)
        let code = StampCache.write(tree.count, to: path, withKeys: withKeys, now: now) { index, add in
            // The times of a file that is generated when it is read say nothing.
            guard !tree.entries[index].hasUnstatedSize, let digest = entries.digest(of: index) else { return }
            tree.withPath(index) { add($0, tree.entries[index].stamp, digest) }
        }
        guard let code else { return }
        report.warnings.append("cannot write \(shown(path)): \(code); the next publish reads every file again")
    }
}

/// Publishing, from its start to its end.
extension PublishOptions {
    /// Publishes. `isCancelled` and `progress` are called on the caller's thread, between pieces.
    ///
    /// - Throws: ``PublishError``; the old manifest is in place then, and nothing new, unless only the signing failed.
    package func publish(isCancelled: () -> Bool = { false }, progress: (PublishProgress) -> Void = { _ in })
        throws(PublishError) -> PublishReport
    {
        try check()
        try checkShards()
        if case .shard(let shard) = shards {
            return try publish(shard, isCancelled: isCancelled, progress: progress)
        }
        let (root, output, placement, notes) = try open()
        if let objection = try output.objection(to: signing, permits) { throw objection }
        if placement == .same { try output.beginInPlace() }
        let time = now.map { $0 / 1_000_000 }
        guard retain == nil || time != nil else { throw .bug("a publish that retains releases needs to know the time") }
        func note() { if let time { ReleaseMarks.update(output, now: time) } }
        do throws(PublishError) {
            var run = try PublishRun(self, output, placement)
            run.report.warnings += notes
            note()
            var report =
                switch shards {
                case .join(let count): try run.join(count, isCancelled: isCancelled, progress: progress)
                case .shard, nil: try run.run(root, isCancelled: isCancelled, progress: progress)
                }
            report.channel = channel
            // The release is published by now, so a statement that cannot be read is no failure.
            if signing == nil, let word = try? output.word(channel), word.fresh.revision != report.revision {
                report.warnings.append(
                    "revision \(word.fresh.revision) was signed, and revision \(report.revision) is not: machines that are "
                        + "pinned do not get it; publish again with --sign")
            }
            if let signing {
                report.fresh = try report.manifestDigest.map { digest throws(PublishError) in
                    try SignedOutput(output: output, signing: signing).publish(
                        report.revision, digest, size: report.manifestBytes, to: channel,
                        ifUnsigned: "publish again with --sign")
                }
                if permits.contains(.otherKeys) { try output.removeOtherRoots(than: signing) }
            }
            note()
            // After this, no reader is shown a release that the prune removes.
            try output.home?.commit()
            if let retain, let time { prune(output, keep: retain, now: time, &report) }
            try output.home?.commit()
            return report
        } catch {
            output.clear()
            throw error
        }
    }

    /// Opens the source and the output.
    ///
    /// - Parameter shard: The one that writes; others may do so meanwhile.
    /// - Returns: Both, where they are relative to each other, and warnings of a store.
    func open(isReadOnly: Bool = false, shard: Shard? = nil) throws(PublishError) -> (
        root: SourceRoot, output: OutputDirectory, placement: OutputPlacement, notes: [String]
    ) {
        let root = try SourceRoot(directory)
        guard let home else {
            let placement = try OutputPlacement.find(source: root, output: output)
            return (root, try OutputDirectory(output, isReadOnly: isReadOnly, shard: shard), placement, [])
        }
        let store = Home(home, isReadOnly: isReadOnly)
        return (root, OutputDirectory(store), .apart, isReadOnly ? [] : try store.prepare())
    }

    /// Removes old releases. The new release is complete by now, so a failure is no more than a warning.
    private func prune(_ output: OutputDirectory, keep: Int, now: Int64, _ report: inout PublishReport) {
        do throws(PublishError) {
            report.pruned = try Prune(keep: keep, now: now).run(output)
        } catch { report.warnings.append("old releases stay: \(error.summary); \(error.remedy)") }
    }

    /// Reports what ``publish(isCancelled:progress:)`` would do, and writes nothing at all. It reads the source, and
    /// the files of the output that the base names.
    package func preview(isCancelled: () -> Bool = { false }, progress: (PublishProgress) -> Void = { _ in })
        throws(PublishError) -> PublishReport
    {
        try check()
        let (root, output, placement, _) = try open(isReadOnly: true)
        let objection = try output.objection(to: signing, permits)
        if placement == .same { try output.beginInPlace() }
        var run = try PublishRun(self, output, placement)
        if let objection { run.report.warnings.append("publish would refuse this: \(objection.summary)") }
        run.report.channel = channel
        return try run.preview(root, isCancelled: isCancelled, progress: progress)
    }
}
