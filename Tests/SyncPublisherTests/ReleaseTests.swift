import Foundation
import SyncContent
import SyncManifest
import SyncModel
import SyncTestKit
import SyncTrust
import Testing

@testable import SyncPublisher

/// Releases stay until they are pruned, nothing that somebody can ask for goes, and a bad night is undone.
@Suite(.timeLimit(.minutes(10)))
struct ReleaseTests {
    static let hour: Int64 = 3_600_000
    /// Any time, **milliseconds** since 1970.
    static let start: Int64 = 1_795_000_000_000

    /// A set that is published once a night, another file changed each time.
    struct Nights {
        var set: PublishedSet
        var now = start
        private(set) var trees: [UInt64: AssetTree] = [:]
        private var tree: AssetTree
        var target: String { self.set.root.path("out") }

        init(files: Int = 12, size: Int = 3_000) throws {
            tree = AssetTree()
            for index in 0..<files { tree.addFile("f\(index)", size: size, seed: UInt64(index + 1)) }
            set = try PublishedSet(tree)
        }

        mutating func publish(
            _ count: Int = 1, changing changed: Int = 1, _ change: (inout PublishOptions) -> Void = { _ in }
        ) throws {
            for _ in 0..<count {
                let night = UInt64(trees.count)
                if night > 0 {
                    for index in 0..<changed {
                        tree.addFile(
                            "f\((Int(night) * changed + index) % 12)", size: 3_000, seed: 1_000 * night + UInt64(index))
                    }
                    try set.replace(tree)
                }
                now += 24 * hour
                let report = try set.publish { options in
                    options.now = now * 1_000_000
                    options.created = timestamp(milliseconds: now)
                    change(&options)
                }
                trees[report.revision] = tree
            }
        }

        func prune(keep: Int, grace: Int64 = 0, _ change: (inout Prune) -> Void = { _ in }) throws(PublishError)
            -> Prune.Report
        {
            var prune = Prune(keep: keep, now: now)
            prune.grace = grace
            change(&prune)
            return try prune.run(.directory(target))
        }

        func revisions() throws -> [UInt64] { try ReleaseList(.directory(target)).entries.map(\.revision) }

        /// What some manifest names and is not there.
        func missing() throws -> [String] {
            let output = try OutputDirectory(published: .directory(target), isReadOnly: true)
            let releases = try Releases(output)
            #expect(releases.faults.isEmpty)
            return try releases.all.flatMap { release in
                try release.packs.filter { try output.size(.packs, "\($0.sha256).pack") != $0.size }.map {
                    "\(release.revision): \($0.sha256)"
                }
            }
        }

        func packs() throws -> Set<String> { Set(try set.bytes(below: "out/packs").keys) }
    }

    @Test("Every release's manifest stays under its digest, and a list says what each one is")
    func list() throws {
        var nights = try Nights()
        try nights.publish(3)
        let list = try ReleaseList(.directory(nights.target))
        #expect(list.warnings.isEmpty)
        #expect(list.entries.map(\.revision) == [3, 2, 1])
        #expect(list.entries.map(\.channels) == [["default"], [], []])
        #expect(list.entries.allSatisfy { $0.files == 12 && $0.bytes == 36_000 })
        #expect(list.entries[0].manifest == (try nights.set.manifest().digest))
        #expect(list.entries[0].created == timestamp(milliseconds: nights.now))
        // The first night's pack is in all of them, each later one in the newer ones.
        #expect(list.entries[0].ownBytes > 0 && list.entries[2].ownBytes == 0)
        let line = list.entries[0].json.text
        for key in ["revision", "created", "manifest", "files", "bytes", "own_bytes", "channels"] {
            #expect(line.contains("\"\(key)\":"), "\(key)")
        }
        for entry in list.entries {
            #expect(nights.set.root.read("out/manifests/\(entry.manifest).json.zst") != nil)
        }
        // The same content again is no release of its own.
        _ = try nights.set.publish()
        #expect(try nights.revisions() == [3, 2, 1])
    }

