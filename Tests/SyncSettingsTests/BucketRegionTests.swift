import SyncModel
import SyncPlugins
import SyncRemotes
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
        func reportFault(url: String, reason: String) {}
        var totals: TransferTotals { TransferTotals() }
        func shutdown() {}
    }

    private final class Nowhere: TransferSink {
        func begin(_ response: ResponseHead) -> UInt64 { 0 }
        func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome { .taken }
    }

    private static func fetch(_ url: String, over transport: BucketTransport, _ number: UInt64) async -> Bool {
        if case .success = await result(of: url, over: transport, number) { true } else { false }
    }

    private static func result(of url: String, over transport: BucketTransport, _ number: UInt64) async
        -> Result<TransferReport, TransferError>
    {
        let request = TransferRequest(id: TransferID(rawValue: number), urls: [url], limit: 10)
        return await withCheckedContinuation { done in
            transport.start(request, sink: Nowhere()) { done.resume(returning: $0) }
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
        // While nobody gives keys it is as if it were out of reach; what is missing still is.
        let closed = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/keys"]
        let keys = BucketKeys(
            places: places,
            credentials: AWSCredentials(try AWSEnvironment(home: nil) { closed[$0] }, isStopped: { false }))
        #expect(throws: PluginError.self) {
            try keys.credential(for: CredentialRequest(origin: "https://assets.s3.us-east-1.amazonaws.com"))
        }
        guard case .failure(let error) = await Self.result(of: "s3://assets/x", over: refusing, 5) else {
            Issue.record("it was not refused")
            return
        }
        #expect(error.code == .unreachable && error.detail.contains("does not answer"), "\(error)")
        let missing = BucketTransport(OneHost("nowhere", refusal: .badStatus(404)), places)
        #expect(await !Self.fetch("s3://others/x", over: missing, 4))
        #expect(questions.withLock(\.self) == 1)
    }

    @Test("What is remembered of a published set is found again however its URL is written")
    func identity() {
        let plain = HostEnvironment(base: PathBase(directory: "/", home: nil), variables: [:])
        func name(_ url: String, _ host: HostEnvironment? = nil) -> String {
            Homes.identity(of: url, on: host ?? plain)
        }
        let maps = name("s3://assets/maps")
        for url in ["s3://assets/maps/", "s3://assets//maps", "s3://assets/maps?region=eu-test-1"] {
            #expect(name(url) == maps, "\(url)")
        }
        let other = name("s3://assets/maps?endpoint=http://127.0.0.1:9000")
        #expect(other != maps && name("s3://assets/maps/?endpoint=http://127.0.0.1:9000/") == other)
        let configured = HostEnvironment(
            base: plain.base, variables: [:], lookup: { $0 == "AWS_ENDPOINT_URL" ? "http://127.0.0.1:9000" : nil })
        #expect(name("s3://assets/maps", configured) == other && name("s3://assets/tiles") != maps)
        #expect(name("oci://Registry.example.com/acme/maps") == name("oci://registry.example.com/acme/maps:latest"))
        #expect(name("site") == "site")
    }
}
