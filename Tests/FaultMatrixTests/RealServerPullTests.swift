import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

/// Whole pulls through servers and proxies as people have them. A test whose program is not installed is skipped,
/// and says so; `Tests/run.sh` installs them.
@Suite("Pulls through real servers", .timeLimit(.minutes(10)))
struct RealServerPullTests {
    /// Packs, chunks, zstd, files with URLs of their own and names that need percent-encoding.
    static let published: PublishedSet? = {
        var builder = ManifestBuilder(.mixed())
        builder.codec = .zstd
        builder.chunkSize = 65_536
        builder.packSize = 200_000
        builder.hasFallbackURLs = true
        return try? builder.build()  // A test requires it, and fails without.
    }()

    private func writeSet(_ runner: PullRunner) throws -> PublishedSet {
        let set = try #require(Self.published)
        try set.write(to: runner.root, under: "www/tower")
        return set
    }

    @Test(
        "nginx in the clear; a second pull costs one request",
        .enabled(if: ExternalServer.has("nginx"), "SKIPPED: nginx is not installed"))
    func nginx() async throws {
        let runner = try PullRunner()
        let set = try writeSet(runner)
        let server = try ExternalServer.nginx(serving: runner.root.path("www"))
        try await runner.pullWhole(set.tree, server.url("/tower/manifest.json"))
        let again = try await runner.pullWhole(set.tree, server.url("/tower/manifest.json"))
        #expect(again.requests == 1)
        #expect(again.files.unchanged == again.files.total)
    }

    @Test(
        "nginx with TLS of a private authority, over HTTP/1.1 and HTTP/2",
        .enabled(if: ExternalServer.has("nginx"), "SKIPPED: nginx is not installed"),
        arguments: [HTTP2Use.never, .wholeObjects, .always])
    func nginxTLS(http2: HTTP2Use) async throws {
        let runner = try PullRunner()
        let set = try writeSet(runner)
        let authority = try TestAuthority()
        try runner.root.write(authority.certificate, to: "ca.pem")
        let server = try ExternalServer.nginx(serving: runner.root.path("www"), identity: try authority.issue())
        var configuration = TransportConfiguration.quick
        configuration.tls.authorities = runner.root.path("ca.pem")
        configuration.http2 = http2
        try await runner.pullWhole(set.tree, server.url("/tower/manifest.json"), configuration)
        #expect(server.file("access.log").contains("HTTP/2.0") == (http2 != .never))

        let stranger = try PullRunner()
        guard case .refused(let error) = try await stranger.pull(server.url("/tower/manifest.json")) else {
            throw MatrixFailure("an unknown authority was trusted")
        }
        #expect(error.status == .unavailable)
    }

