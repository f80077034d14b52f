import SyncEngine
import SyncModel
import SyncTestKit
import SyncTransfer
import Synchronization
import Testing

/// Faults of the catalogue that are no answer to one request.
@Suite("Faults over whole pulls", .timeLimit(.minutes(10)))
struct PullScenarioTests {
    private static func published(_ revision: Int) throws -> PublishedSet {
        var tree = AssetTree.manySmall(40, largest: 9_000, seed: UInt64(revision) * 1_000)
        tree.addFile("empty", size: 0, seed: 0)
        tree.addFile("large", size: 400_000, seed: UInt64(revision))
        var builder = ManifestBuilder(tree)
        builder.revision = revision
        builder.chunkSize = 65_536
        return try builder.build()
    }

    @Test("Empty files are made without a request [F040]")
    func empty() async throws {
        var tree = AssetTree()
        for name in ["a", "b/c"] { tree.addFile(name, size: 0, seed: 0) }
        var builder = ManifestBuilder(tree)
        builder.looseAbove = -1
        let set = try builder.build()
        let server = try FaultServer()
        set.mount(on: server)
        let runner = try PullRunner()
        try await runner.pullWhole(tree, server.url("/tower/manifest.json"))
        #expect(server.log.entries.allSatisfy { $0.request.path.contains("manifest.json") })
    }

    @Test("A manifest that changes while a pull runs belongs to the next pull [F045]", arguments: [true, false])
    func changes(keepsOldPacks: Bool) async throws {
        let (old, new) = (try Self.published(1), try Self.published(2))
        let server = try FaultServer()
        let isNew = Atomic(false)
        let objects = Dictionary((old.objects(under: "") + new.objects(under: "")).map { ($0.path, $0.object) }) {
            first, _ in first
        }
        let oldPacks = Set(old.packs.map { "/" + $0.name })
        server.respondToOthers { request in
            let path = request.path
            if path == "/manifest.json" {
                let set = isNew.load(ordering: .acquiring) ? new : old
                return .object(ServedObject(set.manifest))
            }
            guard let object = objects[path] else { return .status(404) }
            let wasNew = isNew.exchange(true, ordering: .acquiringAndReleasing)
            if oldPacks.contains(path), !keepsOldPacks, wasNew { return .status(404) }
            return FaultAnswer.object(object).dropping(at: 100_000)
        }
        let runner = try PullRunner()
        let ending = try await runner.pull(server.url("/manifest.json"))
        guard case .report(let report) = ending else { throw MatrixFailure("refused: \(ending)") }
        #expect((report.result == .ok) == keepsOldPacks)
        #expect(old.tree.problems(in: runner.destination, partial: !keepsOldPacks) == [])

        for object in new.packs { server.serve(ServedObject(object.bytes), at: "/" + object.name) }
        guard case .report(let second) = try await runner.pull(server.url("/manifest.json")) else {
            throw MatrixFailure("the next pull was refused")
        }
        #expect(second.result == .ok)
        let found = AssetTree.read(runner.destination)
        #expect(new.tree.paths.allSatisfy { found.nodes[$0] == new.tree.nodes[$0] })
    }

    /// What stands in place of a manifest.
    enum Instead: String, CaseIterable {
        case missing, gone, forbidden, page, cut, empty, otherProject, binary

        var answer: FaultAnswer {
            switch self {
            case .missing: .status(404)
            case .gone: .status(410)
            case .forbidden: .status(403)
            case .page: .captivePortal()
            case .cut: .status(200, text: "{\"format\":\"syncagent-manifest/1\",\"project\":\"com.exa")
            case .empty: .status(200)
            case .otherProject:
                .status(200, text: #"{"format":"syncagent-manifest/1","project":"com.example.other","files":[]}"#)
            case .binary: .status(200, text: String(repeating: "\u{1}\u{0}", count: 500))
            }
        }

        var status: SyncModel.ExitStatus {
            switch self {
            case .missing, .gone: .noInput
            case .forbidden: .refused
            case .cut, .empty, .binary, .page: .dataInvalid
            case .otherProject: .cannotCreate
            }
        }
    }

    @Test(
        "Without a good manifest nothing is touched, and the reason names the URL [F044 F030]",
        arguments: Instead.allCases)
    func noManifest(instead: Instead) async throws {
        let set = try Self.published(1)
        let server = try FaultServer()
        set.mount(on: server)
        let runner = try PullRunner()
        let manifest = server.url("/tower/manifest.json")
        try await runner.pullWhole(set.tree, manifest)
        server.script("/tower/manifest.json", instead.answer)
        guard case .refused(let error) = try await runner.pull(manifest) else {
            throw MatrixFailure("\(instead) was taken for a manifest")
        }
        #expect(error.status == instead.status, "\(error.message)")
        #expect(
            instead == .otherProject || error.message.contains("127.0.0.1:\(server.port)/tower"), "\(error.message)")
        #expect(set.tree.problems(in: runner.destination) == [])
        set.mount(on: server)
        try await runner.pullWhole(set.tree, manifest)
    }
}
