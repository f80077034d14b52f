import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("What is advised about a server that is not trusted", .timeLimit(.minutes(5)))
struct TrustAdviceTests {
    private let object = ServedObject.patterned(size: 1_000)

    /// What a client that trusts one authority says of a server that shows a certificate.
    private func told(_ certificate: (TestAuthority) throws -> ServerTLS) async throws -> String {
        let authority = try TestAuthority()
        let root = try TemporaryRoot()
        try root.write(authority.certificate, to: "ca.pem")
        let server = try FaultServer(tls: try certificate(authority))
        server.serve(object, at: "/a")
        let bench = try Bench(server: server) { $0.tls.authorities = root.path("ca.pem") }
        return "\(try await bench.failure(bench.start(object)))"
    }

    @Test("Each fault of a certificate has its own advice [F055]")
    func certificates() async throws {
        let stranger = try TestAuthority()
        #expect(try await told { _ in ServerTLS(try stranger.issue()) }.hasSuffix("; nameAuthority"))
        #expect(try await told { ServerTLS(try $0.issue(.expired)) }.hasSuffix("; renewCertificate"))
        #expect(try await told { ServerTLS(try $0.issue(.notYetValid)) }.hasSuffix("; checkClock"))
        let old = try await told {
            var tls = ServerTLS(try $0.issue())
            tls.isOnlyTLS10 = true
            return tls
        }
        #expect(old.hasSuffix("; checkTLSVersion"), "\(old)")
        // The name says what is wrong.
        let other = try await told { ServerTLS(try $0.issue(.wrongName)) }
        #expect(TransferAdvice.allCases.allSatisfy { !other.hasSuffix("; \($0)") })
    }

    @Test("A TLS alert in answer to plain HTTP is recognised")
    func alert() async throws {
        let bench = try Bench()
        // protocol_version, RFC 8446 §6.
        bench.server.script("/a", .raw("\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}\u{46}"))
        #expect("\(try await bench.failure(bench.start(object)))".hasSuffix("; isTLS"))
    }
}
