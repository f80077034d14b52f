import Foundation
import SyncModel
import SyncTestKit
import Synchronization
import Testing

@testable import SyncRemotes

@Suite("Keys of AWS")
struct AWSCredentialsTests {
    private let root: TemporaryRoot
    private static let now: Int64 = 1_795_000_000

    init() throws {
        root = try TemporaryRoot()
        try FileManager.default.createDirectory(atPath: root.path(".aws"), withIntermediateDirectories: true)
    }

    private func write(_ text: String, _ name: String, mode: Int = 0o600) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: root.path(name)))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: root.path(name))
    }

    private func keys(_ variables: [String: String], now: Int64 = now) throws -> AWSKeys? {
        var all = variables
        all["AWS_EC2_METADATA_DISABLED"] = "true"
        let environment = try AWSEnvironment(home: root.path, variables: all) { [all] in all[$0] }
        return try AWSCredentials(environment, isStopped: { false }).keys(now: now)
    }

    private func reason(_ variables: [String: String]) -> String {
        do { _ = try keys(variables) } catch { return (error as? S3Fault)?.reason ?? "\(error)" }
        return ""
    }

    @Test("A command line has words as a shell reads them")
    func words() {
        #expect(AWSCredentials.words("a  b\tc") == ["a", "b", "c"])
        #expect(AWSCredentials.words("\"/a b/c\" --x 'y \"z' '' \\ d") == ["/a b/c", "--x", "y \"z", "", " d"])
        #expect(AWSCredentials.words("\"a\\\"b\\n\"c'd'") == ["a\"b\\ncd"])
        #expect(AWSCredentials.words("a 'b") == nil && AWSCredentials.words("a \\") == nil)
        #expect(AWSCredentials.words("") == [])
    }

    @Test("A profile's program gives keys, and what it says when it does not is told")
    func program() throws {
        try write(
            """
            #!/bin/sh
            [ "$1" = "two words" ] || { echo "nobody is logged in" >&2; exit 3; }
            printf '{"Version": 1, "AccessKeyId": "%s", "SecretAccessKey": "s", "SessionToken": "t",' "$SHOWN"
            printf ' "Expiration": "2026-11-27T00:00:00Z"}'
            """, "give", mode: 0o700)
        try write(
            """
            [profile night]
            credential_process = '\(root.path("give"))' "two words"
            [profile other]
            credential_process = \(root.path("give"))
            [profile none]
            credential_process = /nowhere/at-all
            [profile open]
            credential_process = give 'x
            """, ".aws/config")
        let found = try #require(try keys(["AWS_PROFILE": "night", "SHOWN": "A"]))
        #expect(found.access == "A" && found.secret == "s" && found.session == "t")
        #expect(found.expires == 1_795_737_600)
        #expect(reason(["AWS_PROFILE": "other"]).hasSuffix("it exited with status 3: nobody is logged in"))
        #expect(reason(["AWS_PROFILE": "none"]).contains("there is no program /nowhere/at-all"))
        #expect(reason(["AWS_PROFILE": "open"]).contains("not a command line"))
    }

    @Test("An endpoint stands in the profile, or for S3 alone in the services that it names; variables come first")
    func endpoints() throws {
        try write(
            """
            [default]
            endpoint_url = http://all.example
            [profile two]
            endpoint_url = http://all.example
            services = store
            [profile none]
            s3 =
              endpoint_url = http://nested.example
            [profile lost]
            services = other
            s3 =
            [services first]
              endpoint_url = http://nothing.example
            [profile first]
            services = first
            [services store]
            dynamodb =
              endpoint_url = http://tables.example
            s3 =
              endpoint_url = http://s3.example
            """, ".aws/config")
        func endpoint(_ variables: [String: String]) throws -> String? {
            try AWSEnvironment(home: root.path, variables: variables) { variables[$0] }.endpoint
        }
        #expect(try endpoint([:]) == "http://all.example")
        #expect(try endpoint(["AWS_PROFILE": "two"]) == "http://s3.example")
        #expect(
            try endpoint(["AWS_PROFILE": "two", "AWS_ENDPOINT_URL": "http://said.example"]) == "http://said.example")
        #expect(try endpoint(["AWS_PROFILE": "two", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"]) == nil)
        #expect(try endpoint(["AWS_PROFILE": "none"]) == nil)
        #expect(try endpoint(["AWS_PROFILE": "first"]) == nil)
        #expect(reason(["AWS_PROFILE": "lost"]).contains("services = other, and no file"))
    }

    @Test("After a refusal the files are read again; where they cannot be, what they said before counts")
    func readAgain() throws {
        func file(_ access: String) -> String {
            "[default]\naws_access_key_id = \(access)\naws_secret_access_key = s\n"
        }
        try write(file("OLD"), ".aws/credentials")
        let credentials = AWSCredentials(try AWSEnvironment(home: root.path) { _ in nil }, isStopped: { false })
        #expect(try credentials.keys(now: Self.now)?.access == "OLD")
        try write(file("NEW"), ".aws/credentials")
        #expect(try credentials.keys(now: Self.now)?.access == "OLD")
        credentials.forget()
        #expect(try credentials.keys(now: Self.now)?.access == "NEW")
        try write(String(repeating: "#", count: 2 << 20), ".aws/credentials")
        credentials.forget()
        #expect(try credentials.keys(now: Self.now)?.access == "NEW")
    }

    @Test("Who logs in in a browser is told what to do")
    func browser() throws {
        try write("[default]\nsso_start_url = https://example.com\nsso_region = x\n", ".aws/config")
        let reason = reason([:])
        #expect(reason.contains("aws configure export-credentials") && reason.contains("aws sso login"))
    }

    /// A token service that answers each request as is asked for, and notes what came.
    private func service(_ answers: [FaultAnswer]) throws -> (server: FaultServer, asked: Asked) {
        let (server, asked) = (try FaultServer(), Asked())
        server.respondToOthers { request in
            let number = asked.requests.withLock { requests in
                requests.append((String(decoding: request.body, as: UTF8.self), request.header("authorization")))
                return requests.count - 1
            }
            return answers[min(number, answers.count - 1)]
        }
        return (server, asked)
    }

    private final class Asked: Sendable {
        let requests = Mutex<[(body: String, authority: String?)]>([])
    }

    private static func credentials(_ access: String) -> FaultAnswer {
        .status(
            200,
            text: """
                <AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
                <AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/x</Arn></AssumedRoleUser>
                <Credentials><AccessKeyId>\(access)</AccessKeyId><SecretAccessKey>s+/=</SecretAccessKey>
                <SessionToken>tok</SessionToken><Expiration>2026-11-27T00:00:00Z</Expiration></Credentials>
                </AssumeRoleResult></AssumeRoleResponse>
                """)
    }

    @Test("A token in a file gives keys for a role, as Kubernetes and GitHub have them; the file is read each time")
    func webIdentity() throws {
        let (server, asked) = try service([.status(503), Self.credentials("ASIA")])
        try write("header.payload.signature\n", "token")
        let variables = [
            "AWS_WEB_IDENTITY_TOKEN_FILE": root.path("token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/night shift",
            "AWS_ENDPOINT_URL_STS": server.url("/"),
        ]
        let found = try #require(try keys(variables))
        #expect(found.access == "ASIA" && found.secret == "s+/=" && found.session == "tok")
        #expect(found.expires == 1_795_737_600)
        let (body, authority) = try #require(asked.requests.withLock { $0.last })
        #expect(
            body.contains("Action=AssumeRoleWithWebIdentity")
                && body.contains("WebIdentityToken=header.payload.signature"))
        #expect(body.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fnight%20shift") && authority == nil)
        #expect(asked.requests.withLock(\.count) == 2)
        try FileManager.default.removeItem(atPath: root.path("token"))
        #expect(reason(variables).contains("token"))
        #expect(reason(["AWS_WEB_IDENTITY_TOKEN_FILE": "/x"]).contains("AWS_ROLE_ARN"))
    }

    @Test(
        "A profile's role is asked for with the keys of its source, one after the other; a refusal is told and a circle is found"
    )
    func roles() throws {
        let (server, asked) = try service([Self.credentials("FIRST"), Self.credentials("SECOND")])
        try write(
            """
            [profile night]
            role_arn = arn:aws:iam::2:role/b
            source_profile = middle
            external_id = x y
            role_session_name = builds
            [profile middle]
            role_arn = arn:aws:iam::1:role/a
            source_profile = base
            [profile round]
            role_arn = arn:aws:iam::1:role/a
            source_profile = about
            [profile about]
            role_arn = arn:aws:iam::1:role/a
            source_profile = round
            [profile alone]
            role_arn = arn:aws:iam::1:role/a
            """, ".aws/config")
        try write("[base]\naws_access_key_id = AKIA\naws_secret_access_key = secret\n", ".aws/credentials")
        let variables = ["AWS_PROFILE": "night", "AWS_ENDPOINT_URL_STS": server.url("/"), "AWS_REGION": "eu-test-1"]
        #expect(try keys(variables)?.access == "SECOND")
        let requests = asked.requests.withLock(\.self)
        #expect(requests.count == 2)
        #expect(requests[0].authority?.contains("Credential=AKIA/") == true)
        #expect(requests[0].authority?.contains("/eu-test-1/sts/aws4_request") == true)
        #expect(requests[1].authority?.contains("Credential=FIRST/") == true)
        #expect(requests[1].body.contains("ExternalId=x%20y") && requests[1].body.contains("RoleSessionName=builds"))
        #expect(reason(["AWS_PROFILE": "round"]).contains("leads back to itself"))
        #expect(reason(["AWS_PROFILE": "alone"]).contains("neither source_profile"))

        let no = try service([
            .status(
                403,
                text:
                    "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>")
        ])
        let refused = reason(["AWS_PROFILE": "middle", "AWS_ENDPOINT_URL_STS": no.server.url("/")])
        #expect(refused.contains("AccessDenied: not you") && refused.contains("arn:aws:iam::1:role/a"), "\(refused)")
        #expect(no.asked.requests.withLock(\.count) == 1)
    }
}
