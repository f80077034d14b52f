import Foundation
import SyncAgent
import SyncControlFixture
import SyncModel
import Testing

@testable import SyncDaemon

@Suite(.timeLimit(.minutes(10)))
struct SocketTests {
    static func mode(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return try #require(attributes[.posixPermissions] as? Int)
    }

    @Test("The socket is this user's alone, in a directory of this user alone, and goes with the server [V59]")
    func modes() async throws {
        let path = try await withServer(of: FakeAgent()) { (socket: String) async throws -> String in
            #expect(try Self.mode(socket) == 0o600)
            #expect(try Self.mode((socket as NSString).deletingLastPathComponent) == 0o700)
            return socket
        }
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("A socket that a dead agent has left is replaced; a file is not")
    func stale() async throws {
        let directory = FileManager.default.temporaryDirectory.path + "/sa-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = directory + "/agent.sock"
        let stale = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(stale, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        #expect(bound == 0)
        close(stale)
        let mode = try await serving(server(at: path)) { try Self.mode($0) }
        #expect(mode == 0o600)

        try Data("precious".utf8).write(to: URL(fileURLWithPath: path))
        let error = await #expect(throws: ControlError.self) { try await serving(server(at: path)) { _ in } }
        #expect(error?.exitStatus == .cannotCreate && error?.message.contains("is in the way") == true)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "precious")
    }

    @Test("A second server at the same socket is told that another one has it, and the first one goes on")
    func taken() async throws {
        try await withServer(of: FakeAgent()) { (socket: String) async throws in
            let error = await #expect(throws: ControlError.self) { try await serving(server(at: socket)) { _ in } }
            #expect(error?.code == .busy && error?.exitStatus == .busy)
            #expect(try await ControlClient(socketPath: socket).status().state == .running)
        }
    }

    @Test("What has taken the socket's place while a server ran is left there when it ends")
    func replaced() async throws {
        let directory = FileManager.default.temporaryDirectory.path + "/sa-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = directory + "/agent.sock"
        let server = server(at: path)
        try await serving(server) { path in
            #expect(server.hasSocket)
            try FileManager.default.removeItem(atPath: path)
            #expect(!server.hasSocket)
            try Data("another's".utf8).write(to: URL(fileURLWithPath: path))
            #expect(!server.hasSocket)
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "another's")
    }

    @Test(
        "A directory of another user, or below one of his, is refused with 73 and left as it is",
        .enabled(if: geteuid() == 0, "only root can give directories away"))
    func foreignDirectory() async throws {
        let runtime = FileManager.default.temporaryDirectory.path + "/sa-\(UUID().uuidString.prefix(8))"
        let directory = runtime + "/syncagent"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: runtime) }
        for place in [runtime, directory] {
            #expect(chown(place, 4242, 4242) == 0)
            let error = await #expect(throws: ControlError.self) {
                try await serving(server(at: directory + "/agent.sock")) { _ in }
            }
            #expect(error?.exitStatus == .cannotCreate)
            #expect(error?.message.contains("another user (uid 4242)") == true, "\(error?.message ?? "")")
            #expect(try Self.mode(directory) == 0o755)
            #expect(chown(place, 0, 0) == 0)
        }
    }

    @Test("A path longer than unix(7) allows is refused with 78 and says what to set")
    func longPath() async throws {
        let path = "/tmp/" + String(repeating: "x", count: 110)
        let error = await #expect(throws: ControlError.self) { try await serving(server(at: path)) { _ in } }
        #expect(error?.exitStatus == .configuration)
        #expect(error?.message.contains("XDG_RUNTIME_DIR") == true)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct PeerTests {
    @Test(
        "The same user and root are answered, nobody else [V18 V58]",
        arguments: [
            (1000, 1000, true), (0, 1000, true), (1001, 1000, false), (UInt32.max, 1000, false), (1000, 0, false),
        ] as [(UInt32, UInt32, Bool)])
    func users(peer: UInt32, owner: UInt32, isAnswered: Bool) {
        #expect(ControlServer.mayAsk(peer, agentOf: owner) == isAnswered)
    }

    @Test("A peer that the kernel does not name is nobody")
    func unknown() {
        #expect(!ControlServer.mayAsk(nil, agentOf: 1000))
    }
}
