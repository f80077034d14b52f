import SyncManifest
import SyncModel
import SyncTestKit
import Synchronization
import Testing

@testable import SyncPublisher

/// Publishing to a store, which prunes of other machines work on, too.
@Suite(.timeLimit(.minutes(10)))
struct StoreTests {
    /// A store in memory, with a clock that advances whenever it is read.
    private final class MemoryStore: ObjectStore {
        private let objects = Mutex<[String: [UInt8]]>([:])
        private let clock = Mutex<Int64>(ReleaseTests.start)
        private let hours: Int64
        /// Whether the packs are gone once somebody has noted any.
        private let losesPacks: Bool
        /// What somebody else puts there while channels are listed.
        private let others = Mutex<[String: [UInt8]]>([:])
        let shown = "mem://set"

        init(hours: Int64, losesPacks: Bool = false) { (self.hours, self.losesPacks) = (hours, losesPacks) }

        func now() -> Int64 {
            clock.withLock { time in
                time += hours * ReleaseTests.hour
                return time
            }
        }

        func bytes(_ name: String) -> [UInt8]? { objects.withLock { $0[name] } }

        var packs: [String] { objects.withLock { $0.keys.filter { $0.hasPrefix("packs/") }.sorted() } }

        func putOnceListed(_ text: String, as name: String) { others.withLock { $0[name] = Array(text.utf8) } }

        func place(_ directory: String) -> HomePlace {
            HomePlace(self, temporaryDirectory: directory) { self.now() }
        }

        private static func described(_ bytes: [UInt8]) -> StoredObject {
            StoredObject(size: UInt64(bytes.count), tag: "\(bytes.hashValue)")
        }

        func list(_ prefix: String) throws(PublishError) -> [String: StoredObject] {
            let all = objects.withLock { $0 }
            if prefix == "channels/" {
                let new = others.withLock { $0 }
                objects.withLock { $0.merge(new) { $1 } }
            }
            return all.filter { $0.key.hasPrefix(prefix) }.mapValues { Self.described($0) }
        }

        func stat(_ name: String) throws(PublishError) -> StoredObject? { bytes(name).map { Self.described($0) } }

        func read(_ name: String, limit: Int) throws(PublishError) -> (bytes: [UInt8], object: StoredObject)? {
            guard let found = bytes(name) else { return nil }
            return (found, Self.described(found))
        }

        func read(_ name: String, _ range: Range<UInt64>) throws(PublishError) -> [UInt8] {
            Array((bytes(name) ?? []).dropFirst(Int(range.lowerBound)).prefix(range.count))
        }

        func put(_ object: NewObject, as name: String, if condition: PutCondition) throws(PublishError) -> String? {
            var read = [UInt8](repeating: 0, count: Int(object.size))
            read.withUnsafeMutableBytes { target in
                var offset = 0
                while offset < target.count,
                    let count = object.read(UInt64(offset), UnsafeMutableRawBufferPointer(rebasing: target[offset...]))
                { offset += count }
            }
            let new = read
            return objects.withLock { objects -> String? in
                let former = objects[name].map { Self.described($0) }
                switch condition {
                case .absent: guard former == nil else { return nil }
                case .unchanged(let tag): guard former?.tag == tag else { return nil }
                case .always: break
                }
                objects[name] = new
                if losesPacks, name == "manifests/unnamed.json" {
                    objects = objects.filter { !$0.key.hasPrefix("packs/") }
                }
                return Self.described(new).tag
            }
        }

        func remove(_ names: [String]) throws(PublishError) {
            objects.withLock { objects in for name in names { objects[name] = nil } }
        }
    }

    @Test("Packs that were sent over half a day ago are noted before a manifest names them: a prune may remove them")
    func longPublish() throws {
        let set = try PublishedSet(.manySmall(3))
        func publish(_ store: MemoryStore) throws(PublishError) {
            try set.publish {
                $0.output = store.shown
                $0.home = store.place(set.root.path)
            }
        }
        let short = MemoryStore(hours: 1)
        try publish(short)
        #expect(short.bytes("manifest.json") != nil && short.bytes("manifests/unnamed.json") == nil)
        let long = MemoryStore(hours: 13)
        try publish(long)
        #expect(long.bytes("manifest.json") != nil && long.bytes("manifests/unnamed.json") != nil)
        let pruned = MemoryStore(hours: 13, losesPacks: true)
        let error = SigningTests.error { () throws(PublishError) in try publish(pruned) }
        #expect(error?.exitStatus == .busy && pruned.bytes("manifest.json") == nil)
    }

    @Test("An outline is stored whole again before its difference has more than an eighth of its bytes")
    func outlines() throws {
        let set = try PublishedSet(.manySmall(400))
        let store = MemoryStore(hours: 0)
        let place = store.place(set.root.path)
        var counts: [Int] = []
        for night in 0..<12 {
            for number in 0..<6 { try set.root.write("\(number) in night \(night)", to: "in/\(number)/\(night)") }
            try set.publish { ($0.output, $0.home, $0.isInParts) = (store.shown, place, true) }
            let root = try ManifestAssembly(try #require(store.bytes("manifest.json")), digest: .zero)
            for outline in root.parts.map(\.outline) where outline.count == 2 {
                #expect(outline[1].blob.storedLength * 8 <= outline[0].blob.storedLength)
            }
            counts.append(try #require(root.parts.first).outline.count)
        }
        #expect(counts.first == 1 && counts.contains(2) && counts.dropFirst().contains(1), "\(counts)")
    }

    @Test("A prune during which somebody moves a channel removes nothing")
    func movedChannel() throws {
        let set = try PublishedSet(.manySmall(3))
        let store = MemoryStore(hours: 1)
        let place = store.place(set.root.path)
        for name in ["a new file", "another"] {
            try set.root.write(name, to: "in/\(name)")
            try set.publish { ($0.output, $0.home) = (store.shown, place) }
        }
        let before = store.packs
        store.putOnceListed("{\"format\":\"syncagent-unnamed/1\"}", as: "manifests/unnamed.json")
        var prune = Prune(keep: 1, now: store.now())
        prune.grace = 0
        let error = SigningTests.error { () throws(PublishError) in _ = try prune.run(.store(place)) }
        #expect(error?.exitStatus == .busy && store.packs == before)
    }

    @Test("No channel is pointed at a release while a prune is removing its packs")
    func removedRelease() throws {
        let set = try PublishedSet(.manySmall(3))
        let store = MemoryStore(hours: 0)
        let place = store.place(set.root.path)
        for name in ["a new file", "another"] {
            try set.root.write(name, to: "in/\(name)")
            try set.publish {
                ($0.output, $0.home) = (store.shown, place)
                ($0.channel, $0.keepsReleases) = ("beta", true)
            }
        }
        let going = store.packs.map { "\"\($0.dropFirst(6).dropLast(5))\"" }.joined(separator: ",")
        store.putOnceListed(
            "{\"format\":\"syncagent-unnamed/1\",\"going\":[\(going)],\"going_since\":\(store.now())}",
            as: "manifests/unnamed.json")
        let error = SigningTests.error { () throws(PublishError) in
            _ = try Channels(.store(place), now: store.now()).point("stable", at: "1", signing: nil)
        }
        #expect(error?.exitStatus == .busy && store.bytes("channels/stable.json.zst") == nil)
    }
}
