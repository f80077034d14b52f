import SyncContent
package import SyncManifest
import SyncModel
import SyncSystem

/// Publishing in pieces: each shard packs its own files, beside other shards, and the join writes the manifest.
extension PublishOptions {
    /// Drops the options that `publish.json` sets for a publish in one piece, or for the join.
    package mutating func leaveOut(for work: ShardWork) {
        if isInParts == false { isInParts = nil }
        if dictionary == .always { dictionary = .automatic }
        guard work.isShard else { return }
        (channel, keepsReleases, retain) = (nil, false, nil)
    }

    /// Refuses options that make no sense for a piece of the work.
    func checkShards() throws(PublishError) {
        guard let shards else { return }
        func refuse(_ isGiven: Bool, _ option: String, _ why: String) throws(PublishError) {
            guard isGiven else { return }
            throw .usage(
                "\(option) does not go with --\(shards.isShard ? "shard" : "join"): \(why)", "leave \(option) out")
        }
        if let home, !home.store.namesAtOnce {
            throw .usage(
                "\(shards.isShard ? "--shard" : "--join") needs a directory or a bucket: a registry keeps no packs before a manifest "
                    + "names them, as \(shown(output)) would have to",
                "publish and join in a bucket, or in a directory that all shards can write to")
        }
        try refuse(isLoose == true, "--loose", "a loose set has no packs")
        try refuse(isInParts == false, "--no-manifest-parts", "shards write parts of the manifest")
        try refuse(repack, "--repack", "a shard sees only its own share of a pack")
        try refuse(dictionary == .always, "--dictionary always", "shards use the dictionary that the set has")
        switch base {
        case .inOutput, .none: break
        case .manifest, .served: try refuse(true, "--base", "shards build on what is in the output directory")
        }
        guard shards.isShard else { return }
        try refuse(signing != nil, "--sign", "the join signs")
        try refuse(channel != nil, "--channel", "the join publishes to it")
        try refuse(revision != nil, "--revision", "the join gives the number")
        try refuse(retain != nil, "--retain", "the join removes old releases")
    }

    /// Publishes one shard.
    func publish(_ shard: Shard, isCancelled: () -> Bool, progress: (PublishProgress) -> Void) throws(PublishError)
        -> PublishReport
    {
        guard let now else { throw .bug("a shard needs to know the time") }
        var options = self
        options.isInParts = true
        let (root, output, placement, notes) = try open(shard: shard)
        do throws(PublishError) {
            var run = try PublishRun(options, output, placement)
            run.report.warnings += notes
            return try run.run(shard, root, began: now, isCancelled: isCancelled, progress: progress)
        } catch {
            output.clear()
            throw error
        }
    }
}

extension PublishOptions {
    /// The project of the shards that are joined, if the options name none; `nil` where there are no records.
    func projectOfShards(in output: OutputDirectory) throws(PublishError) -> String? {
        guard case .join(let count) = shards, project == nil else { return nil }
        for number in 0..<count {
            guard let shard = Shard(number, of: count), let record = try ShardRecord.read(shard, from: output) else {
                continue
            }
            return record.report.project
        }
        return nil
    }
}

extension ShardWork {
    package var isShard: Bool { if case .shard = self { true } else { false } }
}

