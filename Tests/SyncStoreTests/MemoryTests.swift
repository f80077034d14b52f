import SyncModel
import SyncStore
import Testing

@Suite("What is remembered between runs", .timeLimit(.minutes(3)))
struct MemoryTests {
    @Test("A host's numbers are kept, replaced, and forgotten when unused")
    func hosts() throws {
        let store = try SyncStore.inMemory()
        #expect(try store.memories()["https://cdn.example.com:443"] == nil)
        try store.remember(
            HostMemory(connections: 4, firstByte: 40_000, rate: 1 << 20),
            of: "https://a:443",
            now: 1
        )
        try store.remember(
            HostMemory(connections: 8, firstByte: 20_000, rate: 1 << 22),
            of: "https://a:443",
            now: 2
        )
        #expect(
            try store.memories()["https://a:443"]
                == HostMemory(connections: 8, firstByte: 20_000, rate: 1 << 22)
        )
        try store.prune(now: 2 + KeepLimits().memoryAge)
        #expect(try store.memories()["https://a:443"] != nil)
        try store.prune(now: 3 + KeepLimits().memoryAge)
        #expect(try store.memories()["https://a:443"] == nil)
    }
}
