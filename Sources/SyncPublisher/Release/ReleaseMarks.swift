import SyncModel

/// The file `manifests/unnamed.json` of a target: since when nothing names a manifest or a pack. A manifest or pack
/// that is not in the file is named, or was never checked; then its time begins with the first check.
///
/// The file is an aid, and anybody who can write to the target can write to it. If it is missing or damaged, files are
/// only removed later.
struct ReleaseMarks: Equatable {
    /// Since when each is not named; **milliseconds** since 1970.
    var manifests: [SHA256Digest: Int64] = [:]
    var packs: [SHA256Digest: Int64] = [:]
    /// Manifests that the last prune did not keep: they are removed once their time is over.
    var retired: Set<SHA256Digest> = []
    /// Packs that a prune is removing at this moment, and since when, **milliseconds** since 1970; only noted where no
    /// lock keeps publishes away meanwhile.
    var going: Set<SHA256Digest> = []
    var goingSince: Int64 = 0

    /// A prune that is still removing packs notes them again before this many **milliseconds** have passed.
    static let longestRemoval: Int64 = 600_000

    static let name = "unnamed.json"
    private static let format = "syncagent-unnamed/1"
    /// Has room for ``most`` entries of each kind.
    private static let limit = 32 << 20
    /// Most entries that are written of each kind; the time of the others begins again.
    static let most = 60_000

    init() {}

    /// Reads the marks of a target.
    ///
    /// - Throws: ``PublishError`` where they cannot be read: a prune that is removing packs would not be noticed.
    init(of target: OutputDirectory) throws(PublishError) {
        guard let bytes = try target.read(.manifests, Self.name, limit: Self.limit),
            let value = bytes.withUnsafeBytes({ JSONParser.parse($0) }), value["format"]?.string == Self.format
        else { return }
        manifests = Self.times(value["manifests"])
        packs = Self.times(value["packs"])
        retired = Self.digests(value["retired"])
        going = Self.digests(value["going"])
        goingSince = going.isEmpty ? 0 : value["going_since"]?.integer ?? 0
    }

    private static func digests(_ value: JSONValue?) -> Set<SHA256Digest> {
        Set((value?.array ?? []).compactMap { $0.string.flatMap { SHA256Digest(hex: $0) } })
    }

    private static func times(_ value: JSONValue?) -> [SHA256Digest: Int64] {
        var times: [SHA256Digest: Int64] = [:]
        for (name, value) in value?.object ?? [:] {
            guard let digest = SHA256Digest(hex: name), let time = value.integer else { continue }
            times[digest] = time
        }
        return times
    }

    /// Since when a manifest or pack is not named: the noted time, or `now`, which is noted. A noted time in the future
    /// comes from a wrong clock, and counts as `now`.
    static func since(_ digest: SHA256Digest, in times: inout [SHA256Digest: Int64], now: Int64) -> Int64 {
        let since = min(times[digest] ?? now, now)
        times[digest] = since
        return since
    }

    /// Writes the file, or removes it where there is nothing to note.
    func write(to target: OutputDirectory) throws(PublishError) {
        guard self != ReleaseMarks() else {
            guard try target.object(.manifests, Self.name) != nil else { return }
            return try target.remove([Self.name], from: .manifests)
        }
        let json = JSONLine.object { line in
            line.field("format", Self.format)
            for (name, times) in [("manifests", manifests), ("packs", packs)] {
                line.object(name) { line in
                    let oldest = times.sorted { ($0.value, $0.key.hex) < ($1.value, $1.key.hex) }
                    for (digest, time) in oldest.prefix(Self.most) { line.field(digest.hex, time) }
                }
            }
            line.field("retired", retired.map(\.hex).sorted().prefix(Self.most))
            if !going.isEmpty {
                line.field("going", going.map(\.hex).sorted())
                line.field("going_since", goingSince)
            }
        }
        try target.put(json.bytes + [0x0A], Self.name, in: .manifests)
    }

    /// Notes which manifests of a target are named now, and which are not: called before the names are changed, and
    /// again afterwards. A failure only means that files are removed later, so it is not reported.
    static func update(_ target: OutputDirectory, now: Int64) {
        guard let files = try? target.names(in: .manifests) else { return }
        var known: [String: SHA256Digest] = [:]
        for file in files {
            guard let digest = Releases.digest(ofFile: file), let object = try? target.object(.manifests, file) else {
                continue
            }
            known[object.tag] = digest
        }
        guard let names = try? ReleaseNames(target, known: known), names.faults.isEmpty else { return }
        guard let before = try? ReleaseMarks(of: target) else { return }
        var marks = before
        for digest in Set(known.values).union(names.digests) {
            if names.digests.contains(digest) {
                marks.manifests[digest] = nil
                marks.retired.remove(digest)
            } else {
                _ = since(digest, in: &marks.manifests, now: now)
            }
        }
        if marks != before { try? marks.write(to: target) }
    }
}

extension ReleaseMarks {
    /// Claims packs of a store that perhaps nothing names, before a manifest names them again: from now on no prune
    /// removes them, and none is doing so.
    ///
    /// - Throws: ``PublishError`` when a prune is removing one of them, or has removed one.
    static func take(_ packs: Set<SHA256Digest>, at home: Home, _ output: OutputDirectory, now: Int64)
        throws(PublishError)
    {
        guard !packs.isEmpty else { return }
        /// A killed prune leaves its note, which cannot be told from that of a running one.
        func busy(until end: Int64?) -> PublishError {
            .busy(
                "a prune is removing packs of \(shown(output.path)) that are needed again, or was ended while it did",
                end.map { "run it again once the prune has ended, after \(timestamp(milliseconds: $0)) in any case" }
                    ?? "run it again")
        }
        for _ in 0..<mostTries {
            home.forget(.manifests, name)
            var marks = try ReleaseMarks(of: output)
            if marks.goingSince <= now - longestRemoval { (marks.going, marks.goingSince) = ([], 0) }
            guard marks.going.isDisjoint(with: packs) else {
                throw busy(until: marks.goingSince.saturatingAdd(longestRemoval))
            }
            for pack in packs { marks.packs[pack] = now }
            do throws(PublishError) { try marks.write(to: output) } catch {
                guard error.exitStatus == .busy else { throw error }
                continue
            }
            for pack in packs.sorted() {
                guard try home.isThere(.packs, pack.packName) else { throw busy(until: nil) }
            }
            return
        }
        throw busy(until: nil)
    }

    private static let mostTries = 5
}