extension PublishRun {
    /// Packs the shard's own entries, unless that is done already.
    fileprivate mutating func run(
        _ shard: Shard, _ root: SourceRoot, began: Int64, isCancelled: () -> Bool, progress: (PublishProgress) -> Void
    ) throws(PublishError) -> PublishReport {
        guard !choices.isLoose else {
            throw .usage("\(shown(options.output)) has a loose set, which has no packs", "publish it without --shard")
        }
        report.shards = .shard(shard)
        var (tree, listing) = try ownTree(of: shard, root, isCancelled: isCancelled, progress: progress)
        var seen = try ListingDigest(isLocal: true)
        try seen.add(tree)
        let about = ShardRecord.Source(
            listing: listing, settings: try settings(of: shard.count), base: base?.manifest.digest ?? .zero,
            seen: try seen.finish())
        if options.trustsStamps, let done = try ShardRecord.read(shard, from: output), done.about == about,
            Self.lastChange(tree) < done.began.saturatingSubtract(StampCache.racyTime),
            try isInPlace(done.manifest.packs)
        {
            let (kept, warnings, leftOut) = (report.kept, report.warnings, report.usuallyLeftOut)
            report = done.report
            (report.kept, report.warnings, report.usuallyLeftOut) = (kept, warnings, leftOut)
            (report.shards, report.unchanged) = (.shard(shard), true)
            return report
        }
        try narrowBase(to: tree)
        try prepareBase(isCancelled: isCancelled, progress: progress)
        spareUntouched(&tree)
        let packed = try pack(tree, root, isCancelled: isCancelled, progress: progress)
        // The shard does not know what the others need of the base's packs.
        (report.deadBytes, report.packsDropped, report.repackPays) = (0, 0, false)
        try ShardRecord.write(shard, about, told(packed.files), began: began, packed.files, to: output)
        keepStamps(packed.files.entries)
        return report
    }

    /// The shard's own tree, and the digest of the listing that all shards see. The source is walked twice, so that
    /// memory depends on the shard alone: first piece by piece, to find where the shards begin; then only between this
    /// shard's two borders.
    private mutating func ownTree(
        of shard: Shard, _ root: SourceRoot, isCancelled: () -> Bool, progress: (PublishProgress) -> Void
    ) throws(PublishError) -> (tree: SourceTree, listing: SHA256Digest) {
        func told(_ count: Int) throws(PublishError) {
            if isCancelled() { throw .cancelled }
            progress(PublishProgress(step: .walking, files: count))
        }
        var borders = ShardBorders<(path: [UInt8], sum: UInt64)>(shard.count)
        var listing = try ListingDigest()
        var (filled, budget) = (Set<String>(), PatternBudget(options.limits))
        var first = try treeWalk()
        var (leftOut, seen) = (0, 0)
        try first.run(root, pieces: 4_096) { piece throws(PublishError) in
            // No reader takes more entries at once, so from there on each piece has a budget of its own.
            seen += piece.count
            if seen > options.limits.entries { budget = PatternBudget(options.limits) }
            try noteGroups(piece, &filled, &budget, isCancelled: isCancelled)
            if options.leavesOutUnsafeLinks {
                leftOut += piece.linkTargets.keys.count { (try? piece.directories(behindLink: $0)) == nil }
            }
            try listing.add(piece) { index, sum in
                // No shard can begin at a link that may be left out.
                borders.add(
                    hash: piece.withPath(index) { PartCutter.hash($0) }, size: piece.entries[index].stamp.size,
                    mayBegin: (try? piece.directories(behindLink: index))?.isEmpty == true
                ) { (piece.withPath(index) { Array($0) }, sum) }
            }
        } progress: { count throws(PublishError) in
            try told(count)
        }
        if let error = first.notes.error { throw error }
        let start = shard.number == 0 ? nil : borders.start(of: shard.number)
        let end = shard.isLast ? nil : borders.start(of: shard.number + 1)
        let sum = (end?.sum ?? listing.sum) &- (start?.sum ?? 0)
        var notes = first.notes
        var tree = SourceTree(keeping: choices.preserve)
        if shard.number == 0 || start != nil {
            var own = try treeWalk(within: (start?.path, end?.path))
            try own.run(root) { _ throws(PublishError) in try told(first.count) }
            var again = try ListingDigest()
            try again.add(own.tree)
            guard again.sum == sum else { throw .changed(options.directory) }
            try own.checkLinks(root)
            if let error = own.notes.error { throw error }
            notes.unsafeLinks = own.notes.unsafeLinks
            tree = own.tree
        }
        try reportNotes(notes, filled, count: first.count - leftOut)
        return (tree, try listing.finish())
    }

