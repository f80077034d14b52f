import SyncEngine
import SyncModel
import SyncTestKit
import SyncTransfer
import Testing

/// Each row of the catalogue on the request for the manifest: all or nothing, and what was there stays.
///
/// Rows that change bytes and keep the length are left out: a manifest has no digest to be held against.
@Suite("Every fault of servers and networks, on the manifest", .timeLimit(.minutes(10)))
struct ManifestFaultTests {
    private static let faults = MatrixFault.all.filter { fault in
        !["Wrong bytes of the right length", "Another version", "The pack", "A pack", "A bad source"].contains {
            fault.name.hasPrefix($0)
        }
    }

    @Test("Each fault on the manifest ends a pull as its row says [F044]", arguments: faults)
    func fault(_ fault: MatrixFault) async {
        // To a conditional request 304 is an answer like any other.
        let cases = fault.name.hasPrefix("304") ? [false] : [false, true]
        await RowGate.shared.pass(fault, through: cases) { hasOldTree in
            do { try await ManifestCase(fault: fault, hasOldTree: hasOldTree).run() } catch {
                throw MatrixFailure("\(hasOldTree ? "over an old tree" : "fresh"): \(error)")
            }
        }
    }
}

/// One fault on the manifest of a set's second revision.
private struct ManifestCase {
    let fault: MatrixFault
    let hasOldTree: Bool

    private static func builder(_ revision: Int) -> ManifestBuilder {
        var tree = AssetTree.manySmall(6, seed: UInt64(revision))
        tree.addFile("kept", size: 5_000, seed: 1)
        var builder = ManifestBuilder(tree)
        builder.revision = revision
        return builder
    }

    func run() async throws {
        let (old, new) = (try Self.builder(1).build(), try Self.builder(2).build())
        let objects = (old.objects(under: "/tower") + new.objects(under: "/tower")).map { ($0.path, $0.object) }
        let servers = try MatrixServers(fault, objects: Dictionary(objects) { _, new in new }) {
            $0.hasSuffix("/manifest.json")
        }
        let place = try PullPlace(servers: servers, set: new, fault: fault)
        if hasOldTree {
            try servers.disarm()
            servers.replace("/tower/manifest.json", with: ServedObject(old.manifest))
            guard case .report(let report) = try await place.pull(isUnderFault: false), report.result == .ok else {
                throw MatrixFailure("the pull of the old set did not succeed")
            }
            servers.replace("/tower/manifest.json", with: ServedObject(new.manifest))
        }
        try servers.arm(fault)
        try fault.before(servers.stage)
        async let during: Void = fault.during(servers.stage)
        let ending = try await place.pull(isUnderFault: true)
        try await during
        switch ending {
        case .report(let report):
            try require(report.result == .ok, "ended \(report.result): \(place.reasons)")
            try place.requireWhole("although the result is ok")
        case .refused(let error):
            try require(error.status != .done, "exit status 0 for \(error)")
            try require(error.message.count > 20, "refused without a reason: \(error)")
            let found = AssetTree.read(place.destination)
            try require(found.nodes == (hasOldTree ? old.tree.nodes : [:]), "the old tree was touched")
        }
        try servers.disarm()
        guard case .report(let report) = try await place.pull(isUnderFault: false), report.result == .ok else {
            throw MatrixFailure("the clean pull did not succeed")
        }
        try place.requireWhole("after the clean pull")
    }
}