    @Test("Of a loose set no releases are kept, and nothing in it is taken for one")
    func loose() throws {
        var set = try PublishedSet(.manySmall(3))
        (set.options.isLoose, set.options.output) = (true, set.options.directory)
        try set.publish()
        #expect(try set.bytes(below: "in").keys.allSatisfy { !$0.hasPrefix("manifests") })
        #expect(
            set.failure {
                $0.retain = 3; $0.now = 1_000_000_000
            }?.exitStatus == .usage)
        #expect(try ReleaseList(.directory(set.root.path("in"))).entries.count == 1)
        try set.root.write("x", to: "in/packs/\(String(repeating: "a", count: 64)).pack")
        let refused = SigningTests.error { () throws(PublishError) in
            _ = try Prune(keep: 1, now: Self.start).run(.directory(set.root.path("in")))
        }
        #expect(refused?.exitStatus == .usage)
        #expect(set.root.read("in/packs/\(String(repeating: "a", count: 64)).pack") != nil)
        let nothing = SigningTests.error { () throws(PublishError) in
            _ = try ReleaseList(.directory(set.root.path("nowhere")))
        }
        #expect(nothing?.exitStatus == .noInput)
    }

    @Test("In a set that is published where it stands, its own files are not called damaged releases or channels")
    func looksLikeOurs() throws {
        let nights = try Nights()
        let own = [
            "channels/beta.json.zst", "channels/7.json.zst", "channels/index.json", "trust/beta.fresh",
            "manifests/\(String(repeating: "a", count: 64)).json.zst",
        ]
        // An empty file has no URL.
        for path in own { try nights.set.root.write(path == own[0] ? "" : "mine", to: "in/\(path)") }
        let (place, now) = (TargetPlace.directory(nights.set.root.path("in")), nights.now)
        try nights.set.publish {
            ($0.output, $0.isLoose, $0.permits) = ($0.directory, true, .unsigned)
        }
        let list = try ReleaseList(place)
        #expect(list.warnings.isEmpty && list.entries.map(\.revision) == [1], "\(list.warnings)")
        #expect(try Channels(place, isReadOnly: true).list().map(\.revision) == [1])
        let pruned = #expect(throws: PublishError.self) { try Prune(keep: 1, now: now).run(place) }
        #expect(pruned?.exitStatus == .usage && pruned?.summary.contains("loose set") == true)
        // What was not published is called so.
        let stray = "channels/stable.json.zst"
        try nights.set.root.write("whose?", to: "in/\(stray)")
        #expect(try ReleaseList(place).warnings.count == 1)
    }

    @Test("The newest N stay whole, what only older ones need goes, and nothing that is named is missing")
    func prune() throws {
        var nights = try Nights()
        try nights.publish(8, changing: 3)
        let before = try nights.packs()
        let preview = try Prune(keep: 3, now: nights.now).run(.directory(nights.target), isDryRun: true)
        let files = try nights.set.bytes(below: "out")
        var dry = Prune(keep: 3, now: nights.now)
        dry.grace = 0
        let planned = try dry.run(.directory(nights.target), isDryRun: true)
        #expect(try nights.set.bytes(below: "out") == files)
        let report = try nights.prune(keep: 3)
        #expect(report == planned && preview.removed.objects <= report.removed.objects)
        #expect(report.releases == 3 && report.waiting.objects == 0)
        #expect(report.removed.objects == report.files.count)
        #expect(try nights.revisions() == [8, 7, 6])
        let after = try nights.packs()
        #expect(try after.isStrictSubset(of: before) && nights.missing().isEmpty)
        let bytes = try nights.set.bytes(below: "out/packs").values.reduce(0) { $0 + $1.count }
        #expect(report.kept.bytes > UInt64(bytes))
        for revision in [UInt64(6), 7] {
            try FileManager.default.removeItem(atPath: nights.set.root.path("copy"), ifThere: true)
            try FileManager.default.copyItem(atPath: nights.target, toPath: nights.set.root.path("copy"))
            let restored = try Restore(.directory(nights.set.root.path("copy")), signing: nil).run(
                "\(revision)", created: "2026-11-20T02:00:00Z", now: nights.now)
            #expect(restored.revision == 9 && restored.restored == revision)
            #expect(try nights.set.unpacked("copy").nodes == nights.trees[revision]?.nodes)
        }
        #expect(try nights.set.unpacked().nodes == nights.trees[8]?.nodes)
        #expect(try nights.prune(keep: 3).removed.objects == 0)
        #expect(report.json.text.hasPrefix("{\"removed\":{\"objects\":\(report.removed.objects),\"bytes\":"))
    }

    @Test("What was named in the last hours stays: a pull that has begun ends whole")
    func grace() throws {
        var nights = try Nights()
        try nights.publish(4, changing: 3)
        let packs = try nights.packs()
        // Revision 3 was the newest until now, 2 until a night ago.
        let first = try nights.prune(keep: 1, grace: 23 * Self.hour)
        #expect(first.removed.objects > 0 && first.waiting.objects > 0)
        #expect(try nights.revisions() == [4])
        let left = try nights.packs()
        #expect(try left.isSubset(of: packs) && nights.missing().isEmpty)
        let third = try Releases(OutputDirectory(published: .directory(nights.target), isReadOnly: true)).all.map(
            \.revision)
        #expect(third == [4, 3])
        // It can be brought back for as long as it is there.
        nights.now += 22 * Self.hour
        #expect(try nights.prune(keep: 1, grace: 23 * Self.hour).removed.objects == 0)
        nights.now += 2 * Self.hour
        #expect(try nights.prune(keep: 1, grace: 23 * Self.hour).removed.objects > 0)
        #expect(try nights.prune(keep: 1, grace: 23 * Self.hour).waiting.objects == 0)
        #expect(nights.set.root.read("out/manifests/unnamed.json") == nil)
        #expect(try nights.set.unpacked().nodes == nights.trees[4]?.nodes)
    }

    @Test("A clock that is wrong removes nothing that is kept or named, and a time in the future counts as now")
    func clock() throws {
        var nights = try Nights()
        try nights.publish(3, changing: 3)
        let right = nights.now
        nights.now = right + 3_650 * 24 * Self.hour
        _ = try nights.prune(keep: 2, grace: Prune.usualGrace)
        #expect(try nights.revisions() == [3, 2] && nights.missing().isEmpty)
        try nights.publish(1, changing: 3)
        // Back to the right time: what was noted in the future is not over, and does not stay for ten years.
        nights.now = right + Self.hour / 2
        #expect(try nights.prune(keep: 1, grace: Self.hour).removed.objects == 0)
        nights.now += 2 * Self.hour
        #expect(try nights.prune(keep: 1, grace: Self.hour).removed.objects > 0)
        #expect(try nights.revisions() == [4] && nights.set.unpacked().nodes == nights.trees[4]?.nodes)
        // A time before everything.
        nights.now = 0
        #expect(try nights.prune(keep: 1, grace: Self.hour).removed.objects == 0)
    }

    @Test("--older-than narrows --keep: what is beyond the newest N goes only if it is older")
    func olderThan() throws {
        var nights = try Nights()
        try nights.publish(6, changing: 3)
        let limit = nights.now - 3 * 24 * Self.hour
        _ = try nights.prune(keep: 1) { $0.olderThan = limit }
        #expect(try nights.revisions() == [6, 5, 4, 3])
        _ = try nights.prune(keep: 5) { $0.olderThan = nights.now }
        #expect(try nights.revisions() == [6, 5, 4, 3])
    }

    @Test("What a channel points at stays, and what is asked for by its number stays for the time of grace after that")
    func channels() throws {
        var nights = try Nights()
        nights.set.options.keepsReleases = true
        try nights.publish(2, changing: 3) { $0.channel = "beta" }
        _ = try Channels(.directory(nights.target), now: nights.now).point("stable", at: "1", signing: nil)
        try nights.publish(4, changing: 3) { $0.channel = "beta" }
        _ = try Channels(.directory(nights.target), now: nights.now).point(nil, at: "4", signing: nil)
        let report = try nights.prune(keep: 1, grace: Self.hour)
        // What a number can ask for goes first.
        #expect(report.files.map(\.path).sorted() == ["channels/2.json.zst", "channels/3.json.zst"])
        #expect(try nights.revisions() == [6, 4, 1])
        let names = try ReleaseList(.directory(nights.target)).entries.map(\.channels)
        #expect(names == [["beta"], ["default"], ["stable"]])
        nights.now += Self.hour
        #expect(try nights.prune(keep: 1, grace: Self.hour).removed.objects > 0)
        #expect(try nights.missing().isEmpty)
        // A channel that is removed lets go of its release.
        _ = try Channels(.directory(nights.target), now: nights.now).remove("stable", signing: nil)
        nights.now += Self.hour
        _ = try nights.prune(keep: 1)
        #expect(try nights.revisions() == [6, 4] && nights.missing().isEmpty)
        // The number is not used again.
        try nights.publish(1) { $0.channel = "beta" }
        #expect(try nights.revisions().first == 7)
    }

    @Test(
        "Where there is no room for the note, what is over goes all the same, and what a number can ask for stays until it is noted"
    )
    func noRoom() throws {
        var nights = try Nights()
        nights.set.options.keepsReleases = true
        try nights.publish(9, changing: 3) { $0.channel = "beta" }
        let first = try nights.prune(keep: 1, grace: Self.hour)
        #expect(first.files.map(\.path).allSatisfy { $0.hasPrefix("channels/") } && first.removed.objects > 1)
        try nights.publish(1, changing: 3) { $0.channel = "beta" }
        nights.now += Self.hour
        let before = try nights.packs()
        // The name that the note is written under.
        let taken = nights.set.root.path("out/manifests/.publish-0.tmp")
        try FileManager.default.createDirectory(atPath: taken, withIntermediateDirectories: false)
        let refused = SigningTests.error { () throws(PublishError) in
            _ = try nights.prune(keep: 1, grace: Self.hour)
        }
        #expect(refused?.exitStatus == .ioError)
        #expect(try nights.packs().isStrictSubset(of: before) && nights.missing().isEmpty)
        // The first prune has noted that the eighth goes, so it is listed no more.
        #expect(try nights.revisions() == [10, 9])
        #expect(nights.set.root.read("out/channels/8.json.zst") != nil)
        #expect(nights.set.root.read("out/channels/9.json.zst") != nil)
        try FileManager.default.removeItem(atPath: taken)
        let last = try nights.prune(keep: 1, grace: Self.hour)
        #expect(last.files.map(\.path).sorted() == ["channels/8.json.zst", "channels/9.json.zst"])
        #expect(try nights.missing().isEmpty)
    }

    @Test("In a signed set, what a fresh statement names stays, and publishing, refreshing and restoring go on")
    func signed() throws {
        var nights = try Nights()
        let keys = try SigningTests.keys(nights.set)
        let memory = SigningMemory(in: nights.set.root.path("state"), for: nights.target)
        var signing = try SigningTests.signing(keys)
        signing.memory = memory
        nights.set.options.signing = signing
        try nights.publish(5, changing: 3)
        #expect(nights.set.root.read("out/trust/2.release") != nil)
        _ = try nights.prune(keep: 2)
        #expect(try nights.set.root.read("out/trust/2.release") == nil && nights.missing().isEmpty)
        #expect(nights.set.root.read("out/trust/4.release") != nil)
        #expect(try nights.revisions() == [5, 4])
        let refreshed = try (try SigningTests.fresh(keys, now: 9_000, memory: memory)).refresh(
            .directory(nights.target))
        #expect(refreshed.newest == 5)
        let unsigned = SigningTests.error { () throws(PublishError) in
            _ = try Restore(.directory(nights.target), signing: nil)
        }
        #expect(unsigned?.exitStatus == .refused)
        let report = try Restore(.directory(nights.target), signing: signing).run(
            "4", created: "2026-11-20T02:00:00Z", now: nights.now)
        #expect(report.revision == 6 && report.validUntil != nil && !report.isUnchanged)
        #expect(try nights.set.unpacked().nodes == nights.trees[4]?.nodes)
        let output = try OutputDirectory(published: .directory(nights.target), isReadOnly: true)
        #expect(try output.word(nil)?.fresh.revision == 6)
        #expect(try output.release(6)?.content.manifest == report.manifest)
        // Another machine with the same keys: by the signatures alone.
        var elsewhere = try SigningTests.signing(keys)
        elsewhere.now = 20_000
        let again = try Restore(.directory(nights.target), signing: elsewhere).run(
            "5", created: "2026-11-20T02:00:00Z", now: nights.now)
        #expect(again.revision == 7)
        try nights.publish(1)
        #expect(try nights.revisions().first == 8)
    }

    @Test("Only what was signed is signed again: a manifest that somebody has put there is refused, and a changed pack")
    func foreignRestore() throws {
        var nights = try Nights()
        let keys = try SigningTests.keys(nights.set)
        nights.set.options.signing = try SigningTests.signing(keys)
        try nights.publish(3, changing: 3)
        let signing = try SigningTests.signing(keys)
        func refusal(_ revision: String) -> PublishError? {
            SigningTests.error { () throws(PublishError) in
                _ = try Restore(.directory(nights.target), signing: signing).run(
                    revision, created: "2026-11-20T02:00:00Z", now: nights.now)
            }
        }
        let manifest = nights.set.root.read("out/manifest.json")
        // A release of another's making.
        var other = try Nights()
        try other.publish(1)
        try other.set.publish { $0.revision = 9 }
        let name = try #require(try ReleaseList(.directory(other.target)).entries.first).manifest
        let frame = try #require(other.set.root.read("out/manifests/\(name).json.zst"))
        try nights.set.root.write(frame, to: "out/manifests/\(name).json.zst")
        for (path, bytes) in try other.set.bytes(below: "out/packs") {
            try nights.set.root.write(bytes, to: "out/packs/\(path)")
        }
        #expect(refusal("9")?.exitStatus == .refused)
        #expect(refusal(name.hex)?.exitStatus == .refused)
        #expect(refusal("17")?.exitStatus == .noInput)
        try FileManager.default.removeItem(atPath: nights.set.root.path("out/manifests/\(name).json.zst"))
        // One of ours under a number that no publish comes to, on a machine that remembers nothing.
        let text = String(decoding: try #require(manifest), as: UTF8.self)
        let high = Array(text.replacing("\"revision\":3", with: "\"revision\":9223372036854775805").utf8)
        #expect(high != manifest)
        let path9 = "out/manifests/\(try sha256(high)).json.zst"
        try nights.set.root.write(manifestFrame(high), to: path9)
        #expect(refusal("1")?.summary.contains("above 3, the last one known to be signed") == true)
        try FileManager.default.removeItem(atPath: nights.set.root.path(path9))
        // A pack of the right size.
        let pack = try #require(
            try Releases(OutputDirectory(published: .directory(nights.target), isReadOnly: true)).all.last?.packs.first)
        let path = "out/packs/\(pack.sha256).pack"
        var bytes = try #require(nights.set.root.read(path))
        bytes[0] ^= 1
        try nights.set.root.write(bytes, to: path)
        #expect(refusal("1")?.exitStatus == .dataInvalid)
        try FileManager.default.removeItem(atPath: nights.set.root.path(path))
        #expect(refusal("1")?.summary.contains("is missing") == true)
        #expect(nights.set.root.read("out/manifest.json") == manifest)
    }

    @Test("Restoring makes old contents the newest, once; the next publish continues from there")
    func restore() throws {
        var nights = try Nights()
        try nights.publish(3, changing: 3)
        let report = try Restore(.directory(nights.target), signing: nil).run(
            "1", created: "2027-01-01T02:00:00Z", now: nights.now)
        #expect(report.revision == 4 && report.restored == 1)
        let manifest = try nights.set.manifest()
        #expect(
            manifest.revision == 4 && manifest.created == "2027-01-01T02:00:00Z" && manifest.digest == report.manifest)
        #expect(try nights.set.unpacked().nodes == nights.trees[1]?.nodes)
        #expect(report.json.text.contains("\"restored\":1"))
        let again = try Restore(.directory(nights.target), signing: nil).run(
            "1", created: "2027-01-02T02:00:00Z", now: nights.now)
        #expect(again.isUnchanged && again.revision == 4)
        let same = try Restore(.directory(nights.target), signing: nil).run(
            "4", created: "2027-01-02T02:00:00Z", now: nights.now)
        #expect(same.isUnchanged && same.revision == 4)
        #expect(try nights.revisions() == [4, 3, 2, 1])
        // The source is still as it was in the bad night.
        let published = try nights.set.publish()
        #expect(published.revision == 5)
        #expect(try nights.set.unpacked().nodes == nights.trees[3]?.nodes)
    }

    @Test("Restoring the newest release mends the file that keeps it for the channels, with which a publish begins")
    func restoreKept() throws {
        var nights = try Nights()
        try nights.publish(2) { $0.keepsReleases = true }
        try FileManager.default.removeItem(atPath: nights.set.root.path("out/channels/2.json.zst"))
        try nights.set.root.write("junk", to: "out/channels/2.json.zst")
        #expect(throws: PublishError.self) { try nights.set.publish() }
        let report = try Restore(.directory(nights.target), signing: nil).run(
            "2", created: "2027-01-01T02:00:00Z", now: nights.now)
        #expect(report.isUnchanged && report.revision == 2)
        try nights.publish()
        #expect(try nights.revisions() == [3, 2, 1])
    }

    @Test("Where a channel's newest release is damaged, nobody is told to restore it for every machine")
    func damagedChannel() throws {
        var nights = try Nights()
        try nights.publish { $0.keepsReleases = true }
        try nights.publish { ($0.keepsReleases, $0.channel) = (true, "beta") }
        try FileManager.default.removeItem(atPath: nights.set.root.path("out/channels/2.json.zst"))
        try nights.set.root.write("junk", to: "out/channels/2.json.zst")
        let error = nights.set.failure()
        #expect(error?.remedy.contains("restore \(nights.target) 1'") == true, "\(String(describing: error))")
    }

    @Test(
        "What was published under a former name is restored under the one that the set has now, which machines follow")
    func restoreRenamed() throws {
        var nights = try Nights()
        try nights.publish(2)
        try nights.publish { ($0.project, $0.permits) = ("com.example.spire", .otherProject) }
        let report = try Restore(.directory(nights.target), signing: nil).run(
            "1", created: "2027-01-01T02:00:00Z", now: nights.now)
        #expect(report.project == "com.example.spire" && report.revision == 4)
        let manifest = try nights.set.manifest()
        #expect(manifest.project == "com.example.spire" && manifest.digest == report.manifest)
        #expect(try nights.set.unpacked().nodes == nights.trees[1]?.nodes)
        let again = try Restore(.directory(nights.target), signing: nil).run(
            "1", created: "2027-01-02T02:00:00Z", now: nights.now)
        #expect(again.isUnchanged && again.revision == 4)
        #expect(try nights.set.publish { $0.project = nil }.project == "com.example.spire")
    }

    @Test(
        "A damaged manifest.json is brought back from a release; without a base the set keeps its name, and numbers go on"
    )
    func damagedManifest() throws {
        var nights = try Nights()
        try nights.publish(3)
        let set = nights.set
        let text = try #require(set.root.read("out/manifest.json"))
        try set.root.write(Array(text.prefix(100)), to: "out/manifest.json")
        let refused = try #require(set.failure())
        #expect(refused.exitStatus == .dataInvalid)
        #expect(refused.remedy.contains("syncagent releases restore \(nights.target) 3"), "\(refused.remedy)")
        let without = try set.publish { ($0.base, $0.project) = (.none, nil) }
        #expect(without.revision == 4 && without.project == "com.example.tower")

        try set.root.write(Array(text.prefix(100)), to: "out/manifest.json")
        let restored = try Restore(.directory(nights.target), signing: nil).run(
            "3", created: "2026-12-01T02:00:00Z", now: nights.now)
        #expect(restored.revision == 5 && restored.restored == 3)
        // Both names may be gone: what the releases say stays.
        for name in ["manifest.json", "manifest.json.zst"] {
            try FileManager.default.removeItem(atPath: set.root.path("out/\(name)"))
        }
        let again = try set.publish { $0.project = nil }
        #expect(again.revision == 6 && again.project == "com.example.tower")
        #expect(set.failure { ($0.base, $0.project) = (.none, "com.example.spire") }?.exitStatus == .usage)
    }

    @Test("A base elsewhere takes no number back, and brings no other name without being asked to")
    func baseElsewhere() throws {
        var nights = try Nights()
        try nights.publish(3)
        let set = nights.set
        let staging = set.root.path("staging")
        func promote(_ change: (inout PublishOptions) -> Void = { _ in }) throws(PublishError) -> PublishReport {
            try set.publish {
                $0.base = .manifest(staging + "/manifest.json")
                $0.project = nil
                change(&$0)
            }
        }
        try set.publish { $0.output = staging }
        // The same files, under a number that is taken.
        #expect(try promote().revision == 4)
        #expect(set.failure { ($0.base, $0.revision) = (.none, 4) }?.exitStatus == .usage)
        try set.publish {
            $0.output = staging
            ($0.project, $0.permits) = ("com.example.spire", .otherProject)
        }
        let refused = SigningTests.error { () throws(PublishError) in _ = try promote() }
        #expect(refused?.exitStatus == .usage && refused?.remedy.contains("--rename") == true)
        #expect(try set.manifest().project == "com.example.tower")
        #expect(try promote { $0.project = "com.example.tower" }.project == "com.example.tower")
        let renamed = try promote { $0.permits = .otherProject }
        #expect(renamed.project == "com.example.spire" && renamed.revision > 4)
        #expect(renamed.warnings.contains { $0.contains("from now on") })
        // With channels nothing may rename it.
        try set.publish { ($0.project, $0.keepsReleases) = (nil, true) }
        let kept = set.failure {
            ($0.base, $0.project, $0.permits) = (.none, "com.example.tower", .otherProject)
        }
        #expect(kept?.description.contains("has channels") == true, "\(String(describing: kept))")
    }

    @Test("A manifest in parts, with deltas, is restored and pruned like any other")
    func parts() throws {
        var nights = try Nights(files: 60)
        try nights.publish(6, changing: 2) { $0.isInParts = true }
        #expect(try nights.set.manifest().parts.count > 0)
        _ = try nights.prune(keep: 3)
        #expect(try nights.missing().isEmpty)
        let report = try Restore(.directory(nights.target), signing: nil).run(
            "5", created: "2027-01-01T02:00:00Z", now: nights.now)
        #expect(try nights.set.unpacked().nodes == nights.trees[5]?.nodes)
        try nights.publish(1) { $0.isInParts = true }
        _ = try nights.prune(keep: 1)
        #expect(try nights.set.unpacked().nodes == nights.trees[report.revision + 1]?.nodes && nights.missing().isEmpty)
    }

    @Test("Two that change one directory at once: one of them ends with 75")
    func busy() throws {
        var nights = try Nights()
        try nights.publish(2)
        let other = try OutputDirectory(nights.target)
        #expect(SigningTests.error { () throws(PublishError) in _ = try nights.prune(keep: 1) }?.exitStatus == .busy)
        #expect(
            SigningTests.error { () throws(PublishError) in _ = try Restore(.directory(nights.target), signing: nil) }?
                .exitStatus
                == .busy)
        // Looking needs nobody's leave.
        #expect(try nights.revisions() == [2, 1])
        _ = try Prune(keep: 1, now: nights.now).run(.directory(nights.target), isDryRun: true)
        withExtendedLifetime(other) {}
    }

    @Test("Whatever others put into the published directory is not touched, not followed, and never makes more go")
    func foreign() throws {
        var nights = try Nights()
        try nights.publish(4, changing: 3)
        let hex = String(repeating: "ab", count: 32)
        try nights.set.root.write("mine", to: "elsewhere/precious")
        let own = [
            "packs/notes.txt", "packs/\(hex).PACK", "packs/\(hex.uppercased()).pack", "manifests/x.json.zst", "top",
        ]
        for name in own { try nights.set.root.write("theirs", to: "out/\(name)") }
        try nights.set.root.write("theirs", to: "out/packs/\(hex).pack/inside")
        let link = String(repeating: "cd", count: 32)
        try nights.set.root.link("out/packs/\(link).pack", to: nights.set.root.path("elsewhere/precious"))
        try nights.set.root.write(
            "{\"format\":\"syncagent-unnamed/1\",\"packs\":{\"../../elsewhere\":1}}", to: "out/manifests/unnamed.json")
        _ = try nights.prune(keep: 2)
        for name in own { #expect(nights.set.root.read("out/\(name)") == Array("theirs".utf8), "\(name)") }
        #expect(nights.set.root.read("out/packs/\(hex).pack/inside") != nil)
        #expect(nights.set.root.read("elsewhere/precious") == Array("mine".utf8))
        #expect(
            try FileManager.default.destinationOfSymbolicLink(atPath: nights.set.root.path("out/packs/\(link).pack"))
                != "")
        #expect(try nights.revisions() == [4, 3] && nights.missing().isEmpty)
        // A manifest that is not what its name says: it cannot be told what it needs.
        try nights.set.root.write("theirs", to: "out/manifests/\(hex).json.zst")
        let packs = try nights.packs()
        let damaged = SigningTests.error { () throws(PublishError) in _ = try nights.prune(keep: 1) }
        #expect(damaged?.exitStatus == .dataInvalid && damaged?.remedy.hasSuffix("nothing was removed") == true)
        #expect(try nights.packs() == packs)
        let warned = try nights.set.publish {
            $0.retain = 1; $0.revision = 7; $0.now = nights.now * 1_000_000
        }
        #expect(warned.warnings.contains { $0.hasPrefix("old releases stay") } && warned.pruned == nil)
        #expect(try ReleaseList(.directory(nights.target)).warnings.count == 1)
        try FileManager.default.removeItem(atPath: nights.set.root.path("out/manifests/\(hex).json.zst"))
        // Folders that lead elsewhere.
        for folder in ["manifests", "packs"] {
            let moved = nights.set.root.path("elsewhere/\(folder)")
            try FileManager.default.moveItem(atPath: nights.set.root.path("out/\(folder)"), toPath: moved)
            try nights.set.root.link("out/\(folder)", to: moved)
            let before = try nights.set.bytes(below: "elsewhere")
            let refused = SigningTests.error { () throws(PublishError) in _ = try nights.prune(keep: 1) }
            #expect(refused?.exitStatus == .refused, "\(folder)")
            #expect(try nights.set.bytes(below: "elsewhere") == before)
            unlink(nights.set.root.path("out/\(folder)"))
            try FileManager.default.moveItem(atPath: moved, toPath: nights.set.root.path("out/\(folder)"))
        }
    }

    @Test(
        "A damaged fresh statement or channel ends a prune before anything is removed",
        arguments: ["trust/fresh", "channels/beta.json.zst"])
    func damagedNames(name: String) throws {
        var nights = try Nights()
        try nights.publish(3, changing: 3)
        try nights.set.root.write("rubbish", to: "out/\(name)")
        let packs = try nights.packs()
        let error = SigningTests.error { () throws(PublishError) in _ = try nights.prune(keep: 1) }
        #expect(error?.exitStatus == .dataInvalid && error?.summary.contains(name) == true)
        #expect(try nights.packs() == packs)
    }

    @Test("Packs that a killed publish has left go after the time of grace; one that is named again meanwhile stays")
    func orphans() throws {
        var nights = try Nights()
        try nights.publish(2, changing: 3)
        let bytes = Array("what nobody names".utf8)
        let name = "\(try digest(bytes)).pack"
        try nights.set.root.write(bytes, to: "out/packs/\(name)")
        #expect(try nights.prune(keep: 9, grace: Self.hour).waiting.objects == 1)
        nights.now += Self.hour - 1
        #expect(try nights.prune(keep: 9, grace: Self.hour).removed.objects == 0)
        nights.now += 1
        #expect(try nights.prune(keep: 9, grace: Self.hour).files.map(\.path) == ["packs/\(name)"])
        // A release that a number can ask for again is looked at anew.
        _ = try nights.prune(keep: 1, grace: 3 * Self.hour)
        #expect(try nights.revisions() == [2])
        let report = try Restore(.directory(nights.target), signing: nil).run(
            "1", created: "2027-01-01T02:00:00Z", now: nights.now)
        nights.now += 48 * Self.hour
        _ = try nights.prune(keep: 1, grace: Self.hour)
        #expect(try nights.revisions() == [report.revision] && nights.missing().isEmpty)
        #expect(try nights.set.unpacked().nodes == nights.trees[1]?.nodes)
    }

    @Test("A publish that retains N removes what is older, once it is complete; also where nothing has changed")
    func retain() throws {
        var nights = try Nights()
        nights.set.options.retain = 3
        try nights.publish(10, changing: 3)
        #expect(try nights.revisions() == [10, 9, 8] && nights.missing().isEmpty)
        #expect(try nights.set.unpacked().nodes == nights.trees[10]?.nodes)
        nights.now += 48 * Self.hour
        let report = try nights.set.publish {
            $0.retain = 1
            $0.now = nights.now * 1_000_000
        }
        #expect(report.unchanged && report.pruned?.removed.objects ?? 0 > 0)
        let line = report.json(isDryRun: false, time: "", elapsed: 0).text
        #expect(line.contains("\"removed\":{\"objects\":\(report.pruned?.removed.objects ?? 0),"))
        #expect(try nights.revisions() == [10])
        #expect(nights.set.failure { $0.retain = 0 }?.exitStatus == .usage)
    }

    @Test(
        "With --retain, packs of which more than a third is unused are given up, until as much was moved as is new, and then no more"
    )
    func moving() throws {
        var nights = try Nights()
        nights.set.options.deltas = false
        nights.set.options.packSize = 12_000
        nights.set.options.retain = 2
        try nights.publish(1)
        let first = try nights.packs()
        #expect(first.count == 3)
        // One of four files of the first pack: a quarter is not enough.
        var tree = try #require(nights.trees[1])
        func publish() throws -> PublishReport {
            try nights.set.replace(tree)
            return try nights.set.publish { $0.now = nights.now * 1_000_000 }
        }
        tree.addFile("f0", size: 3_000, seed: 501)
        #expect(try publish().movedBytes == 0)
        // Path order puts f1, f10 and f11 beside f0.
        tree.addFile("f1", size: 3_000, seed: 502)
        let moved = try publish()
        #expect(moved.movedBytes == 6_000)
        let names = Set(try nights.set.manifest().packs.map { "\($0.sha256).pack" })
        #expect(first.subtracting(names).count == 1)
        #expect(try nights.set.unpacked().nodes == tree.nodes)
        #expect(try publish().unchanged)
        // Without --retain nothing is moved.
        tree.addFile("f2", size: 3_000, seed: 503)
        tree.addFile("f3", size: 3_000, seed: 504)
        try nights.set.replace(tree)
        let without = try nights.set.publish { $0.retain = nil }
        #expect(without.movedBytes == 0)
        #expect(try nights.set.unpacked().nodes == tree.nodes)
    }

    @Test(
        "Where next to nothing is new, a publish moves what is left of one pack, night after night until none is mostly unused"
    )
    func movingOnePack() throws {
        let set = try BaseTests.published()
        let size = try set.manifest().packs.reduce(0) { $0 + $1.size }
        var tree = BaseTests.before
        for (index, path) in tree.paths.enumerated() where index % 5 < 2 { tree.nodes[path] = nil }
        var moved: [UInt64] = []
        for night in 0..<12 {
            tree.addText("new", "\(night)")
            try set.replace(tree)
            let report = try set.publish {
                $0.retain = 14
                $0.now = (Self.start + Int64(night) * 24 * Self.hour) * 1_000_000
            }
            moved.append(report.movedBytes)
        }
        #expect(moved[0] > 2 && moved[11] == 0, "\(moved)")
        #expect(moved.allSatisfy { $0 <= 50_000 * 2 / 3 + 2 } && moved.reduce(0, +) <= size * 2 / 3, "\(moved)")
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("A manifest's text takes another revision and time where it has them, or at its beginning")
    func text() throws {
        func made(_ text: String) throws -> String {
            String(
                decoding: try manifestText(Array(text.utf8), revision: 7, created: "2027-01-01T02:00:00Z"),
                as: UTF8.self)
        }
        #expect(
            try made("{\"a\":{\"revision\":1},\"revision\" : 3 ,\"created\":\"x\"}\n")
                == "{\"a\":{\"revision\":1},\"revision\" : 7 ,\"created\":\"2027-01-01T02:00:00Z\"}\n")
        #expect(
            try made("{\"rev\\u0069sion\":3,\"x\":1}")
                == "{\"created\":\"2027-01-01T02:00:00Z\",\"rev\\u0069sion\":7,\"x\":1}")
        #expect(throws: ManifestError.self) { try made("[]") }
        let named = try manifestText(
            Array("{\"project\":\"old\",\"revision\":3,\"created\":\"x\",\"a\":{\"project\":1}}".utf8), project: "new",
            revision: 4, created: "y")
        #expect(
            String(decoding: named, as: UTF8.self)
                == "{\"project\":\"new\",\"revision\":4,\"created\":\"y\",\"a\":{\"project\":1}}")
    }
}

extension FileManager {
    fileprivate func removeItem(atPath path: String, ifThere: Bool) throws {
        if fileExists(atPath: path) { try removeItem(atPath: path) }
    }
}
