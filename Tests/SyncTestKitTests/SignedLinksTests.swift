import SyncTestKit
import Testing

@Suite("Signed links expire as told", .timeLimit(.minutes(10)))
struct SignedLinksTests {
    private func serverAsking(_ links: SignedLinks) throws -> FaultServer {
        let server = try FaultServer()
        server.respond(to: "/a") { request in links.admit(request) { .status(200, text: "in") } }
        return server
    }

    @Test("A link admits so many requests, forged ones none")
    func uses() throws {
        let links = SignedLinks(uses: 2)
        let server = try serverAsking(links)
        let target = links.sign("/a")
        #expect((0..<3).map { _ in RawAnswer(port: server.port, target)?.status } == [200, 200, 403])
        #expect(RawAnswer(port: server.port, links.sign("/a"))?.status == 200)
        #expect(RawAnswer(port: server.port, "/a")?.status == 403)
        #expect(RawAnswer(port: server.port, "/a?X-Amz-Signature=test-99")?.status == 403)
        #expect(links.issued == 2)
    }
}
