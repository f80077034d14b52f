import Foundation
import SyncKit
import SyncTestKit
import Synchronization
import Testing

/// Sends everything below one directory to another.
private struct Mover: RequestResolver {
    let from, to: String

    func resolve(_ requests: [ResolverRequest]) -> [RequestDisposition] {
        requests.map { request in
            guard request.url.contains(from) else { return .proceed }
            return .replace(url: request.url.replacing(from, with: to), headers: [])
        }
    }
}

private struct Token: CredentialProvider {
    func credential(for request: CredentialRequest) -> Credential? {
        request.refused == nil ? Credential(.bearer(token: "secret")) : nil
    }
}

/// Makes a manifest of `shelf:///top`, of one file of which nothing is known.
private struct Catalogue: SetSource {
    let url: String

    func manifest(of location: String, known: String?) throws(PluginError) -> SourceAnswer {
        guard location == "shelf:///top" else {
            throw PluginError(plugin: "catalogue", code: .notThere, message: "there is no \(location)")
        }
        if known == "1" { return .unchanged }
        let file = #"{"path":"a.txt","urls":["\#(url)"],"x-learn":{}}"#
        let text = #"{"format":"syncagent-manifest/1","project":"top","source":{"at":"1"},"files":[\#(file)]}"#
        return .manifest(Array(text.utf8))
    }
}

/// Objects in memory by URL. Asked on threads that may block, it answers at once.
private final class Shelf: Transport {
    private let objects: [String: [UInt8]]
    private let count = Mutex(TransferTotals())

    init(_ objects: [String: [UInt8]]) { self.objects = objects }

    func start(
        _ request: TransferRequest, sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) { Thread { [self] in completion(bring(request, to: sink)) }.start() }

    private func bring(_ request: TransferRequest, to sink: any TransferSink) -> Result<TransferReport, TransferError> {
        let url = request.urls.first ?? ""
        count.withLock { $0.requests += 1 }
        guard let object = objects[url] else {
            return .failure(TransferError(code: .badStatus(404), url: url, detail: "it is not on the shelf"))
        }
        let size = UInt64(object.count)
        let range = request.range ?? 0..<size
        let head = ResponseHead(status: 206, bodyOffset: range.lowerBound, objectSize: size)
        var offset = max(sink.begin(head), range.lowerBound)
        while offset < min(range.upperBound, size) {
            let end = min(offset + 4_096, range.upperBound, size)
            switch object[Int(offset)..<Int(end)].withUnsafeBytes({ sink.receive($0, at: offset) }) {
            case .taken: offset = end
            case .paused: Thread.sleep(forTimeInterval: 0.001)
            case .stop: return .failure(TransferError(code: .cancelled, url: url, detail: "stopped"))
            }
        }
        let bytes = range.upperBound - range.lowerBound
        count.withLock { $0.bytesReceived += bytes }
        return .success(
            TransferReport(response: head, sourceIndex: 0, currentURL: url, requests: 1, bytesReceived: bytes))
    }

    func resume(_ id: TransferID) {}
    func cancel(_ id: TransferID) {}
    func reportFault(url: String, reason: String) {}
    var totals: TransferTotals { count.withLock { $0 } }
    func shutdown() {}
}

@Suite("Plugins in Swift: who brings bytes, where requests go, what is shown there", .timeLimit(.minutes(10)))
struct PluginTests {
    @Test("A resolver sends requests elsewhere")
    func resolver() async throws {
        let scene = try KitScene()
        try ManifestBuilder(scene.tree).build().mount(on: scene.server, under: "/moved")
        scene.server.respondToOthers { _ in .status(404) }
        var plugins = Sync.Plugins()
        plugins.resolvers = [Mover(from: "/nowhere/", to: "/moved/")]
        let pull = Sync.pull(
            scene.server.url("/nowhere/manifest.json"), into: scene.destination, options: scene.options,
            plugins: plugins)
        var last: Sync.Event?
        for try await event in pull { last = event }
        #expect([last].compactMap(\.self).summary?.result == .ok)
        #expect(scene.tree.problems(in: scene.destination) == [])
    }

    @Test("Credentials are shown to the origin they are for")
    func credentials() async throws {
        let scene = try KitScene()
        let set = try ManifestBuilder(scene.tree).build()
        for (path, object) in set.objects(under: "/closed") {
            scene.server.respond(to: path) {
                $0.header("Authorization") == "Bearer secret" ? .object(object) : .status(401)
            }
        }
        var plugins = Sync.Plugins()
        let manifest = scene.server.url("/closed/manifest.json")
        let origin = scene.server.url("")
        plugins.credentialProviders = [(origin, Token())]
        var last: Sync.Event?
        let pull = Sync.pull(manifest, into: scene.destination, options: scene.options, plugins: plugins)
        for try await event in pull { last = event }
        #expect([last].compactMap(\.self).summary?.result == .ok)
        #expect(scene.tree.problems(in: scene.destination) == [])

        // Whoever is not asked for gives nothing.
        let closed = Sync.pull(manifest, into: scene.root.path("other"), options: scene.options)
        let failure = await #expect(throws: Sync.Failure.self) { for try await _ in closed {} }
        #expect(failure.map { "\($0)" }?.contains("401") == true, "\(String(describing: failure))")
    }

