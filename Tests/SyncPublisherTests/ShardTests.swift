import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

/// Random numbers, the same every time: a linear congruential generator whose high bits are mixed as in SplitMix64.
private func nextNumber(_ state: inout UInt64) -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Array(withUnsafeBytes(of: state) { Array($0) }).withUnsafeBufferPointer { PartCutter.hash($0) }
}

/// A set published in pieces, by processes that do not talk to each other.
@Suite("Shards of a publish", .timeLimit(.minutes(10)))
struct ShardTests {
    /// Small files, links, some large ones, and an empty directory.
    private static func tree(_ count: Int = 2_000) -> AssetTree {
        var tree = AssetTree.mixed().merged(with: .large(3, size: 300_000))
        for number in 0..<count {
            let path = "d\(number / 100)/\(number)"
            if number % 10 == 3 {
                tree.nodes[path] = .link("\(number / 100 * 100)")
            } else {
                tree.addText(path, "content of \(number)")
            }
        }
        return tree
    }

    private static let later = Int64(Date().timeIntervalSince1970 * 1e9) + 1_000_000_000_000

    private static func set(_ tree: AssetTree = tree()) throws -> PublishedSet {
        var set = try PublishedSet(tree)
        set.options.now = later
        return set
    }

    @discardableResult private func publish(
        _ set: PublishedSet, _ number: Int, of count: Int, _ change: (inout PublishOptions) -> Void = { _ in }
    ) throws(PublishError) -> PublishReport {
        try set.publish {
            $0.shards = Shard(number, of: count).map { .shard($0) }
            change(&$0)
        }
    }

    @discardableResult private func join(
        _ set: PublishedSet, _ count: Int, _ change: (inout PublishOptions) -> Void = { _ in }
    ) throws(PublishError) -> PublishReport {
        try set.publish {
            $0.shards = .join(count)
            change(&$0)
        }
    }

    private func all(_ set: PublishedSet, _ count: Int) throws(PublishError) {
        for number in (0..<count).reversed() { try publish(set, number, of: count) }
    }

    @Test("1, 4 and 16 shards give the same tree, and a manifest as any other", arguments: [1, 4, 16])
    func whole(count: Int) throws {
        let set = try Self.set()
        try all(set, count)
        #expect(set.root.read("out/manifest.json") == nil, "shards publish nothing")
        let report = try join(set, count)
        #expect(report.revision == 1 && !report.unchanged)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
        let manifest = try set.manifest()
        #expect(report.files + report.links == manifest.files.count)
        #expect(report.parts == manifest.parts.count && manifest.parts.count >= min(count, 4))
        // An unsharded publish finds all it needs in it.
        let next = try set.publish { $0.isInParts = true }
        #expect(next.newBytes == 0)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
    }

    @Test("Patterns of groups are counted for as many files as one reader takes, and not for more")
    func patterns() throws {
        let set = try Self.set(Self.tree(6_000))
        func failure(entries: Int) -> PublishError? {
            set.failure {
                $0.shards = Shard(0, of: 4).map { .shard($0) }
                $0.groups = [Manifest.Group(name: "none", include: ["**/*.none"], hooks: [])]
                ($0.limits.patternMatches, $0.limits.entries) = (5_000, entries)
            }
        }
        #expect(failure(entries: 1_000_000)?.summary.hasPrefix("group none, **/*.none: ") == true)
        #expect(failure(entries: 5)?.summary == nil)
    }

    @Test("One shard is what one publish in parts would be, byte for byte")
    func alone() throws {
        let set = try Self.set()
        try all(set, 1)
        try join(set, 1)
        try set.publish {
            $0.output = set.root.path("other")
            $0.isInParts = true
        }
        let mine = try set.bytes(below: "out").filter { !$0.key.hasPrefix(".publish-shards/") }
        #expect(try mine == set.bytes(below: "other"))
    }

