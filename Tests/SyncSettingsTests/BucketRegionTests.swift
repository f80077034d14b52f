import SyncModel
import SyncPlugins
import SyncS3
import Synchronization
import Testing

@testable import SyncAssembly

@Suite("A bucket in another region")
struct BucketRegionTests {
    /// Answers from one host only, and notes what it was asked for.
    private final class OneHost: Transport {
        let asked = Mutex<[String]>([])
        private let host: String
        private let refusal: TransferError.Code

        init(_ host: String, refusal: TransferError.Code) { (self.host, self.refusal) = (host, refusal) }

        func start(
            _ request: TransferRequest, sink: any TransferSink,
            completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
        ) {
            let url = request.urls[0]
            asked.withLock { $0.append(url) }
            guard url.contains(host) else {
                return completion(.failure(TransferError(code: refusal, url: url, detail: "elsewhere")))
            }
            let head = ResponseHead(status: 200, bodyOffset: 0, objectSize: 0)
            completion(
                .success(
                    TransferReport(response: head, sourceIndex: 0, currentURL: url, requests: 1, bytesReceived: 0)))
        }

        func resume(_ id: TransferID) {}
        func cancel(_ id: TransferID) {}
        func blame(url: String, reason: String) {}
        var totals: TransferTotals { TransferTotals() }
        func shutdown() {}
    }

    private final class Nowhere: TransferSink {
        func begin(_ response: ResponseHead) -> UInt64 { 0 }
        func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome { .taken }
    }

    private static func fetch(_ url: String, over transport: BucketTransport, _ number: UInt64) async -> Bool {
        let request = TransferRequest(id: TransferID(rawValue: number), urls: [url], limit: 10)
        return await withCheckedContinuation { done in
            transport.start(request, sink: Nowhere()) { result in
                if case .success = result { done.resume(returning: true) } else { done.resume(returning: false) }
            }
        }
    }

    @Test(
        "It is asked once where it is, and what was refused is fetched there",
        arguments: [TransferError.Code.badStatus(301), .badStatus(400), .authentication, .redirectRefused])
    func found(refusal: TransferError.Code) async throws {
        let questions = Mutex(0)
        let places = BucketPlaces(try AWSEnvironment(home: nil) { _ in nil }) { place in
            questions.withLock { $0 += 1 }
            return place.region == "eu-test-1" ? nil : "eu-test-1"
        }
        let host = OneHost("s3.eu-test-1.amazonaws.com", refusal: refusal)
        let transport = BucketTransport(host, places)
        for number in 0..<3 { #expect(await Self.fetch("s3://assets/\(number)", over: transport, UInt64(number))) }
        transport.shutdown()
        #expect(questions.withLock(\.self) == 1)
        #expect(
            host.asked.withLock(\.self) == ["https://assets.s3.us-east-1.amazonaws.com/0"]
                + (0..<3).map { "https://assets.s3.eu-test-1.amazonaws.com/\($0)" })
    }

    @Test(
        "One that says nothing, or is where it was looked for, is refused as before; nobody is asked about what is missing"
    )
    func refused() async throws {
        let questions = Mutex(0)
        let places = BucketPlaces(try AWSEnvironment(home: nil) { _ in nil }) { _ in
            questions.withLock { $0 += 1 }
            return nil
        }
        let refusing = BucketTransport(OneHost("nowhere", refusal: .authentication), places)
        for number in 0..<3 { #expect(await !Self.fetch("s3://assets/x", over: refusing, UInt64(number))) }
        #expect(questions.withLock(\.self) == 1)
        let missing = BucketTransport(OneHost("nowhere", refusal: .badStatus(404)), places)
        #expect(await !Self.fetch("s3://others/x", over: missing, 4))
        #expect(questions.withLock(\.self) == 1)
    }
}
