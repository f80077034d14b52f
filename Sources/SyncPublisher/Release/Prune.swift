import SyncManifest
package import SyncModel
import SyncSystem

/// Removes the files that no kept release needs and no recent pull can still ask for.
///
/// 1. Find the releases, and what names them. If anything cannot be read, the prune ends before anything is removed.
/// 2. Keep the newest releases, and all that are named. Note since when the others are not named.
/// 3. Write the note. From then on a kill costs time at most. If a directory has no room for the note, what is due goes
///    first.
/// 4. Remove what nothing has named for the time of grace: first the entries by which a pull asks for a release, then
///    manifests, then packs, so that nothing is ever named that is not there.
///
/// A pull can begin with the number of a release until the entry of that number is gone: the time of grace of what such
/// a pull needs begins then.
package struct Prune: Sendable {
    /// How many of the newest releases are kept.
    package var keep: Int
    /// Releases from this time on are kept, too, as are those without a time; **milliseconds** since 1970.
    package var olderThan: Int64?
    /// How long a pull may take; **milliseconds**.
    package var grace = usualGrace
    package var now: Int64

    /// **Milliseconds** of a day.
    package static let usualGrace: Int64 = 86_400_000

    /// Files and their **bytes**.
    package struct Count: Sendable, Equatable {
        package internal(set) var objects = 0
        package internal(set) var bytes: UInt64 = 0

        mutating func add(_ size: UInt64) { (objects, bytes) = (objects + 1, bytes &+ size) }

        func write(to line: inout JSONLine) {
            line.field("objects", objects)
            line.field("bytes", bytes)
        }
    }

    /// The result of a prune, or of its preview.
    package struct Report: Sendable, Equatable {
        /// Each file by its path from the published directory, in the order of removal.
        package internal(set) var files: [(path: String, bytes: UInt64)] = []
        package internal(set) var removed = Count()
        /// Files to be removed once their time of grace is over.
        package internal(set) var waiting = Count()
        /// Files that stay.
        package internal(set) var kept = Count()
        package internal(set) var releases = 0

        package static func == (one: Self, other: Self) -> Bool {
            one.files.elementsEqual(other.files, by: ==) && one.removed == other.removed
                && one.waiting == other.waiting && one.kept == other.kept && one.releases == other.releases
        }

        /// The last line of `releases prune --json`.
        package var json: JSONLine {
            JSONLine.object { line in
                for (name, count) in [("removed", removed), ("waiting", waiting)] {
                    line.object(name) { count.write(to: &$0) }
                }
                line.object("kept") { line in
                    line.field("releases", releases)
                    kept.write(to: &line)
                }
            }
        }
    }

    package init(keep: Int, olderThan: Int64? = nil, now: Int64) {
        (self.keep, self.olderThan, self.now) = (keep, olderThan, now)
    }

    /// Prunes a published directory.
    ///
    /// - Parameter isDryRun: Only reports what would be removed; nothing is written, and no lock is taken.
    package func run(_ place: TargetPlace, isDryRun: Bool = false) throws(PublishError) -> Report {
        let target = try OutputDirectory(published: place, isReadOnly: isDryRun)
        let report = try run(target, isDryRun: isDryRun)
        if !isDryRun { try target.home?.commit() }
        return report
    }

    func run(_ target: OutputDirectory, isDryRun: Bool = false) throws(PublishError) -> Report {
        // This comes first: if a channel is moved from here on, the note changes, and cannot be written below.
        var marks = try ReleaseMarks(of: target)
        var releases = try Releases(target)
        if let fault = releases.faults.first {
            throw PublishError(
                fault.exitStatus, fault.summary, details: fault.details, "\(fault.remedy); nothing was removed")
        }
        guard !releases.all.isEmpty else { throw .noReleases(target.path) }
        guard !releases.all.contains(where: { $0.isNamed && $0.isLoose }) else {
            throw .usage(
                "\(shown(target.path)) has a loose set, whose files are as they are now",
                "there is nothing to prune: only sets in packs keep releases")
        }
        if !isDryRun { try releases.keepByDigest() }
        var sweep = try Sweep(target, releases)
        var kept = kept(releases.all)
        let others = releases.all.map(\.digest).filter { !kept.contains($0) }
        if let home = target.home, !others.isEmpty { kept.formUnion(try home.namedElsewhere(others)) }
        sweep.mark(kept, &marks, self)
        guard !isDryRun else { return sweep.report }
        try sweep.remove(&marks, now: now, grace: grace)
        sweep.forget(in: &marks)
        // Everything is removed by now. If another process has written a newer note, that one stays.
        do throws(PublishError) { try marks.write(to: target) } catch {
            guard error.exitStatus == .busy else { throw error }
        }
        return sweep.report
    }

    private func kept(_ releases: [Releases.Release]) -> Set<SHA256Digest> {
        var kept: Set<SHA256Digest> = []
        for (index, release) in releases.enumerated() {
            let isYoung = olderThan.map { limit in release.time.map { $0 >= limit } ?? true } ?? false
            if index < keep || release.isNamed || isYoung { kept.insert(release.digest) }
        }
        return kept
    }

    /// Whether the grace is over for something that nothing has named since a time.
    ///
    /// - Parameter least: **Milliseconds** that must have passed even if the grace is shorter.
    func isOver(since: Int64, atLeast least: Int64 = 0) -> Bool {
        let (end, overflow) = since.addingReportingOverflow(max(grace, least))
        return !overflow && end <= now
    }
}

