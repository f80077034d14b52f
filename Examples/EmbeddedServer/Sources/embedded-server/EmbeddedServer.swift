import Foundation
import SyncKit

// A server that has its files before it answers: it pulls at start, and says 503 until everything is there. The HTTP in here is
// as little as shows that; take the server you like.

/// What the server knows of its files.
actor Readiness {
    private(set) var line = "starting"
    private(set) var isReady = false

    func note(_ event: Sync.Event) {
        switch event {
        case .progress(let progress): line = "\(progress.filesDone) of \(progress.filesTotal) files are here"
        case .finished(let summary):
            isReady = summary.result == .ok
            line =
                "\(summary.result.rawValue): \(summary.files.total - summary.files.failed) of \(summary.files.total) files"
        default: break
        }
    }

    func fail(_ reason: String) { line = reason }
}

/// `embedded-server MANIFEST DIRECTORY PORT`
@main
struct EmbeddedServer {
    static func main() async throws {
        let words = Array(CommandLine.arguments.dropFirst())
        guard words.count == 3, let port = UInt16(words[2]) else {
            FileHandle.standardError.write(Data("usage: embedded-server MANIFEST DIRECTORY PORT\n".utf8))
            exit(64)
        }
        let readiness = Readiness()
        let listener = try opened(port)
        print("listening on 127.0.0.1:\(port)")
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    for try await event in Sync.pull(words[0], into: words[1]) { await readiness.note(event) }
                } catch let failure as Sync.Failure {
                    await readiness.fail(failure.description)
                }
            }
            group.addTask { try await answer(listener, readiness) }
            try await group.waitForAll()
        }
    }

    private static func answer(_ listener: Int32, _ readiness: Readiness) async throws {
        while true {
            // A thread of its own: accept(2) blocks.
            let client = await withCheckedContinuation { continuation in
                Thread.detachNewThread { continuation.resume(returning: accept(listener, nil, nil)) }
            }
            guard client >= 0 else { continue }
            let status = await readiness.isReady ? "200 OK" : "503 Service Unavailable"
            let body = await readiness.line + "\n"
            let text =
                "HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)"
            var request = [UInt8](repeating: 0, count: 4_096)
            _ = read(client, &request, request.count)
            _ = Array(text.utf8).withUnsafeBytes { write(client, $0.baseAddress, $0.count) }
            close(client)
        }
    }

    private static func opened(_ port: UInt16) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard bound == 0, listen(descriptor, 16) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
        return descriptor
    }
}