    @Test(
        "Python's server, HTTP/1.0 without ranges, each object whole and once [F011 F035 S129]",
        .enabled(if: ExternalServer.has("python3"), "SKIPPED: python3 is not installed"))
    func python() async throws {
        let runner = try PullRunner()
        let set = try writeSet(runner)
        // It has no tags, and a date of this very second is none to go by.
        let manifest = runner.root.path("www/tower/manifest.json")
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSinceNow: -10)], ofItemAtPath: manifest)
        let server = try ExternalServer.python(serving: runner.root.path("www"))
        let report = try await runner.pullWhole(set.tree, server.url("/tower/manifest.json"))
        #expect(report.bytes.received <= set.byteCount + set.manifest.count + 65_536)
        let again = try await runner.pullWhole(set.tree, server.url("/tower/manifest.json"))
        #expect(again.requests == 1 && again.bytes.received == 0)
    }

    @Test(
        "tinyproxy, with and without credentials, in the clear and through a tunnel [F054 V22]",
        .enabled(if: ExternalServer.has("tinyproxy"), "SKIPPED: tinyproxy is not installed"), arguments: [false, true],
        [false, true])
    func proxy(asks: Bool, isTunnel: Bool) async throws {
        let set = try #require(Self.published)
        let authority = try TestAuthority()
        let origin = try isTunnel ? FaultServer(tls: ServerTLS(try authority.issue())) : FaultServer()
        set.mount(on: origin)
        let runner = try PullRunner()
        try runner.root.write(authority.certificate, to: "ca.pem")
        let proxy = try ExternalServer.tinyproxy(user: asks ? "someone" : nil, password: "canary-of-the-proxy")
        var configuration = TransportConfiguration.quick
        configuration.tls.authorities = runner.root.path("ca.pem")
        configuration.proxy = ProxyConfiguration(url: proxy.address)
        if asks {
            configuration.proxy?.user = "someone"
            configuration.proxy?.password = "canary-of-the-proxy"
        }
        try await runner.pullWhole(set.tree, origin.url("/tower/manifest.json"), configuration)
        #expect(origin.log.requestCount > 0)
        #expect(origin.log.values(of: "proxy-authorization").isEmpty)
        #expect(!origin.log.entries.flatMap(\.request.headers).contains { $0.value.contains("canary") })
        #expect(proxy.file("access.log").contains("127.0.0.1"), "the proxy was gone through")
        guard asks else { return }

        configuration.proxy?.password = "wrong"
        let stranger = try PullRunner()
        try stranger.root.write(authority.certificate, to: "ca.pem")
        let seen = origin.log.requestCount
        let ending = try await stranger.pull(origin.url("/tower/manifest.json"), configuration)
        guard case .refused(let error) = ending else { throw MatrixFailure("a wrong password went through") }
        #expect(
            !isTunnel || error.message.contains("the proxy http://") && error.message.contains("refuses"),
            "\(error.message)")
        #expect(!error.message.contains("wrong"))
        #expect(origin.log.requestCount == seen)
    }

    @Test(
        "S3 with signatures: the right key reads, a wrong one and none do not",
        .enabled(if: ExternalServer.has("moto_server"), "SKIPPED: moto_server is not installed"))
    func objectStore()
        async throws
    {
        // moto compares signatures over decoded paths, so keys need no percent-encoding here.
        var builder = ManifestBuilder(.manySmall(40).merged(with: .large(1, size: 500_000)))
        builder.packSize = 200_000
        let set = try builder.build()
        let runner = try PullRunner()
        try set.write(to: runner.root, under: "www/tower")
        let store = try S3Store(directory: runner.root.path("www"), bucket: "assets")

        var configuration = TransportConfiguration.quick
        let origin = Origin(scheme: "http", host: "127.0.0.1", port: store.server.port)
        configuration.credentials[origin] = .sigV4(
            accessKey: store.accessKey, secretKey: store.secretKey, sessionToken: nil, region: S3Store.region,
            service: "s3")
        let manifest = store.server.url("/assets/tower/manifest.json")
        try await runner.pullWhole(set.tree, manifest, configuration)

        for secret in [nil, "wrong-\(store.secretKey)"] {
            var configuration = TransportConfiguration.quick
            if let secret {
                configuration.credentials[origin] = .sigV4(
                    accessKey: store.accessKey, secretKey: secret, sessionToken: nil, region: S3Store.region,
                    service: "s3")
            }
            guard case .refused = try await PullRunner().pull(manifest, configuration) else {
                throw MatrixFailure("the store gave without a right signature")
            }
        }
    }
}

/// A bucket in moto that holds a directory's files and checks every signature from then on.
struct S3Store {
    static let region = "eu-central-1"
    let server: ExternalServer
    let accessKey: String
    let secretKey: String

    init(directory: String, bucket: String) throws {
        server = try ExternalServer.moto()
        let root = try TemporaryRoot()
        try root.write(Self.script, to: "fill.py")
        let moto = try #require(ChildProgram.find("moto_server"))
        let beside = moto.split(separator: "/").dropLast().joined(separator: "/")
        let fill = try ChildProgram(
            "/\(beside)/python3", [root.path("fill.py"), server.address, directory, bucket, Self.region],
            output: root.path("key"))
        let status = try fill.wait(within: .seconds(60))
        let words = fill.output.split(whereSeparator: \.isWhitespace).map(String.init)
        try require(status == 0 && words.count == 2, "the bucket was not filled: \(fill.output)")
        (accessKey, secretKey) = (words[0], words[1])
    }

    /// Makes a user with a key, fills a bucket, then tells moto to check signatures.
    private static let script = """
        import os, sys, urllib.request
        import boto3
        from botocore.config import Config
        url, directory, bucket, region = sys.argv[1:]
        how = dict(endpoint_url=url, region_name=region, aws_access_key_id="setup", aws_secret_access_key="setup")
        iam = boto3.client("iam", **how)
        iam.create_user(UserName="reader")
        iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument='{"Version": "2012-10-17", '
            '"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}')
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        s3 = boto3.client("s3", config=Config(s3={"addressing_style": "path"}), **how)
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": region})
        for parent, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(parent, name)
                s3.upload_file(path, bucket, os.path.relpath(path, directory))
        check = urllib.request.Request(url + "/moto-api/reset-auth", data=b"0", method="POST",
                                       headers={"Content-Type": "text/plain"})
        urllib.request.urlopen(check).read()
        print(key["AccessKeyId"], key["SecretAccessKey"])
        """
}