    /// The latest time at which an entry was modified or changed; **nanoseconds** since 1970.
    private static func lastChange(_ tree: SourceTree) -> Int64 {
        tree.entries.reduce(Int64.min) { max($0, $1.stamp.modified, $1.stamp.changed) }
    }

    /// The figures for the join: packs that the base does not have count as new, even if an earlier attempt has written
    /// them.
    private func told(_ files: ManifestFiles) -> PublishReport {
        var told = report
        let former = Set((base?.packs ?? []).map(\.sha256))
        let new = files.packs.filter { !former.contains($0.sha256) }
        let bytes = new.reduce(UInt64(0)) { $0.saturatingAdd($1.size) }
        told.packsWritten = new.count
        told.newBytes = bytes - min(bytes, told.deltaBytes.saturatingAdd(told.partBytes))
        return told
    }

    /// Loads the base again, with only the parts around the shard's own paths.
    private mutating func narrowBase(to tree: SourceTree) throws(PublishError) {
        guard base != nil else { return }
        func path(_ index: Int) -> [UInt8] { tree.withPath(index) { Array($0) } }
        let paths = tree.count == 0 ? nil : (first: path(0), last: path(tree.count - 1))
        base = try BaseSet.load(options, output, ownPlace: placement.ownPlace, .around(paths))
    }

    /// Whether packs are where they should be, by their names and lengths.
    private func isInPlace(_ packs: [Manifest.Pack]) throws(PublishError) -> Bool {
        for pack in packs where try output.size(.packs, pack.sha256.packName) != pack.size { return false }
        return true
    }

    /// SHA-256 of the options that all shards of a set must have in common.
    private func settings(of count: Int) throws(PublishError) -> SHA256Digest {
        let line = JSONLine.object { line in
            line.field("shards", count)
            line.field("project", project)
            line.field("pack", options.packSize)
            line.field("level", Int(options.level))
            line.field("threshold", options.chunkThreshold)
            for (name, number) in [
                ("minimum", options.chunks.minimum), ("average", options.chunks.average),
                ("maximum", options.chunks.maximum),
            ] { line.field(name, number) }
            line.field("deltas", options.deltas)
            line.field("dictionary", options.dictionary)
            line.field("preserve", choices.preserve.text)
            line.field("safe_links", options.leavesOutUnsafeLinks)
            line.field("files", optional: choices.filesURL)
        }
        return try calling { try sha256(line.bytes) }
    }

    // MARK: Join

    /// Writes the manifest of what all shards have packed.
    mutating func join(_ count: Int, isCancelled: () -> Bool, progress: (PublishProgress) -> Void) throws(PublishError)
        -> PublishReport
    {
        guard !choices.isLoose else {
            throw .usage("\(shown(options.output)) has a loose set, which has no packs", "publish it without --join")
        }
        progress(PublishProgress(step: .checking, files: 0))
        let records = try records(count, isCancelled: isCancelled)
        let files = try joined(records)
        // This comes before every pack is read.
        try checkReadable(files)
        let isSame = try base.map { base throws(PublishError) in
            try files.digest(revision: base.manifest.revision, created: base.manifest.created) == base.manifest.digest
        }
        if options.signing != nil {
            if isSame != true { try checkOrigin() }
            try check(records, isCancelled: isCancelled, progress: progress)
        }
        if isCancelled() { throw .cancelled }
        for record in records { ShardRecord.add(record.report, to: &report) }
        if isSame == true {
            // An earlier join has published what the shards wrote.
            (report.packsWritten, report.partsWritten) = (0, 0)
            (report.newBytes, report.deltaBytes, report.savedBytes, report.partBytes) = (0, 0, 0, 0)
        }
        report.project = project
        report.shards = .join(count)
        report.kept = choices.kept
        let former = Set((base?.packs ?? []).map(\.sha256))
        report.packsReused = files.packs.count { former.contains($0.sha256) }
        report.packsDropped = former.count - report.packsReused
        // No manifest has named these yet.
        for pack in files.packs where !former.contains(pack.sha256) { output.home?.note(found: pack.sha256) }
        try output.make(.packs, .manifests)
        if isSame != true {
            let old = records.filter { $0.about.base != base?.manifest.digest ?? .zero }.map(\.shard)
            let what = base == nil ? "over a release that is no longer here" : "before the release that is here now"
            try refuse(old, "were published \(what)", of: count)
        }
        try writeManifest(files, mayBeUnchanged: true)
        // The manifest is in place, and has to be signed. What stays is removed by the next join.
        do throws(PublishError) { try forgetOthers(than: count) } catch {
            report.warnings.append("records of another number of shards stay: \(error.summary)")
        }
        return report
    }

