import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem
import Testing

@testable import SyncEngine

@Suite("What a cache asks a registry for", .timeLimit(.minutes(10)))
struct RegistryTransportTests {
    private static let endpoint = "https://registry.test"

    private let inner = MemoryTransport()
    private let address: RegistryAddress
    private let document = Array("a manifest".utf8)
    private let digest: SHA256Digest
    private let manifestURL, blobURL: String

    init() throws {
        address = try RegistryAddress("oci://registry.test/acme/maps:v1")
        digest = try sha256(document)
        manifestURL = address.manifestURL(Self.endpoint, "v1")
        blobURL = "\(address.blobPrefix(Self.endpoint))sha256:\(digest)"
        let layer = RegistryRelease.Layer(
            path: RegistryRelease.manifestPath, digest: digest, size: UInt64(document.count))
        let release = RegistryRelease(
            project: "com.example.maps", revision: 1, created: nil, manifest: digest, layers: [layer])
        inner.serve(release.json, at: manifestURL)
        inner.serve(document, at: blobURL)
    }

    private func transport(_ access: RegistryAccess = RegistryAccess()) -> RegistryTransport {
        RegistryTransport(inner, address, access)
    }

    /// Brings a file, and waits for it.
    private func fetch(_ path: String, _ transport: RegistryTransport, knowing known: Validator? = nil)
        -> (result: Result<TransferReport, TransferError>, bytes: [UInt8])
    {
        let request = TransferRequest(
            id: .next(), urls: [transport.base + path], limit: 1 << 20, knownValidator: known)
        let sink = MemorySink(limit: 1 << 20)
        let outcome = Monitor<Result<TransferReport, TransferError>?>(nil)
        transport.start(request, sink: sink) { result in outcome.change { $0 = result } }
        return (outcome.wait(until: { $0 }), sink.bytes)
    }

    private func error(_ result: Result<TransferReport, TransferError>) -> TransferError? {
        if case .failure(let error) = result { error } else { nil }
    }

    @Test("Where tokens cannot be had for now nobody has refused anything: what was fetched before may be shown")
    func passingTrouble() {
        var access = RegistryAccess()
        access.trouble = { _ in (reason: "no token: status 503", isPassing: true) }
        inner.script(manifestURL, .fail(.authentication))
        let first = error(fetch("manifest.json.zst", transport(access)).result)
        #expect(first?.code == .unreachable && first?.status == nil && first?.detail == "no token: status 503")
        // A blob is asked for by itself, and a pack without the tag once the registry has answered.
        inner.script(blobURL, .fail(.authentication))
        let asked = transport(access)
        #expect(error(fetch("manifest.json.zst", asked).result)?.code == .unreachable)
        inner.script(blobURL, .fail(.authentication))
        #expect(error(fetch("packs/\(digest).pack", asked).result)?.code == .unreachable)
        // Any other failure has its own words.
        inner.script(manifestURL, .fail(.timedOut))
        let late = error(fetch("manifest.json.zst", asked).result)
        #expect(late?.code == .timedOut && late?.detail == "timedOut")
    }

    @Test("A login that the registry refuses is a refusal, with the registry's reason")
    func refusal() {
        var access = RegistryAccess()
        access.trouble = { _ in (reason: "it refuses the login", isPassing: false) }
        inner.script(manifestURL, .fail(.authentication))
        let refused = error(fetch("manifest.json.zst", transport(access)).result)
        #expect(refused?.code == .authentication && refused?.detail == "it refuses the login")
    }

    @Test("All of a blob must be what its digest says; then that is its version, and it is not asked for again")
    func proof() throws {
        let transport = transport()
        let first = fetch("manifest.json.zst", transport)
        #expect(first.bytes == document)
        let validator = try first.result.get().response.validator
        #expect(validator == Validator(etag: "\"sha256:\(digest)\""))
        inner.forget()
        let again = fetch("manifest.json.zst", transport, knowing: validator)
        #expect(try again.result.get().response.status == 304)
        #expect(inner.asked.map(\.url) == [manifestURL])
        inner.script(blobURL, .bytes(Array("another text".utf8)))
        #expect(error(fetch("manifest.json.zst", transport).result)?.code == .badAnswer)
        // It was wrong once.
        #expect(fetch("manifest.json.zst", transport).bytes == document)
    }

    @Test("Under a tag that has an image now there is no set any more; what is no manifest says nothing of the tag")
    func image() {
        let type = "application/vnd.oci.image.layer.v1.tar+gzip"
        let layer = #"{"mediaType":"\#(type)","digest":"sha256:\#(digest)","size":7}"#
        let answers: [(String, Int?, FailureCause)] = [
            (#"{"schemaVersion":2,"layers":[\#(layer)]}"#, 404, .badManifest),
            (#"{"schemaVersion":2,"manifests":[]}"#, 404, .badManifest),
            (#"{"errors":[]}"#, nil, .wrongBytes), ("<html>", nil, .wrongBytes),
        ]
        for (text, status, cause) in answers {
            inner.script(manifestURL, .bytes(Array(text.utf8)))
            let failure = error(fetch("manifest.json.zst", transport()).result)
            #expect(failure?.code.status == status && failure?.cause == cause, "\(text)")
        }
    }
}
