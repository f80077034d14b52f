import Foundation
import SyncFiles
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncEngine

/// Has transfers, as it says, and fetches nothing.
private struct ListingTransport: Transport {
    var transfers: [RequestStatus]
    var more = 0

    func start(
        _ request: TransferRequest, sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) { completion(.failure(TransferError(code: .misuse, url: "", detail: "nothing is fetched"))) }

    func resume(_ id: TransferID) {}
    func cancel(_ id: TransferID) {}
    func reportFault(url: String, reason: String) {}
    var totals: TransferTotals { TransferTotals() }
    func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        (Array(transfers.prefix(limit)), more + max(0, transfers.count - limit))
    }
    func shutdown() {}
}

@Suite("What a run records of its present state", .timeLimit(.minutes(10)))
struct LiveRunTests {
    private func status(_ id: UInt64, _ state: RequestState, received: UInt64 = 0) -> RequestStatus {
        var status = RequestStatus(
            transfer: id, original: "x://\(id)", source: "x:", attempts: 1,
            since: WallTime(milliseconds: 1_779_999_998_765))
        (status.state, status.received) = (state, received)
        return status
    }

    @Test("Transfers of local files are listed among the others, what is read first, what waits for it last [S161]")
    func localTransfers() throws {
        let scene = try Scene(isDurable: true)
        let recorded = Monitor<[UInt8]?>(nil)
        let local = [status(3, .receiving, received: 7), status(4, .queued)]
        var environment = EngineEnvironment(
            transport: ListingTransport(transfers: [status(1, .receiving), status(2, .waiting)], more: 5),
            localTransport: ListingTransport(transfers: local), now: { 1_780_000_000_000 }, random: { 42 }, workers: 1,
            process: 1, store: scene.store, stateDirectory: scene.root.path("state"), events: EventRecorder())
        environment.requests = { json in recorded.change { $0 = $0 ?? json } }
        _ = try scene.store.lease(of: "s", process: 1, now: 1)
        environment.live.open(run: "r", session: "s", epoch: nil, environment)
        let json = recorded.wait { $0 }
        environment.live.close()
        let object = try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any]
        let requests = try #require(object?["requests"] as? [[String: Any]])
        #expect(requests.map { $0["transfer"] as? Int } == [3, 1, 2, 4])
        #expect(requests.allSatisfy { $0["since"] as? String == timestamp(milliseconds: 1_779_999_998_000) })
        #expect(requests[0]["received"] as? Int == 7 && object?["more"] as? Int == 5)
    }
}