    /// Refuses to sign what shards have put into a store, unless the options accept it: their records are not signed,
    /// and anybody who may write there could have put others in their place. In a directory the records belong to this
    /// user.
    private func checkOrigin() throws(PublishError) {
        guard output.home != nil, !options.permits.contains(.storedShards) else { return }
        throw .refused(
            "what the shards have put into \(shown(output.path)) is not signed, and anybody who may write there could have "
                + "changed it",
            "if only you may write there, add --accept-shards; otherwise publish without shards, or join them in a "
                + "directory; nothing was published")
    }

    /// Refuses a manifest that no reader would take. No shard can do so, since none sees the whole.
    private func checkReadable(_ files: ManifestFiles) throws(PublishError) {
        var text: [UInt8] = []
        let remedy = "make larger packs, or publish the set as several; nothing was published"
        let most = options.limits.ownTextBytes
        try files.forEachPiece(revision: PublishOptions.lastRevision, created: options.created) {
            piece throws(PublishError) in
            guard text.count + piece.count <= most else {
                throw .invalid("the manifest's own text would have more than \(most) bytes", remedy)
            }
            text.append(contentsOf: piece)
        }
        do throws(ManifestError) { _ = try ManifestAssembly(text, digest: .zero, limits: options.limits) } catch {
            throw .invalid("no reader would take the manifest: \(error.reason)", remedy)
        }
    }

    /// The records of all shards, which must be of the same source, and have their packs.
    private func records(_ count: Int, isCancelled: () -> Bool) throws(PublishError) -> [ShardRecord] {
        var (records, missing, incomplete): ([ShardRecord], [Shard], [Shard]) = ([], [], [])
        for number in 0..<count {
            if isCancelled() { throw .cancelled }
            guard let shard = Shard(number, of: count) else { throw .bug("shard \(number) of \(count)") }
            guard let record = try ShardRecord.read(shard, from: output) else {
                missing.append(shard)
                continue
            }
            if try !isInPlace(record.manifest.packs) { incomplete.append(shard) }
            records.append(record)
        }
        try refuse(missing, "are not published", of: count)
        try refuse(incomplete, "have lost packs", of: count)
        guard let newest = records.max(by: { $0.began < $1.began }) else { return [] }
        let others = records.filter { $0.about.listing != newest.about.listing }.map(\.shard)
        try refuse(others, "were made when the source was not as shard \(newest.shard.number) saw it last", of: count)
        let differing = records.filter { $0.about.settings != newest.about.settings }.map(\.shard)
        try refuse(differing, "were published with other options than shard \(newest.shard.number)", of: count)
        guard newest.report.project == project else {
            throw .usage(
                "the shards are of the project \(shown(newest.report.project)), not \(shown(project))",
                "give all of them and the join the same --project")
        }
        return records
    }

    /// - Throws: ``PublishError`` that names the shards to be published, or published again, if there are any.
    private func refuse(_ shards: [Shard], _ what: String, of count: Int) throws(PublishError) {
        guard let first = shards.first else { return }
        let isOne = shards.count == 1
        var what = what
        if isOne {
            for (many, one) in [("are ", "is "), ("were ", "was "), ("have ", "has ")] where what.hasPrefix(many) {
                what = one + what.dropFirst(many.count)
            }
        }
        throw .busy(
            "\(isOne ? "shard" : "shards") \(Shard.list(shards.map(\.number))) of \(count) \(what)",
            "publish \(isOne ? "it" : "them") with --shard, such as --shard \(first.text), then join again")
    }

