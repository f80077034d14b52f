import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTransfer

/// Finds out where the requests of a plan go: asks for the first byte of one object of each place.
struct RouteProbe: Sendable {
    let sources: [PlanReport.Source]
    /// Who names them; `nil` for a manifest of this machine.
    let referrer: TransferRequest.Referrer?
    let tuning: EngineTuning

    /// Places that are asked at most; a manifest can name thousands.
    static let limit = 64

    /// Blocks a thread of its own until every place has answered, or failed.
    ///
    /// - Throws: ``CommandFailure`` with status 78; `CancellationError` when it is stopped.
    func run() async throws -> [PlannedRoute] {
        try await onThread("routes", cancellable: { flag in try probe { flag.isSet } })
    }

    private func probe(_ isCancelled: () -> Bool) throws -> [PlannedRoute] {
        let hops = Mutex<[TransferID: [PlannedRoute.Hop]]>([:])
        var configuration = try EngineAssembly.configuration(tuning) { event in
            guard let (id, hop) = PlannedRoute.Hop.made(of: event) else { return }
            hops.withLock { $0[id, default: []].append(hop) }
        }
        // One look each: what fails now is told, and soon.
        configuration.retry.attempts = 1
        configuration.patience = Patience(.seconds(5))
        let transport = try EngineAssembly.transport(configuration)
        defer { transport.shutdown() }

        var routes: [PlannedRoute] = []
        let ends = Mutex<[TransferID: PlannedRoute.Answer]>([:])
        let ended = DispatchSemaphore(value: 0)
        var asked: [TransferID] = []
        for (index, source) in sources.enumerated() {
            let explanation = try? configuration.explain(source.example.url)  // None for a local file.
            routes.append(PlannedRoute(source: source, explanation: explanation))
            guard explanation != nil, asked.count < Self.limit else { continue }
            let id = TransferID(rawValue: UInt64(index))
            asked.append(id)
            let request = TransferRequest(
                id: id,
                urls: [source.example.url],
                range: source.example.size > 0 ? 0..<1 : nil,
                objectSize: source.example.size,
                limit: 1,
                referrer: referrer
            )
            transport.start(request, sink: FirstByte()) { result in
                ends.withLock { $0[id] = PlannedRoute.Answer(result) }
                ended.signal()
            }
        }
        for _ in asked {
            while ended.wait(timeout: .now() + .milliseconds(200)) == .timedOut {
                if isCancelled() { throw CancellationError() }
            }
        }
        for id in asked {
            let index = Int(id.rawValue)
            routes[index].hops = hops.withLock { $0[id] ?? [] }
            routes[index].answer = ends.withLock { $0[id] }
        }
        return routes
    }
}

/// Takes a byte and forgets it.
private final class FirstByte: TransferSink {
    func begin(_ response: ResponseHead) -> UInt64 { 0 }
    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome { .taken }
}