/// Decides which files are removed, in which order, and which stay; then removes them.
private struct Sweep {
    private let releases: [Releases.Release]
    private let target: OutputDirectory
    private let packs: [(digest: SHA256Digest, size: UInt64)]
    private var entries: [Releases.Place] = []
    private var manifests: [(digest: SHA256Digest, place: Releases.Place)] = []
    private var gone: [(digest: SHA256Digest, size: UInt64)] = []
    /// Packs of releases that stay.
    private var needed: Set<SHA256Digest> = []
    /// By pack of a release that is not kept: since when the last manifest that named the pack is out of reach.
    private var leaving: [SHA256Digest: Int64] = [:]
    private(set) var report = Prune.Report()

    init(_ target: OutputDirectory, _ releases: Releases) throws(PublishError) {
        (self.releases, self.target) = (releases.all, target)
        var packs: [(digest: SHA256Digest, size: UInt64)] = []
        for name in try (target.names(in: .packs) ?? []).sorted() {
            guard let digest = Releases.pack(ofFile: name), let size = try target.size(.packs, name) else { continue }
            packs.append((digest, size))
        }
        self.packs = packs
    }

    /// Decides about every file.
    mutating func mark(_ kept: Set<SHA256Digest>, _ marks: inout ReleaseMarks, _ prune: Prune) {
        marks.retired = Set(releases.map(\.digest)).subtracting(kept)
        report.releases = kept.count
        markReleases(kept, &marks, prune)
        markPacks(kept, &marks, prune)
        let here = Set(packs.map(\.digest))
        marks.packs = marks.packs.filter { here.contains($0.key) }
        let manifests = Set(releases.map(\.digest))
        marks.manifests = marks.manifests.filter { manifests.contains($0.key) }
        reportProgress()
    }

    /// Decides about manifests, and about the entries that lead to them.
    private mutating func markReleases(_ kept: Set<SHA256Digest>, _ marks: inout ReleaseMarks, _ prune: Prune) {
        var counted: Set<String> = []
        for release in releases {
            let files = ([release.place] + release.entries).filter { counted.insert($0.room(in: target)).inserted }
            var isStaying = kept.contains(release.digest)
            if isStaying {
                if release.isNamed { marks.manifests[release.digest] = nil }
                for file in files { report.kept.add(file.object.size) }
            } else {
                var since = ReleaseMarks.since(release.digest, in: &marks.manifests, now: prune.now)
                if !release.entries.isEmpty, prune.isOver(since: since) {
                    entries += release.entries
                    since = prune.now
                    marks.manifests[release.digest] = since
                }
                isStaying = !prune.isOver(since: since)
                if isStaying {
                    let going = Set(entries.map(\.path))
                    for file in files where !going.contains(file.path) { report.waiting.add(file.object.size) }
                } else if release.place.folder == .manifests {
                    manifests.append((release.digest, release.place))
                }
                for pack in release.packs { leaving[pack.sha256] = max(leaving[pack.sha256] ?? .min, since) }
            }
            if isStaying { needed.formUnion(release.packs.map(\.sha256)) }
        }
    }

