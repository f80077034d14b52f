import Glibc
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("The credentials file", .timeLimit(.minutes(10)))
struct CredentialsTests {
    static let good = """
        # who we are
        [https://files.example]
        type = basic
        user = alice
        password = a = b # c

        [https://files.example:8443]
          type=bearer
        token =  t0k3n\t
        [http://127.0.0.1:9000]
        type = sigv4
        access-key = AK
        secret-key = SK
        region = eu-central-1
        """

    @Test("Sections are for exactly one origin [V31]")
    func sections() throws {
        let credentials = try Credentials.parse(Self.good)
        func kind(_ url: String) throws -> Credential.Kind? { credentials[try CurlURL(url).origin] }
        #expect(try kind("https://FILES.example:443/x") == .basic(user: "alice", password: "a = b # c"))
        #expect(try kind("https://files.example:8443/") == .bearer(token: "t0k3n"))
        #expect(
            try kind("http://127.0.0.1:9000/")
                == .sigV4(accessKey: "AK", secretKey: "SK", sessionToken: nil, region: "eu-central-1", service: "s3"))
        for url in [
            "http://files.example/", "https://files.example./", "https://sub.files.example/",
            "https://files.example:444/",
        ] { #expect(try kind(url) == nil) }
    }

    @Test("Line ends of any system do")
    func lineEnds() throws {
        let text = Self.good.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\r\n")
        #expect(try Credentials.parse(text) == Credentials.parse(Self.good))
    }

    @Test(
        "Refused with the line, and without the value",
        arguments: [
            ("type = basic", "line 1"), ("[https://a.example]\nuser = SECRET", "lacks type"),
            ("[https://a.example]\ntype = basic\nuser = u", "lacks password"),
            ("[https://a.example]\ntype = basic\nuser = u:v\npassword = p", "no colon"),
            ("[https://a.example]\ntype = bearer\ntoken = SECRET\nuser = u", "user does not belong"),
            ("[https://a.example]\ntype = digest", "the type is"), ("[https://a.example]\nSECRET", "line 2"),
            ("[https://a.example]\ntype = bearer\ntoken = SECRET\ntoken = SECRET", "line 4: token appears twice"),
            ("[https://a.example]\ntype = bearer\ntoken =", "line 3: token has no value"),
            ("[https://a.example]\npasword = SECRET", "line 2: unknown name pasword"),
            (
                "[https://a.example]\ntype = bearer\ntoken = SECRET\n[https://a.example:443]\ntype = bearer\ntoken = SECRET",
                "twice"
            ), ("[a.example]", "not an origin"), ("[https://a.example/path]", "not an origin"),
            ("[https://a.example/]", "not an origin"), ("[https://u:SECRET@a.example]", "not an origin"),
            ("[ftp://a.example]", "not an origin"),
            ("[https://a.example]\ntype = bearer\ntoken = SEC\u{1}RET", "control"),
        ])
    func refused(text: String, message: String) {
        let error = #expect(throws: Credentials.Refusal.self) { try Credentials.parse(text) }
        #expect(error?.description.contains(message) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("SEC") == false)
    }

    @Test("A file that others may read is refused, with the remedy", arguments: [0o644, 0o640, 0o604, 0o660])
    func mode(mode: Int) throws {
        let root = try TemporaryRoot()
        try root.write(Self.good, to: "credentials")
        #expect(chmod(root.path("credentials"), mode_t(mode)) == 0)
        let error = #expect(throws: Credentials.Refusal.self) {
            try Credentials.read(path: root.path("credentials"))
        }
        #expect(error?.description.contains("chmod 600") == true)
        #expect(chmod(root.path("credentials"), 0o600) == 0)
        #expect(try Credentials.read(path: root.path("credentials")) == Credentials.parse(Self.good))
        #expect(throws: Credentials.Refusal.self) { try Credentials.read(path: root.path("none")) }
        #expect(throws: Credentials.Refusal.self) { try Credentials.read(path: root.path) }
    }

    @Test("No description holds a secret [V64]")
    func description() throws {
        let credentials = try Credentials.parse(Self.good)
        var text = "\(credentials) \(String(reflecting: credentials))"
        dump(credentials, to: &text)
        #expect(text.contains("https://files.example"))
        for secret in ["alice", "a = b", "t0k3n", "SK", "AK"] { #expect(!text.contains(secret)) }
    }
}
