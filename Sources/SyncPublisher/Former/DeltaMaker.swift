import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Makes deltas: new blobs stored a second time, as zstd frames against bytes of the file's former version, in packs of
/// their own.
///
/// Machines with the former version fetch the delta, all others the blob.
struct DeltaMaker {
    let root: SourceRoot
    let tree: SourceTree
    let places: [Catalogue.Entry]
    private(set) var base: BaseSet
    let options: PublishOptions
    let output: OutputDirectory
    /// For guessed former names: how many files in a row had no delta that pays, and how many blobs of ``triedFile``.
    private var vain = (files: 0, blobs: 0)
    private var triedFile: Int?
    /// Kinds of files without a delta that pays; only found where former versions have to be fetched.
    private var vainKinds: Set<String> = []

    init(
        root: SourceRoot, tree: SourceTree, places: [Catalogue.Entry], base: BaseSet, options: PublishOptions,
        output: OutputDirectory
    ) {
        (self.root, self.tree, self.places) = (root, tree, places)
        (self.base, self.options, self.output) = (base, options, output)
    }

    /// Where the former name is a guess, no more files are tried after this many in a row without a delta that pays,
    /// and within a file no more blobs. Otherwise a set whose files are all new, with names much like the old ones,
    /// would be compressed twice.
    private static let mostVain = (files: 64, blobs: 16)
    /// The most that a file's deltas may take, in percent of its new blobs, since they are stored in addition. If the
    /// deltas of a file together stay below, even deltas that save nothing are stored, so that an update finds
    /// everything in one place; otherwise each must stay below by itself.
    private static let mostPercent: UInt64 = 70
    /// Tasks processed before their results are written; affects the output.
    private static let batch = 32
    /// How many deltas of a kind are tried before former versions of all the others are fetched.
    private static let samples = 8
    /// How many kinds are tried, those with the most files first; their samples take at most half of the requests of a
    /// publish.
    private static let mostKinds = 16
    /// Former versions shorter than this, in **bytes**, say little about those that are worth a delta.
    private static let shortestSample: UInt64 = 4 << 10
    /// All samples but the first of each kind together take at most `least` **bytes**, or one in `share` of the new
    /// stored bytes where that is more. One sample tells most kinds from others; the further ones find kinds of which
    /// only some deltas pay, and must cost little beside what those save.
    private static let furtherSamples = (least: UInt64(64 << 10), share: UInt64(500))

    /// Makes and writes deltas.
    ///
    /// - Returns: Deltas by index in the tree, with the pack numbers of the catalogue; and their **bytes**.
    mutating func run(_ tasks: [DeltaPlan.Task], _ writer: PackWriter, isCancelled: () -> Bool) throws(PublishError)
        -> (
            deltas: [Int: [Delta]], bytes: UInt64
        )
    {
        var deltas: [Int: [Delta]] = [:]
        var bytes: UInt64 = 0
        guard !tasks.isEmpty else { return (deltas, bytes) }
        try writer.cut()
        var encoders: [DeltaEncoder] = []
        // A damaged dictionary decodes nothing: blobs made with it then get no delta.
        let dictionary = base.dictionary?.withUnsafeBytes { try? DecodingDictionary($0) }
        let count = max(1, min(options.jobs, tasks.count))
        func makeEncoders() throws(PublishError) {
            encoders = []
            for _ in 0..<count {
                encoders.append(
                    try DeltaEncoder(
                        base.manifest, dictionary: dictionary, output, ranges: base.place.ranges, level: options.level,
                        readers: count))
            }
        }
        try makeEncoders()
        vainKinds = try findVainKinds(tasks, encoders, isCancelled: isCancelled)
        // A delta names its former file by the whole digest.
        let rows = tasks.filter { !$0.former.isGuess && isWorthMaking($0) }.map(\.former.row)
        if try base.completeDigests(ofRows: rows) { try makeEncoders() }
        var regions = FormerRegions()
        var waiting: [DeltaPlan.Task] = []
        var start = 0
        while true {
            if isCancelled() { throw .cancelled }
            let before = waiting.count
            while waiting.count < Self.batch, start < tasks.count {
                if isWorthMaking(tasks[start]) { waiting.append(tasks[start]) }
                start += 1
            }
            try fetchFormer(waiting[before...], isCancelled: isCancelled)
            guard !waiting.isEmpty else { break }
            for (task, made) in try makeNext(&waiting, &regions, encoders) {
                note(task, pays: made != nil)
                guard let made, !made.delta.baseFile.isHead else { continue }
                var delta = made.delta
                (delta.pack, delta.offset) = try writer.append(made.bytes)
                bytes += delta.storedLength
                deltas[task.file, default: []].append(delta)
            }
        }
        try writer.cut()
        return (deltas, bytes)
    }

