import Testing

@testable import SyncServer

@Suite(.timeLimit(.minutes(10)))
struct HTTPMessageTests {
    @Test("Field names have no case; several lines are one value")
    func fields() {
        var fields: HTTPFields = ["Content-Type".name: "a", "X".name: "1"]
        fields.append("x".name, "2")
        #expect(fields["CONTENT-TYPE".name] == "a")
        #expect(fields["x".name] == "1, 2")
        #expect(fields["Content-Typ".name] == nil && fields["y".name] == nil)
        fields["X".name] = nil
        #expect(fields["x".name] == nil)
        fields["content-type".name] = "b"
        #expect(fields["Content-Type".name] == "b")
    }

    @Test(
        "The path is the target without host, query and fragment",
        arguments: [
            ("/a/b", "/a/b"), ("/a?x=/c", "/a"), ("/a%3Fb#c", "/a%3Fb"), ("http://host:1/a?b", "/a"),
            ("http://host", "/"), ("http://host?x", "/"), ("*", "*"), ("", ""), ("/a://b", "/a://b"),
        ])
    func paths(target: String, path: String) {
        let request = HTTPRequest(
            method: "GET", target: target, headers: [:], body: [], client: "-", peerUser: nil)
        #expect(request.path == path)
    }
}

extension String { var name: HTTPFields.Name { HTTPFields.Name(self) } }
