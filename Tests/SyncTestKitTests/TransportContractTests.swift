import SyncPlugins
import SyncTestKit
import Synchronization
import Testing

@Suite("The transport contract finds transports that break it", .timeLimit(.minutes(10)))
struct TransportContractTests {
    /// Delivers from memory, and does one thing wrong.
    private final class BrokenTransport: Transport {
        enum Flaw: CaseIterable { case wrongByte, completesTwice, skipsBegin, bytesAfterEnd, gap, tellsWrongTotals }

        let flaw: Flaw
        let bytes = patternedBytes(size: 300_000, seed: 1)
        init(_ flaw: Flaw) { self.flaw = flaw }

        func start(
            _ request: TransferRequest, sink: any TransferSink,
            completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
        ) {
            let head = ResponseHead(status: 200, objectSize: 300_000)
            if flaw != .skipsBegin { _ = sink.begin(head) }
            var body = bytes
            if flaw == .wrongByte { body[777] ^= 1 }
            body.withUnsafeBytes { _ = sink.receive(UnsafeRawBufferPointer(rebasing: $0[..<1_000]), at: 0) }
            let next = flaw == .gap ? 1_001 : 1_000
            body.withUnsafeBytes { _ = sink.receive(UnsafeRawBufferPointer(rebasing: $0[next...]), at: UInt64(next)) }
            let told: UInt64 = flaw == .tellsWrongTotals ? 1 : 300_000
            let report = TransferReport(
                response: head, sourceIndex: 0, currentURL: request.urls.first ?? "", requests: 1, bytesReceived: told)
            completion(.success(report))
            if flaw == .completesTwice { completion(.success(report)) }
            if flaw == .bytesAfterEnd { body.withUnsafeBytes { _ = sink.receive($0, at: 300_000) } }
        }

        func resume(_ id: TransferID) {}
        func cancel(_ id: TransferID) {}
        func reportFault(url: String, reason: String) {}
        var totals: TransferTotals { TransferTotals() }
        func shutdown() {}
    }

    @Test("Each flaw breaks the first rule", arguments: BrokenTransport.Flaw.allCases)
    private func flaw(_ flaw: BrokenTransport.Flaw) async throws {
        let rule = try #require(TransportContract.cases.first)
        await #expect(throws: TestKitError.self) { try await rule.check { BrokenTransport(flaw) } }
    }

    @Test("Rules have names of their own")
    func names() {
        let names = TransportContract.cases.map(\.description)
        #expect(Set(names).count == names.count)
        #expect(names.count >= 24)
    }
}
