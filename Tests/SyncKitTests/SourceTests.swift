import Foundation
import SyncKit
import SyncTestKit
import Testing

@Suite("Sets that others list, in a program of one's own", .timeLimit(.minutes(10)))
struct SourceTests {
    @Test("A checksum list is pulled like a manifest; nothing new is one request, and a new list brings what changed")
    func list() async throws {
        let (server, root) = (try FaultServer(), try TemporaryRoot())
        func publish(_ files: [String: String]) {
            for (path, text) in files { server.serve(ServedObject(text: text), at: "/maps/" + path) }
            let lines = files.sorted { $0.key < $1.key }.map { "\(ServedObject(text: $0.value).sha256)  \($0.key)\n" }
            server.serve(ServedObject(text: lines.joined()), at: "/maps/SHA256SUMS")
        }
        func pull() async throws -> [Sync.Event] {
            var options = Sync.Options()
            options.stateDirectory = root.path("state")
            var events: [Sync.Event] = []
            let list = server.url("/maps/SHA256SUMS")
            for try await event in Sync.pull(list, into: root.path("maps"), options: options) { events.append(event) }
            return events
        }
        publish(["a.txt": "one", "north/b.txt": "two"])
        let first = try await pull()
        #expect(first.installed == ["a.txt", "north/b.txt"] && first.summary?.result == .ok)
        #expect(first.summary?.session == "maps")
        #expect(try await pull().summary?.requests == 1)
        publish(["a.txt": "three", "north/b.txt": "two"])
        let next = try await pull()
        // The list, and the file with its size.
        #expect(next.installed == ["a.txt"] && next.summary?.requests == 2)
        let bytes = FileManager.default.contents(atPath: root.path("maps/a.txt"))
        #expect(bytes == Data("three".utf8))

        server.stop()
        let error = await #expect(throws: Sync.Failure.self) {
            var options = Sync.Options()
            options.stateDirectory = root.path("state")
            options.settings.patience = .seconds(1)
            let gone = Sync.pull(server.url("/maps/SHA256SUMS"), into: root.path("maps"), options: options)
            for try await _ in gone {}
        }
        #expect(error?.status == .unavailable)
        #expect(FileManager.default.contents(atPath: root.path("maps/a.txt")) == bytes)
    }
}
