import SyncEngine
import SyncModel
import SyncPlugins
import SyncTestKit
import SyncTransfer

/// One fault in one situation, over a whole pull: published set, server, engine, files on disk.
struct PullCase {
    let fault: MatrixFault
    let situation: Situation

    func run() async throws {
        let set = try publishedSet()
        let objects = Dictionary(uniqueKeysWithValues: set.objects(under: "/tower").map { ($0.path, $0.object) })
        let servers = try MatrixServers(fault, objects: objects) { !$0.hasSuffix("/manifest.json") }
        let place = try PullPlace(servers: servers, set: try relocated(set, servers), fault: fault)
        do { try await run(place) } catch {
            throw MatrixFailure("\(situation): \(error)\nThe server saw:\n\(servers.stage.server.log.description)")
        }
    }

    private func run(_ place: PullPlace) async throws {
        try place.prepare(situation)
        if situation.resume != .fresh { try await cutOff(place) }

        try place.servers.arm(fault)
        try fault.before(place.servers.stage)
        async let during: Void = fault.during(place.servers.stage)
        let ending = try await place.pull(isUnderFault: true)
        try await during
        try judge(ending, place)

        // Whatever happened, a clean pull now succeeds.
        try place.servers.disarm()
        guard case .report(let report) = try await place.pull(isUnderFault: false), report.result == .ok else {
            throw MatrixFailure("the clean pull did not succeed")
        }
        try place.requireWhole("after the clean pull")
    }

    /// An earlier pull that came to `situation.resume` and no further.
    private func cutOff(_ place: PullPlace) async throws {
        let resume = situation.resume
        try place.servers.arm(
            MatrixFault("The server goes away [F004]") { fault in
                fault.answer = { question in
                    let here = resume.here(of: question.bodyCount)
                    if resume == .atEnd { return question.good }
                    return question.nth == 1 ? question.good.dropping(at: here) : .status(404)
                }
            })
        try place.servers.trust()
        place.servers.mirrorIsDown = true
        let ending = try await place.pull(isUnderFault: false)
        place.servers.mirrorIsDown = false
        guard case .report(let report) = ending else { throw MatrixFailure("the earlier pull threw: \(ending)") }
        try require((report.result == .ok) == (resume == .atEnd), "the earlier pull ended \(report.result)")
        try place.requireNothingWrong("after the earlier pull")
    }

    private func judge(_ ending: PullRunner.Ending, _ place: PullPlace) throws {
        try place.requireNothingWrong("under the fault")
        // A loose file goes on at the byte it had. What is missing of a span is the engine's matter, so the row's
        // outcome is that of a fresh transfer; and what was kept can make a fault miss, where the truth of the
        // result is what counts.
        let seen = situation.shape == .loose ? situation : Situation(resume: .fresh, shape: .span)
        switch (ending, fault.outcome(seen)) {
        case (.report(let report), .delivered):
            try require(report.result == .ok, "ended \(report.result): \(place.reasons)")
            try place.requireWhole("although the result is ok")
        case (.report(let report), .fails) where report.result == .ok:
            try require(situation.resume != .fresh || fault.mayShowTooLate, "ended ok, expected a failure")
            try place.requireWhole("although the result is ok")
        case (.report(let report), .fails):
            try require(report.status != .done, "exit status 0 although \(report.result)")
            try require(report.files.failed > 0, "\(report.result), and no file is named as failed")
            try require(!place.reasons.isEmpty, "a failure without a reason")
        case (.refused(let error), .fails): try require(error.status != .done, "exit status 0 for \(error)")
        case (.refused(let error), .delivered): throw MatrixFailure("refused: \(error)")
        }
    }

    // MARK: The set

    /// The same bytes in a pack with neighbours that are here already, or alone.
    private func publishedSet() throws -> PublishedSet { try builder.build() }

    /// With mirrors, URLs are absolute and known only once the servers run.
    private func relocated(_ set: PublishedSet, _ servers: MatrixServers) throws -> PublishedSet {
        guard fault.hasMirror else { return set }
        var builder = builder
        builder.mirrors = [servers.stage.server.url("/tower/"), servers.stage.mirror.url("/tower/")]
        return try builder.build()
    }

    private var builder: ManifestBuilder {
        switch situation.shape {
        case .loose: return Self.loose
        case .span: return Self.span
        }
    }

    private static let loose: ManifestBuilder = {
        var tree = AssetTree()
        tree.addFile("video/flythrough.mp4", size: 160_000, seed: 21)
        var builder = ManifestBuilder(tree)
        builder.looseAbove = -1
        return builder
    }()

    private static let span: ManifestBuilder = {
        var tree = AssetTree.manySmall(12, largest: 9_000, seed: 22)
        tree.addFile("a-before", size: 30_000, seed: 23)
        tree.addFile("models/large.ifc", size: 60_000, seed: 24)
        tree.addFile("z-after", size: 30_000, seed: 25)
        var builder = ManifestBuilder(tree)
        builder.chunkSize = 32_768
        return builder
    }()
}