    @Test("A shard that is published twice writes equal bytes, and one whose files are old finds its work done")
    func twice() throws {
        var set = try Self.set()
        let first = try publish(set, 1, of: 4)
        #expect(first.packsWritten > 0)
        let before = try set.bytes(below: "out")
        let second = try publish(set, 1, of: 4) { $0.trustsStamps = false }
        #expect(second.packsWritten == 0 && !second.unchanged)
        #expect(try set.bytes(below: "out") == before)
        let third = try publish(set, 1, of: 4)
        #expect(third.unchanged && third.files == first.files)
        set.options.now = 0
        #expect(try !publish(set, 1, of: 4) { $0.trustsStamps = false }.unchanged)
        #expect(try !publish(set, 1, of: 4).unchanged, "files as young as the shard could have changed since")
    }

    @Test("A join names the shards that are missing, damaged or without their packs: 75")
    func missing() throws {
        let set = try Self.set()
        let early = set.failure { $0.shards = .join(5) }
        #expect(early?.exitStatus == .busy && early?.summary == "shards 0–4 of 5 are not published", "nothing is there")
        for number in [0, 2, 3] { try publish(set, number, of: 5) }
        let error = #expect(throws: PublishError.self) { try join(set, 5) }
        #expect(error?.exitStatus == .busy)
        #expect(error?.summary == "shards 1, 4 of 5 are not published")
        try publish(set, 1, of: 5)
        try publish(set, 4, of: 5)
        let record = try #require(set.root.read("out/.publish-shards/2-of-5.shard"))
        try set.root.write(Array(record.dropLast(20)), to: "out/.publish-shards/2-of-5.shard")
        #expect(set.failure { $0.shards = .join(5) }?.summary == "shard 2 of 5 is not published")
        try publish(set, 2, of: 5)
        let pack = try #require(FileManager.default.contentsOfDirectory(atPath: set.root.path("out/packs")).first)
        try FileManager.default.removeItem(atPath: set.root.path("out/packs/\(pack)"))
        let lost = set.failure { $0.shards = .join(5) }
        #expect(lost?.exitStatus == .busy && lost?.summary.hasSuffix("has lost packs") == true)
        #expect(set.root.read("out/manifest.json") == nil)
        try all(set, 5)
        try join(set, 5)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
    }