    /// Reads every pack that was not read with the base: each is verified before it is signed.
    private mutating func check(
        _ records: [ShardRecord], isCancelled: () -> Bool, progress: (PublishProgress) -> Void
    ) throws(PublishError) {
        try prepareBase(isCancelled: isCancelled, progress: progress)
        var verdicts: [SHA256Digest: Bool] = [:]
        for (index, pack) in (base?.packs ?? []).enumerated() { verdicts[pack.sha256] = base?.usable[index] }
        let all = Set(records.flatMap(\.manifest.packs).map(\.sha256)).subtracting(verdicts.keys)
        for digest in all {
            if isCancelled() { throw .cancelled }
            verdicts[digest] = try output.digest(.packs, digest.packName) == digest
            progress(PublishProgress(step: .checking, files: 0))
        }
        let damaged = records.filter { !$0.manifest.packs.allSatisfy { verdicts[$0.sha256] == true } }.map(\.shard)
        guard !damaged.isEmpty else { return }
        // Damaged packs are removed, so that they are packed again.
        for record in records {
            for pack in record.manifest.packs where verdicts[pack.sha256] == false {
                try output.remove(pack.sha256.packName, from: .packs)
            }
        }
        try refuse(damaged, "have damaged packs, which were removed", of: damaged.first?.count ?? 0)
    }

    /// The manifest: the base's packs that are still needed, then the others, in the order of the shards.
    private func joined(_ records: [ShardRecord]) throws(PublishError) -> ManifestFiles {
        var tree = SourceTree(keeping: choices.preserve)
        let named = Set(records.flatMap(\.manifest.packs).map(\.sha256))
        var packs: [Manifest.Pack] = []
        var numbers: [SHA256Digest: UInt32] = [:]
        func add(_ pack: Manifest.Pack) {
            guard numbers[pack.sha256] == nil else { return }
            numbers[pack.sha256] = UInt32(truncatingIfNeeded: packs.count)
            packs.append(self.named(pack))
        }
        for pack in base?.packs ?? [] where named.contains(pack.sha256) { add(pack) }
        for record in records { for pack in record.manifest.packs { add(pack) } }
        func number(_ pack: UInt32, _ record: ShardRecord) -> UInt32 {
            let packs = record.manifest.packs
            return Int(pack) < packs.count ? numbers[packs[Int(pack)].sha256] ?? .max : .max
        }
        var parts: [Manifest.Part] = []
        var dictionary: Manifest.OwnBlob?
        var chunking: ChunkParameters?
        for record in records {
            for var part in record.manifest.parts {
                part.renumberPacks { number($0, record) }
                parts.append(part)
            }
            if var own = record.manifest.dictionary {
                own.blob.pack = number(own.blob.pack, record)
                guard dictionary == nil || dictionary == own else { throw .bug("two shards have two dictionaries") }
                dictionary = own
            }
            let rest = try calling {
                var root = record.manifest
                try root.narrow(to: 0..<0)
                return try root.finish()
            }
            chunking = chunking ?? rest.chunking
            for row in rest.directories.indices {
                tree.directories.append((rest.directories.withPath(row) { Array($0) }, rest.directories.traits(row)))
            }
        }
        let entries = ManifestEntries(tree: tree, ledger: Ledger(count: 0), places: [], deltas: [:], prefixes: [])
        return ManifestFiles(
            entries: entries, packs: packs, packIndices: [], chunking: chunking, project: project,
            groups: choices.groups, userData: base?.manifest.userData, parts: parts, dictionary: dictionary)
    }

    /// Removes the records for other numbers of shards, which are of no use once this is published.
    private func forgetOthers(than count: Int) throws(PublishError) {
        let others = try (output.names(in: .shards) ?? []).filter { !$0.contains("-of-\(count).") }
        if !others.isEmpty { try output.remove(others, from: .shards) }
    }
}