    /// Whether a delta is worth trying, by what earlier ones have shown.
    private func isWorthMaking(_ task: DeltaPlan.Task) -> Bool {
        guard task.former.isGuess else { return vainKinds.isEmpty || !vainKinds.contains(kind(of: task)) }
        return task.file == triedFile ? vain.blobs < Self.mostVain.blobs : vain.files < Self.mostVain.files
    }

    private mutating func note(_ task: DeltaPlan.Task, pays: Bool) {
        guard task.former.isGuess else { return }
        if task.file != triedFile { (triedFile, vain) = (task.file, (vain.files + 1, 0)) }
        if pays { vain = (0, 0) } else { vain.blobs += 1 }
    }

    /// The kinds of files of which no delta pays, such as pictures and archives, which have nothing in common with
    /// their former versions. Where former versions are on a server, a few deltas of each kind are tried first, the
    /// shortest, so that the other former versions are not fetched for nothing; ``furtherSamples`` bounds them.
    private func findVainKinds(
        _ tasks: [DeltaPlan.Task], _ encoders: [DeltaEncoder], isCancelled: () -> Bool
    ) throws(PublishError) -> Set<String> {
        guard base.place.ranges != nil else { return [] }
        let kinds = Dictionary(grouping: tasks.indices.filter { !tasks[$0].former.isGuess }) { kind(of: tasks[$0]) }
            .filter { $0.value.count > Self.samples }
            .sorted { ($1.value.count, $0.key) < ($0.value.count, $1.key) }.prefix(Self.mostKinds)
        func length(_ index: Int) -> UInt64 {
            let range = tasks[index].region ?? tasks[index].base
            return range.upperBound - range.lowerBound
        }
        func order(_ index: Int) -> (Int, UInt64, Int) {
            (length(index) < Self.shortestSample ? 1 : 0, length(index), index)
        }
        let new = tasks.reduce(UInt64(0)) { $0 + UInt64(places[Int($1.number)].storedLength) }
        var room = max(Self.furtherSamples.least, new / Self.furtherSamples.share)
        let ranked = kinds.map { Array($0.value.sorted { order($0) < order($1) }.prefix(Self.samples)) }
        var samples = ranked.map { $0[0] }
        // The second of each kind, then the third.
        for (rank, kind) in (1..<Self.samples).flatMap({ rank in ranked.map { (rank, $0) } }) {
            let length = length(kind[rank])
            guard length <= room else { continue }
            room -= length
            samples.append(kind[rank])
        }
        var rest = samples.sorted().map { tasks[$0] }
        var vain = Set(kinds.map(\.key))
        var regions = FormerRegions()
        try fetchFormer(rest[...], isCancelled: isCancelled)
        while !rest.isEmpty {
            if isCancelled() { throw .cancelled }
            for (task, made) in try makeNext(&rest, &regions, encoders) where made != nil {
                vain.remove(kind(of: task))
            }
        }
        return vain
    }

    /// Makes the deltas of the first tasks, as many as fit in memory and make a batch, and removes those; `nil` for
    /// deltas that do not pay.
    private func makeNext(
        _ tasks: inout [DeltaPlan.Task], _ regions: inout FormerRegions, _ encoders: [DeltaEncoder]
    ) throws(PublishError) -> [(task: DeltaPlan.Task, made: DeltaEncoder.Made?)] {
        let most = Array(tasks.prefix(Self.batch))
        let batch = Array(most.prefix(regions.prepare(most, encoders[0])))
        tasks.removeFirst(batch.count)
        return Array(zip(batch, paying(batch, try make(batch, regions, encoders))))
    }

    /// The end of a file's name, from its last dot on.
    private func kind(of task: DeltaPlan.Task) -> String {
        let path = tree.path(task.file)
        return path.lastIndex(where: { $0 == "." || $0 == "/" }).map { String(path[$0...]) } ?? ""
    }