    @Test("A transport brings a scheme of its own, manifest, packs and files alike")
    func transport() async throws {
        let scene = try KitScene()
        let set = try ManifestBuilder(scene.tree).build()
        var objects: [String: [UInt8]] = [:]
        for (path, object) in set.objects(under: "/tower") { objects["shelf://top\(path)"] = object.bytes }
        let shelf = Shelf(objects)
        var plugins = Sync.Plugins()
        plugins.transports = [("shelf:", shelf)]
        var last: Sync.Event?
        let pull = Sync.pull(
            "shelf://top/tower/manifest.json", into: scene.destination, options: scene.options, plugins: plugins)
        for try await event in pull { last = event }
        let summary = [last].compactMap(\.self).summary
        #expect(summary?.result == .ok && summary?.requests == shelf.totals.requests)
        #expect(scene.tree.problems(in: scene.destination) == [])
    }

    @Test("A source makes the manifest of a URL, and a failure of its own ends the pull")
    func source() async throws {
        let scene = try KitScene()
        scene.server.serve(ServedObject(text: "one"), at: "/one")
        var plugins = Sync.Plugins()
        plugins.sources = [("shelf:", Catalogue(url: scene.server.url("/one")))]
        var last: Sync.Event?
        let pull = Sync.pull("shelf:top", into: scene.destination, options: scene.options, plugins: plugins)
        for try await event in pull { last = event }
        #expect([last].compactMap(\.self).summary?.result == .ok)
        #expect(scene.root.read("\(scene.destination.dropFirst(scene.root.path.count + 1))/a.txt") == Array("one".utf8))
        let none = Sync.pull("shelf:none", into: scene.destination, options: scene.options, plugins: plugins)
        let failure = await #expect(throws: Sync.Failure.self) { for try await _ in none {} }
        #expect(failure?.status == .noInput, "\(String(describing: failure))")
    }

    @Test(
        "No transport is for file: URLs, which a manifest from elsewhere could name", arguments: ["file:", "FILE:///"])
    func fileTransport(prefix: String) async throws {
        let scene = try KitScene()
        var plugins = Sync.Plugins()
        plugins.transports = [(prefix, Shelf([:]))]
        let pull = Sync.pull(
            scene.server.url("/manifest.json"), into: scene.destination, options: scene.options, plugins: plugins)
        let failure = await #expect(throws: Sync.Failure.self) { for try await _ in pull {} }
        #expect(failure.map { "\($0)" }?.contains("file: URLs are not for plugins") == true)
        #expect(scene.server.log.requestCount == 0)
    }

    @Test("What is on the wire is told while it comes: the file, its bytes, where it goes")
    func requests() async throws {
        var tree = AssetTree()
        tree.addFile("large.bin", size: 400_000, seed: 3)
        let scene = try KitScene(tree)
        var builder = ManifestBuilder(tree)
        builder.looseAbove = 0
        let set = try builder.build()
        for (path, object) in set.objects(under: "/slow") {
            let answer = FaultAnswer.object(object)
            scene.server.script(
                path, path.hasSuffix("manifest.json") ? answer : answer.dripping(20_000, every: .milliseconds(150)))
        }
        var seen: [RequestStatus] = []
        let pull = Sync.pull(scene.server.url("/slow/manifest.json"), into: scene.destination, options: scene.options)
        for try await event in pull {
            if case .requests(let list) = event { seen += list.requests.filter { $0.path == "large.bin" } }
        }
        let received = seen.map(\.received)
        #expect(received == received.sorted() && Set(received).count > 2, "\(received)")
        #expect(seen.allSatisfy { $0.tasks == 1 && $0.current.hasPrefix("http://127.0.0.1:") }, "\(seen)")
        #expect(seen.contains { $0.state == .receiving && $0.rate > 0 }, "\(seen)")
    }

    @Test(
        "How far a large file is, is told while it comes: from a place of its own, or in pieces",
        arguments: [true, false])
    func files(isLoose: Bool) async throws {
        var tree = AssetTree()
        tree.addFile("large.bin", size: 400_000, seed: 3)
        tree.addFile("small.txt", size: 900, seed: 4)
        let scene = try KitScene(tree)
        var builder = ManifestBuilder(tree)
        if isLoose { builder.looseAbove = 1_000 } else { builder.chunkSize = 20_000 }
        let set = try builder.build()
        for (path, object) in set.objects(under: "/slow") {
            let answer = FaultAnswer.object(object)
            scene.server.script(
                path, path.hasSuffix("manifest.json") ? answer : answer.dripping(20_000, every: .milliseconds(150)))
        }
        var seen: [Sync.FileProgress] = []
        let pull = Sync.pull(scene.server.url("/slow/manifest.json"), into: scene.destination, options: scene.options)
        for try await event in pull { if case .files(let files) = event { seen += files } }
        let done = seen.map(\.bytesDone)
        #expect(done == done.sorted() && Set(done).count > 2, "\(done)")
        #expect(seen.allSatisfy { $0.path == "large.bin" && $0.bytesTotal == 400_000 }, "\(seen)")
        #expect(tree.problems(in: scene.destination) == [])
    }
}