    /// Decides about packs.
    private mutating func markPacks(_ kept: Set<SHA256Digest>, _ marks: inout ReleaseMarks, _ prune: Prune) {
        let keptPacks = Set(releases.filter { kept.contains($0.digest) }.flatMap { $0.packs.map(\.sha256) })
        for pack in packs {
            if needed.contains(pack.digest) {
                marks.packs[pack.digest] = nil
                if keptPacks.contains(pack.digest) { report.kept.add(pack.size) } else { report.waiting.add(pack.size) }
                continue
            }
            let noted = marks.packs[pack.digest]
            // If the pack was named again meanwhile, the later time counts.
            if let since = leaving[pack.digest] {
                marks.packs[pack.digest] = max(since, marks.packs[pack.digest] ?? since)
            }
            let least = leastWait(of: pack.digest, noted: noted, marks, prune)
            let since = ReleaseMarks.since(pack.digest, in: &marks.packs, now: prune.now)
            // All that are being removed have to be noted where there is no lock; the next prune removes the others.
            if prune.isOver(since: since, atLeast: least), target.isLocked || gone.count < ReleaseMarks.most {
                gone.append(pack)
            } else {
                report.waiting.add(pack.size)
            }
        }
    }

    /// **Milliseconds** that a pack stays at least once no kept release names it. Where there is no lock, a pack that
    /// nothing names may belong to a publish that is running. So may a pack that was noted recently, unless a prune has
    /// noted that it is removing it.
    ///
    /// - Parameter noted: Since when the pack was known to be out of reach before this prune; `nil` where it was not.
    private func leastWait(of pack: SHA256Digest, noted: Int64?, _ marks: ReleaseMarks, _ prune: Prune) -> Int64 {
        if target.isLocked { return 0 }
        guard leaving[pack] != nil else { return Prune.usualGrace }
        let isRecent = noted.map { $0 > prune.now - ReleaseMarks.longestRemoval } ?? false
        return isRecent && !marks.going.contains(pack) ? ReleaseMarks.longestRemoval : 0
    }

    private mutating func reportProgress() {
        var counted: Set<String> = []
        for place in entries + manifests.map(\.place) {
            let isFirst = counted.insert(place.room(in: target)).inserted
            list(place.path, isFirst ? place.object.size : 0)
        }
        for pack in gone { list(OutputDirectory.Folder.packs.path(pack.digest.packName), pack.size) }
    }

    private mutating func list(_ path: String, _ bytes: UInt64) {
        report.files.append((path, bytes))
        report.removed.add(bytes)
    }

    /// Removes the files, after the note of them was written. Where others may publish meanwhile, the note says for a
    /// while which packs are being removed.
    ///
    /// - Parameters:
    ///   - now: **Milliseconds** since 1970.
    ///   - grace: The prune's, in **milliseconds**.
    func remove(_ marks: inout ReleaseMarks, now: Int64, grace: Int64) throws(PublishError) {
        let start = ContinuousClock.now
        var noted = now
        func note() throws(PublishError) {
            noted = now + (ContinuousClock.now - start).milliseconds
            if !target.isLocked, !gone.isEmpty { (marks.going, marks.goingSince) = (Set(gone.map(\.digest)), noted) }
            try marks.write(to: target)
        }
        var isNoted = true
        do throws(PublishError) { try note() } catch {
            // On a full disk, removing makes room for the note. The grace of these files is over, and where nobody else
            // removes files they need no note.
            guard target.isLocked, !manifests.isEmpty || !gone.isEmpty else { throw error }
            isNoted = false
        }
        // Once entries are gone, the grace of their manifests and packs begins, and only a note records that. Without
        // grace, all of them are removed now.
        if isNoted || grace == 0 { try removeEntries() }
        if !manifests.isEmpty { try target.remove(manifests.map(\.place.name), from: .manifests) }
        for first in stride(from: 0, to: gone.count, by: Self.atOnce) {
            if now + (ContinuousClock.now - start).milliseconds - noted > ReleaseMarks.longestRemoval / 4 {
                try note()
            }
            try target.remove(gone[first..<min(gone.count, first + Self.atOnce)].map(\.digest.packName), from: .packs)
        }
        (marks.going, marks.goingSince) = ([], 0)
        guard !isNoted, grace > 0 else { return }
        try note()
        try removeEntries()
    }

    /// Removes the entries by which a pull asks for a release by its number.
    private func removeEntries() throws(PublishError) {
        for folder in [OutputDirectory.Folder.trust, .channels] {
            let names = entries.filter { $0.folder == folder }.map(\.name)
            if !names.isEmpty { try target.remove(names, from: folder) }
        }
    }

    /// Packs that are removed before the clock is read again.
    private static let atOnce = 200

    /// Drops the notes of the removed files.
    func forget(in marks: inout ReleaseMarks) {
        for manifest in manifests {
            marks.manifests[manifest.digest] = nil
            marks.retired.remove(manifest.digest)
        }
        for pack in gone { marks.packs[pack.digest] = nil }
    }
}