    /// Fetches the former versions that the tasks read, so far as their packs are only on a server. Nothing is fetched
    /// for a former name that is a guess.
    private func fetchFormer(_ tasks: ArraySlice<DeltaPlan.Task>, isCancelled: () -> Bool) throws(PublishError) {
        guard let ranges = base.place.ranges, !tasks.isEmpty else { return }
        let files = base.manifest.files
        let isFar = base.manifest.packs.map { !output.hasHere(pack: $0.sha256) }
        var pieces: [PackRanges.Piece] = []
        var bytes: UInt64 = 0
        var last: (row: Int, end: UInt64) = (-1, 0)
        for task in tasks where !task.former.isGuess && bytes < PackRanges.mostBytes {
            let range = task.region ?? task.base
            var offset: UInt64 = 0
            for blob in files.blobs(task.former.row) {
                let start = offset
                offset += blob.rawLength
                // The tasks of a file are in order, and may share what they read.
                let isWanted = offset > range.lowerBound && start < range.upperBound
                guard isWanted, isFar[Int(blob.pack)], task.former.row != last.row || offset > last.end else {
                    continue
                }
                last = (task.former.row, offset)
                bytes += blob.storedLength
                pieces.append((base.manifest.packs[Int(blob.pack)], blob.range))
            }
        }
        try ranges.hold(pieces, isCancelled: isCancelled)
    }

    /// The results, with `nil` for deltas that do not pay.
    private func paying(_ tasks: [DeltaPlan.Task], _ results: [DeltaEncoder.Made?]) -> [DeltaEncoder.Made?] {
        func isShort(_ delta: UInt64, _ blob: UInt64) -> Bool { delta * 100 <= blob * Self.mostPercent }
        func stored(_ task: DeltaPlan.Task) -> UInt64 { UInt64(places[Int(task.number)].storedLength) }
        var sums: [Int: (delta: UInt64, blob: UInt64)] = [:]
        for (task, made) in zip(tasks, results) {
            guard let made else { continue }
            sums[task.file, default: (0, 0)].delta += UInt64(made.bytes.count)
            sums[task.file, default: (0, 0)].blob += stored(task)
        }
        return zip(tasks, results).map { task, made in
            guard let made, let sum = sums[task.file] else { return nil }
            let pays = isShort(sum.delta, sum.blob) || isShort(UInt64(made.bytes.count), stored(task))
            return pays ? made : nil
        }
    }

    /// Makes the deltas of a batch, each encoder on a thread of its own; `nil` for those that cannot be made.
    private func make(_ batch: [DeltaPlan.Task], _ regions: FormerRegions, _ encoders: [DeltaEncoder])
        throws(PublishError) -> [DeltaEncoder.Made?]
    {
        let hasFailed = StopFlag()
        let results = concurrently(
            over: batch.count, threads: encoders.count, name: "delta", isStopped: { hasFailed.isSet },
            by: { encoders[$0] }
        ) { [root, tree, places] encoder, index -> Result<DeltaEncoder.Made?, PublishError> in
            do throws(PublishError) {
                let task = batch[index]
                let file = try root.openFile(tree, task.file)
                return .success(try encoder.encode(task, in: file, places[Int(task.number)], regions))
            } catch {
                hasFailed.set()
                return .failure(error)
            }
        }
        var made = [DeltaEncoder.Made?](repeating: nil, count: batch.count)
        for (index, result) in results { made[index] = try result.get() }
        return made
    }
}

/// The base's deltas, if every file is as in the base: publishing the same again changes nothing.
///
/// Otherwise new deltas are made, from the base to this revision; keeping older ones would let the manifest grow.
///
/// - Returns: Deltas by index in the tree, with the pack numbers of the base.
func carriedDeltas(_ tree: SourceTree, _ ledger: Ledger, _ places: [Catalogue.Entry], _ base: BaseSet?) -> [Int:
    [Delta]]
{
    guard let base, base.manifest.files.count == tree.count else { return [:] }
    let files = base.manifest.files
    var found: [Int: [Delta]] = [:]
    // Both are in path order.
    for index in tree.entries.indices {
        let isSame = tree.withPath(index) { path in files.withPath(index) { $0.elementsEqual(path) } }
        guard isSame, (files.kind(index) == .link) == (tree.entries[index].kind == .link) else { return [:] }
        guard files.kind(index) != .link else { continue }
        let blobs = ledger.blobs(index)
        let digest =
            ledger.digests[index] ?? blobs.first.map { places[Int($0)].digest } ?? .ofNothing
        guard digest == files.digest(index) else { return [:] }
        let kept = files.deltas(index).filter {
            // A base may name anything, and no digest that looks as if half of it were unknown is written.
            base.usable[Int($0.pack)] && Int($0.blob) < blobs.count && !$0.baseFile.isHead && !$0.baseDigest.isHead
        }
        if !kept.isEmpty { found[index] = Array(kept) }
    }
    return found
}