    @Test("Shards of two states of the source are not joined, and the older ones are named")
    func changed() throws {
        let set = try Self.set()
        try publish(set, 0, of: 3)
        try publish(set, 1, of: 3)
        try set.root.write(Array("new".utf8), to: "in/d7/a new file")
        try publish(set, 2, of: 3) { $0.now = Self.later + 1 }
        let error = #expect(throws: PublishError.self) { try join(set, 3) }
        #expect(error?.exitStatus == .busy)
        #expect(
            error?.summary
                == "shards 0–1 of 3 were made when the source was not as shard 2 saw it last")
        try publish(set, 0, of: 3) { $0.now = Self.later + 2 }
        try publish(set, 1, of: 3) { $0.now = Self.later + 2 }
        try join(set, 3)
        var tree = Self.tree()
        tree.addText("d7/a new file", "new")
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("Shards with other options, or over another release, are not joined")
    func options() throws {
        let set = try Self.set()
        try publish(set, 0, of: 2)
        try publish(set, 1, of: 2) {
            $0.level = 9
            $0.now = Self.later + 1
        }
        #expect(
            set.failure { $0.shards = .join(2) }?.summary
                == "shard 0 of 2 was published with other options than shard 1")
        try publish(set, 1, of: 2) { $0.now = Self.later + 2 }
        var other = Self.tree()
        other.addText("d1/between", "x")
        try set.publish()
        try publish(set, 1, of: 2) { $0.now = Self.later + 3 }
        let error = set.failure { $0.shards = .join(2) }
        #expect(error?.exitStatus == .busy)
        #expect(error?.summary == "shard 0 of 2 was published before the release that is here now")
    }

    @Test("Joining what is joined changes nothing, and neither does publishing the same shards again")
    func again() throws {
        let set = try Self.set()
        try all(set, 4)
        try join(set, 4)
        let before = try set.bytes(below: "out").filter { !$0.key.hasPrefix(".publish-shards/") }
        let second = try join(set, 4)
        #expect(second.unchanged && second.packsWritten == 0 && second.newBytes == 0 && second.partsWritten == 0)
        try publish(set, 2, of: 4)
        #expect(try join(set, 4).unchanged, "one of them is of the next night already")
        try all(set, 4)
        #expect(try join(set, 4).unchanged)
        #expect(try set.bytes(below: "out").filter { !$0.key.hasPrefix(".publish-shards/") } == before)
    }

    @Test(
        "The next night reuses the packs and parts of the last, with the same number of shards or another",
        arguments: [4, 7])
    func nextNight(count: Int) throws {
        let set = try Self.set()
        try all(set, 4)
        try join(set, 4)
        var tree = Self.tree()
        for path in ["d2/new", "d15/new", "zz"] { tree.addText(path, "new \(path)") }
        tree.nodes["d20/2001"] = nil
        try set.replace(tree)
        let own = try publish(set, 0, of: count)
        #expect(own.packsDropped == 0 && own.deadBytes == 0 && !own.repackPays, "others may need what it does not")
        try all(set, count)
        let report = try join(set, count)
        #expect(report.revision == 2)
        #expect(try set.unpacked().nodes == tree.nodes)
        #expect(report.newBytes < 10_000, "\(report.newBytes)")
        if count == 4 { #expect(report.partsWritten <= 6, "\(report.partsWritten) of \(report.parts)") }
        #expect(report.deltas == 0)
        let left = try FileManager.default.contentsOfDirectory(atPath: set.root.path("out/.publish-shards"))
        #expect(left.sorted() == (0..<count).map { "\($0)-of-\(count).shard" }.sorted())
    }

    @Test("Where the borders between shards have moved, changed parts are differences to the former ones all the same")
    func movedBorders() throws {
        let set = try Self.set()
        func shares() throws -> [Int] {
            try (0..<4).map { number in
                let report = try publish(set, number, of: 4)
                return report.files + report.links
            }
        }
        let before = try shares()
        try join(set, 4)
        let former = try set.manifest()
        var tree = Self.tree()
        // All at the end, so that without a move the first shards would have what they had.
        for number in 0..<300 { tree.addText("z\(number / 100)/\(number)", "new \(number)") }
        for number in stride(from: 5, to: 2_000, by: 100) {
            tree.addText("d\(number / 100)/\(number)", "other content of \(number)")
        }
        try set.replace(tree)
        let after = try shares()
        #expect(before.dropLast() != after.dropLast(), "\(before) \(after)")
        try join(set, 4)
        let manifest = try set.manifest()
        let differences = manifest.parts.filter { !$0.from.isEmpty }
        #expect(!differences.isEmpty)
        for part in differences {
            let base = try #require(former.parts.first { $0.text.digest == part.from.last?.digest })
            #expect(part.from.map(\.digest) == base.chain.map(\.digest))
            for (text, known) in zip(part.from, base.chain) {
                #expect(text.blob.range == known.blob.range)
                #expect(manifest.packs[Int(text.blob.pack)].sha256 == former.packs[Int(known.blob.pack)].sha256)
            }
        }
        #expect(try set.unpacked().nodes == tree.nodes)
        #expect(try join(set, 4).unchanged)
    }

    @Test("Two runs of one shard, a shard and a publish, a join and a shard: one of them ends with 75")
    func busy() throws {
        let set = try Self.set()
        var inner: [PublishError?] = []
        func tryAll() {
            inner.append(set.failure { $0.shards = Shard(0, of: 2).map { .shard($0) } })
            inner.append(set.failure())
            inner.append(set.failure { $0.shards = .join(2) })
            inner.append(set.failure { $0.shards = Shard(1, of: 2).map { .shard($0) } })
        }
        var options = set.options
        options.shards = Shard(0, of: 2).map { .shard($0) }
        var isFirst = true
        _ = try options.publish { () -> Bool in
            if isFirst {
                isFirst = false
                tryAll()
            }
            return false
        }
        #expect(inner.prefix(3).map { $0?.exitStatus } == [.busy, .busy, .busy])
        #expect(inner.last == .some(nil), "another shard goes on at the same time")
        try join(set, 2)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
        #expect(set.root.read("out/.publish.lock") == nil)
    }

    @Test("A shard that was stopped leaves the packs it has, and nothing half done")
    func stopped() throws {
        let set = try Self.set(.large(40, size: 100_000))
        var options = set.options
        options.shards = Shard(0, of: 2).map { .shard($0) }
        var bytes: UInt64 = 0
        let error = #expect(throws: PublishError.self) {
            try options.publish(isCancelled: { bytes > 1_500_000 }, progress: { bytes = $0.bytes })
        }
        #expect(error?.exitStatus == .interrupted)
        let left = try set.bytes(below: "out")
        #expect(left.keys.allSatisfy { $0.hasSuffix(".pack") }, "\(left.keys)")
        try all(set, 2)
        try join(set, 2)
        #expect(try set.unpacked().nodes == AssetTree.large(40, size: 100_000).nodes)
    }

    @Test("More shards than files: some have nothing to do")
    func empty() throws {
        var tree = AssetTree()
        for number in 0..<3 { tree.addText("\(number)", "content \(number)") }
        let set = try Self.set(tree)
        try all(set, 16)
        try join(set, 16)
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("Directories, times and modes are kept, each by one shard")
    func traits() throws {
        let set = try Self.set()
        try FileManager.default.createDirectory(
            atPath: set.root.path("in/d9/empty/inner"), withIntermediateDirectories: true)
        try FileManager.default.createDirectory(atPath: set.root.path("in/zz"), withIntermediateDirectories: true)
        for number in 0..<4 {
            try publish(set, number, of: 4) { $0.preserve = [.times, .modes] }
        }
        try join(set, 4) { $0.preserve = [.times, .modes] }
        try set.publish {
            $0.output = set.root.path("other")
            $0.preserve = [.times, .modes]
        }
        let (mine, other) = (try set.manifest(), try set.manifest("other"))
        func rows(_ table: FileTable) -> [String] {
            table.indices.map { "\(table.path($0)) \(table.traits($0).mode ?? 0) \(table.traits($0).modified ?? 0)" }
        }
        #expect(rows(mine.files) == rows(other.files))
        #expect(rows(mine.directories) == rows(other.directories))
    }

    @Test("What does not go with shards is refused with a reason")
    func refused() throws {
        let set = try Self.set(.mixed())
        let shard = Shard(0, of: 2).map { ShardWork.shard($0) }
        #expect(set.failure { ($0.shards, $0.isLoose) = (shard, true) }?.exitStatus == .usage)
        #expect(set.failure { ($0.shards, $0.repack) = (.join(2), true) }?.exitStatus == .usage)
        #expect(set.failure { ($0.shards, $0.retain) = (shard, 3) }?.exitStatus == .usage)
        #expect(set.failure { ($0.shards, $0.channel) = (shard, "beta") }?.exitStatus == .usage)
        #expect(set.failure { ($0.shards, $0.base) = (shard, .manifest("x")) }?.exitStatus == .usage)
    }

    @Test("Shares are about equal, cover everything once, and move little when files come and go")
    func borders() {
        let names = (0..<20_000).map { "d\($0 / 64)/file \($0)" }
        func ranges(_ names: [String], _ count: Int) -> [Range<Int>] {
            (0..<count).compactMap { Shard($0, of: count) }.map { shard in
                shard.rows(ofEntries: names.count, size: { UInt64($0 % 1_000) }) { index in
                    Array(names[index].utf8).withUnsafeBufferPointer { PartCutter.hash($0) }
                }
            }
        }
        for count in [1, 2, 7, 16, 64] {
            let found = ranges(names, count)
            #expect(found.first?.lowerBound == 0 && found.last?.upperBound == names.count)
            #expect(zip(found, found.dropFirst()).allSatisfy { $0.upperBound == $1.lowerBound })
            let share = names.count / count
            #expect(found.allSatisfy { abs($0.count - share) <= share }, "\(found.map(\.count))")
        }
        let before = Set(ranges(names, 16).map { $0.lowerBound < names.count ? names[$0.lowerBound] : "" })
        var others = names
        others.insert("d100/file 6400a", at: 6_401)
        others.remove(at: 15_000)
        let after = Set(ranges(others, 16).map { $0.lowerBound < others.count ? others[$0.lowerBound] : "" })
        #expect(before.intersection(after).count >= 14)
    }

    @Test("What a shard of the publish holds of all the others has a limit, however many entries there are")
    func bounded() {
        for count in [4, 16, 1_000] {
            var most: [Int] = []
            for entries in [100_000, 1_000_000] {
                var borders = ShardBorders<Int>(count)
                var held = 0
                var state: UInt64 = 7
                for index in 0..<entries {
                    borders.add(hash: nextNumber(&state), size: UInt64(index % 5_000)) { index }
                    held = max(held, borders.held)
                }
                most.append(held)
                var starts = [0]
                for number in 1..<count { starts.append(borders.start(of: number) ?? entries) }
                let shares = zip(starts, starts.dropFirst() + [entries]).map { $1 - $0 }
                #expect(shares.reduce(0, +) == entries && shares.allSatisfy { $0 >= 0 })
                let share = entries / count
                #expect(shares.allSatisfy { $0 <= 2 * share + 100 }, "\(count): \(shares.max() ?? 0) of \(share)")
            }
            let limit = max(4_096, 16 * count) + 1
            #expect(most.allSatisfy { $0 <= limit }, "\(most)")
        }
    }

    @Test(
        "Every entry is in exactly one shard, whatever their number, and borders are found again when others come and go"
    )
    func divided() {
        var state: UInt64 = 11
        for entries in [0, 1, 2, 3, 17, 256, 5_000, 40_000] {
            let hashes = (0..<entries).map { _ in nextNumber(&state) }
            let sizes = (0..<entries).map { _ in nextNumber(&state) % 10 == 0 ? nextNumber(&state) >> 20 : 100 }
            for count in [1, 2, 3, 5, 16, 100, 1_000, Shard.most] {
                var borders = ShardBorders<Int>(count)
                for index in 0..<entries {
                    borders.add(hash: hashes[index], size: sizes[index], mayBegin: index % 7 != 3) { index }
                }
                var last = 0
                for number in 1..<max(2, count) where count > 1 {
                    let start = borders.start(of: number) ?? entries
                    #expect(start >= last && (start == entries || start % 7 != 3))
                    last = start
                }
                guard count < 20 else { continue }
                let rows = (0..<count).compactMap { Shard($0, of: count) }.map { shard in
                    shard.rows(ofEntries: entries, size: { sizes[$0] }, hash: { hashes[$0] })
                }
                #expect(rows.flatMap { Array($0) } == Array(0..<entries))
            }
        }
        // No size can be so large that it stops.
        var borders = ShardBorders<Int>(3)
        for index in 0..<10 { borders.add(hash: 0, size: .max) { index } }
        #expect(borders.start(of: 1) == 1 && borders.start(of: 3) == 1)
    }

    @Test(
        "Any source comes out of any number of shards as out of one publish: links, empty directories, what is left out",
        arguments: 0..<8)
    func anySource(seed: Int) throws {
        var state = UInt64(seed) &+ 100
        func number(_ limit: Int) -> Int { Int(nextNumber(&state) % UInt64(limit)) }
        let names = ["a", "b", "a b", "a-", "c", "d", "e", "~", "ä"]
        func directory() -> String { (0..<number(4)).map { _ in names[number(names.count)] + "/" }.joined() }
        var tree = AssetTree()
        for index in 0..<(20 + number(300)) {
            let path = directory() + "f\(index)"
            switch number(12) {
            case 0: tree.nodes[path] = .link("/out of here")
            case 1: tree.nodes[path] = .link("f\(number(300))")
            case 2: tree.nodes[path] = .link(names[number(names.count)] + "/../f\(number(300))")
            case 3: tree.addText(directory() + "links/\(index)/" + "x", "")
            case 4: tree.nodes["only links/\(number(30))/l\(index)"] = .link(number(2) == 0 ? "/x" : "l0")
            case 5: tree.addText(directory() + "skip\(index)", "not published")
            default: tree.addText(path, "content \(index)")
            }
        }
        tree.addText(".syncignore", "skip*\n")
        tree.addText("b/.syncignore", "!skip1*\nf2\n")
        let set = try Self.set(tree)
        for index in 0..<10 {
            try FileManager.default.createDirectory(
                atPath: set.root.path("in/\(directory())empty\(index)/\(index % 3)"), withIntermediateDirectories: true)
        }
        func options(_ options: inout PublishOptions) {
            options.leavesOutUnsafeLinks = true
            if seed % 2 == 1 { options.preserve = [.times, .modes] }
        }
        let whole = try set.publish {
            $0.output = set.root.path("other")
            options(&$0)
        }
        let count = [1, 2, 3, 5, 8, 13, 40, 100][seed]
        for number in 0..<count { try publish(set, number, of: count, options) }
        let report = try join(set, count, options)
        #expect((report.files, report.links) == (whole.files, whole.links))
        let (mine, other) = (try set.manifest(), try set.manifest("other"))
        func rows(_ table: FileTable) -> [String] {
            table.indices.map {
                let target = table.withLinkTarget($0) { String(decoding: $0, as: UTF8.self) } ?? ""
                return "\(table.path($0)) \(table.size($0)) \(target) \(table.traits($0))"
            }
        }
        #expect(rows(mine.files) == rows(other.files))
        #expect(rows(mine.directories) == rows(other.directories))
        #expect(mine.files.count > 0 && mine.directories.count > 0)
    }

    @Test("A file that moves from one shard's share to another's between its two looks at the source is noticed")
    func movedBetween() throws {
        let set = try Self.set()
        try publish(set, 0, of: 2)
        var options = set.options
        options.shards = Shard(1, of: 2).map { .shard($0) }
        // The first report that is not of the beginning comes behind the first look.
        var looks = 0
        let error = #expect(throws: PublishError.self) {
            try options.publish(isCancelled: { false }) { progress in
                guard progress.step == .walking else { return }
                looks += 1
                if progress.files > 2_000, looks > 1 {
                    try? FileManager.default.moveItem(
                        atPath: set.root.path("in/d0/1"), toPath: set.root.path("in/zz moved"))
                }
            }
        }
        #expect(
            error?.exitStatus == .ioError && error?.summary.hasSuffix("changed while it was being published") == true)
        for number in 0..<2 { try publish(set, number, of: 2) { $0.now = Self.later + 1 } }
        try join(set, 2)
        #expect(try set.unpacked().nodes["zz moved"] == Self.tree().nodes["d0/1"])
    }

    @Test("A link that goes up again from a directory of another shard is taken, and one from a link there is refused")
    func linksToOthers() throws {
        var tree = Self.tree()
        tree.nodes["a link"] = .link("d19/../d0/0")
        let set = try Self.set(tree)
        try all(set, 4)
        try join(set, 4)
        #expect(try set.unpacked().nodes == tree.nodes)
        tree.nodes["zz"] = .link("d3")
        tree.nodes["a link"] = .link("zz/../d0/0")
        try set.replace(tree)
        let failures = (0..<4).compactMap { number in
            set.failure { $0.shards = Shard(number, of: 4).map { .shard($0) } }
        }
        #expect(failures.count == 1)
        #expect(
            failures.first?.details == ["a link: the link goes up again from zz, which is not a directory of the set"])
        #expect(set.failure { $0.shards = .join(4) }?.exitStatus == .busy)
        tree.nodes["a link"] = .link("../out")
        try set.replace(tree)
        #expect(set.failure { $0.shards = Shard(3, of: 4).map { .shard($0) } }?.exitStatus == .dataInvalid)
    }

    @Test(
        "Groups are looked for in the whole source, and a source that has lost most of its files is refused by every shard"
    )
    func ofTheWhole() throws {
        let set = try Self.set()
        try set.publish {
            $0.isInParts = true
            $0.groups = [
                .init(name: "first", include: ["d0/**"], hooks: []),
                .init(name: "none", include: ["nothing/**"], hooks: []),
            ]
        }
        for number in 0..<3 {
            let report = try publish(set, number, of: 3)
            #expect(report.warnings.filter { $0.hasPrefix("group") } == ["group none has no files"])
        }
        try set.replace(Self.tree(500))
        for number in 0..<3 {
            let error = set.failure { $0.shards = Shard(number, of: 3).map { .shard($0) } }
            #expect(error?.exitStatus == .refused)
        }
    }

    @Test("A join publishes no manifest that no reader would take: 65, and what is wrong with it")
    func unreadable() throws {
        let set = try Self.set()
        try all(set, 2)
        let changes: [(words: String, change: (inout ManifestLimits) -> Void)] = [
            ("the manifest's own text would have more than 200 bytes", { $0.ownTextBytes = 200 }),
            ("no reader would take the manifest: more than 1 parts", { $0.parts = 1 }),
            ("no reader would take the manifest: more than 1 packs", { $0.packs = 1 }),
        ]
        for (words, change) in changes {
            let error = set.failure {
                $0.shards = .join(2)
                change(&$0.limits)
            }
            #expect(error?.exitStatus == .dataInvalid && error?.summary == words, "\(String(describing: error))")
            #expect(error?.remedy.hasSuffix("nothing was published") == true)
        }
        #expect(set.root.read("out/manifest.json") == nil)
        try join(set, 2)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
    }

    @Test(
        "Links that are left out do not make up for files that are gone: every shard refuses the source, as one publish does"
    )
    func leftOutForLost() throws {
        var tree = AssetTree()
        for number in 0..<20 { tree.addText("f/\(number)", "content \(number)") }
        let set = try Self.set(tree)
        try all(set, 2)
        try join(set, 2)
        for number in 8..<20 { tree.nodes["f/\(number)"] = .link("../../outside/\(number)") }
        try set.replace(tree)
        let whole = set.failure { $0.leavesOutUnsafeLinks = true }
        #expect(whole?.summary.hasSuffix("has 8 files and links, less than half of the 20 of revision 1") == true)
        for number in 0..<2 {
            let error = set.failure {
                $0.shards = Shard(number, of: 2).map { .shard($0) }
                $0.leavesOutUnsafeLinks = true
            }
            #expect(error?.exitStatus == .refused && error?.summary == whole?.summary)
            try publish(set, number, of: 2) { ($0.leavesOutUnsafeLinks, $0.permits) = (true, .fewerFiles) }
        }
        try join(set, 2)
        #expect(try set.manifest().files.count == 8)
        // Of nothing else there is no first release, either.
        let links = try Self.set(AssetTree(["out": .link("/etc"), "up": .link("../x")]))
        for number in 0..<2 {
            let error = links.failure {
                $0.shards = Shard(number, of: 2).map { .shard($0) }
                $0.leavesOutUnsafeLinks = true
            }
            #expect(error?.exitStatus == .refused && error?.summary.hasSuffix("has no files or links") == true)
        }
    }

    @Test("Shards are written as 3/16, and lists of them in few words")
    func texts() {
        #expect(Shard("3/16")?.name == "3-of-16")
        for text in ["16/16", "-1/4", "1", "1/0", "a/b", "1/2/3", "0/10001", "/4", "+1/4x"] {
            #expect(Shard(text) == nil, "\(text)")
        }
        #expect(Shard.list([5, 3, 4, 9, 0]) == "0, 3–5, 9")
        #expect(Shard.list([]) == "")
    }
}
