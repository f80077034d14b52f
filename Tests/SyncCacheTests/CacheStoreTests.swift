import SyncModel
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncServer

@Suite("The store of a cache")
struct CacheStoreTests {
    private static func name(_ number: UInt8) -> SHA256Digest {
        SHA256Digest(hex: String(repeating: "0", count: 62) + padded(UInt64(number), 2, radix: 16)) ?? .zero
    }

    /// Keeps a slice of so many bytes.
    private static func keep(_ slice: CacheStore.Slice, in store: CacheStore) throws {
        #expect(store.reserve(slice.length))
        let file = try #require(store.unfinishedFile())
        let bytes = [UInt8](repeating: 7, count: Int(slice.length))
        #expect(bytes.withUnsafeBytes { writeAll($0, to: file.descriptor.raw, at: 0) } == nil)
        #expect(store.keep(file, as: slice, nil) == nil)
    }

    /// Slices that push others out a little at a time, and much at a time, of stores that are small and large beside them.
    @Test(
        "Room is made for whatever comes, what was used longest ago goes first, and the count stays right",
        arguments: [
            (most: UInt64(64_000), length: UInt64(1_000)), (64_000, 900), (64_000, 64_000), (6_400, 99),
            (1_000_000, 999),
        ])
    func room(most: UInt64, length: UInt64) throws {
        let directory = try TemporaryRoot()
        let store = try CacheStore(path: directory.path("store"), most: most) { 1_000 }
        let first = CacheStore.Slice(object: Self.name(1), start: 0, end: length)
        try Self.keep(first, in: store)
        let count = most / length + 40
        for number in 1..<count {
            let start = number * length
            try Self.keep(CacheStore.Slice(object: Self.name(2), start: start, end: start + length), in: store)
            #expect(store.keptBytes <= most)
            if number % 7 == 0, most / length > 20 { #expect(store.slice(of: Self.name(1), at: 0) == first) }
        }
        #expect(store.keptBytes + store.evictedBytes == count * length)
        #expect(store.evictedBytes > 0)
        // As many are left as fit, but for the little that is removed ahead.
        #expect(store.keptBytes + 2 * length + most / 32 >= min(most, count * length))
        #expect(!store.has(Self.name(2), at: length))
        #expect(store.has(Self.name(2), at: (count - 1) * length))
    }

    @Test("Two at the same moment that need room count what goes once")
    func together() throws {
        let directory = try TemporaryRoot()
        let store = try CacheStore(path: directory.path("store"), most: 100_000) { 1_000 }
        for number in 0..<100 {
            let start = UInt64(number) * 1_000
            try Self.keep(CacheStore.Slice(object: Self.name(1), start: start, end: start + 1_000), in: store)
        }
        _ = concurrently(8, name: "room") { _ in
            for _ in 0..<200 where store.reserve(5_000) { store.giveBack(5_000) }
        }
        #expect(store.keptBytes + store.evictedBytes == 100_000)
    }

    @Test("A store belongs to one process, and what another one had left in the middle is gone")
    func lock() throws {
        let directory = try TemporaryRoot()
        let path = directory.path("store")
        var store: CacheStore? = try CacheStore(path: path, most: 100_000) { 1_000 }
        let busy = #expect(throws: ServerError.self) { _ = try CacheStore(path: path, most: 100_000) { 1_000 } }
        #expect(busy?.status == .busy)
        let slice = CacheStore.Slice(object: Self.name(1), start: 0, end: 5_000)
        try Self.keep(slice, in: #require(store))
        store = nil
        let again = try CacheStore(path: path, most: 100_000) { 1_000 }
        #expect(again.keptBytes == 5_000)
        #expect(again.slice(of: Self.name(1), at: 4_999) == slice)
    }

    @Test("A file in the place of a directory for slices is removed, so that they can be kept there")
    func damaged() throws {
        let directory = try TemporaryRoot()
        let path = directory.path("store")
        _ = try CacheStore(path: path, most: 100_000) { 1_000 }
        try directory.write("x", to: "store/objects/00")
        let store = try CacheStore(path: path, most: 100_000) { 1_000 }
        try Self.keep(CacheStore.Slice(object: Self.name(1), start: 0, end: 5_000), in: store)
        #expect(store.keptBytes == 5_000)
    }
}
