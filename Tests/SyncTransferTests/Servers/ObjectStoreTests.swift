import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

/// S3 as moto plays it, with its check of signatures on. PyPI: `moto[server]`.
@Suite("An object store", .timeLimit(.minutes(10)))
struct ObjectStoreTests {
    /// Makes a user, a bucket and an object, then asks for a signature from everyone.
    static let script = """
        import json, os, sys, time
        os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "5"
        from moto.server import ThreadedMotoServer
        import boto3
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        server.start()
        port = server.get_host_and_port()[1]
        def client(service, key="testing", secret="testing"):
            return boto3.client(service, endpoint_url=f"http://127.0.0.1:{port}", region_name="eu-central-1",
                                aws_access_key_id=key, aws_secret_access_key=secret)
        iam = client("iam")
        iam.create_user(UserName="reader")
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(policy))
        s3 = client("s3", key["AccessKeyId"], key["SecretAccessKey"])
        s3.create_bucket(Bucket="assets", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        s3.put_object(Bucket="assets", Key="packs/one.pack", Body=open(sys.argv[1], "rb").read())
        print("READY", port, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
        parent = os.getppid()
        while os.getppid() == parent:  # As long as the test lives, and no longer.
            time.sleep(0.2)
        """

    static var hasMoto: Bool {
        guard let python = ChildProgram.find("python3"),
            let check = try? ChildProgram(python, ["-c", "import boto3, flask, moto"])
        else { return false }
        return (try? check.wait(within: .seconds(30))) == 0
    }

    @Test(
        "SigV4 by libcurl is what S3 asks for; wrong keys are refused", .enabled(if: hasMoto, "moto is not installed"))
    func signature() async throws {
        let object = ServedObject.patterned(size: 300_000)
        let root = try TemporaryRoot()
        try root.write(object.bytes, to: "object")
        try root.write(Self.script, to: "store.py")
        let python = try #require(ChildProgram.find("python3"))
        let program = try ChildProgram(python, [root.path("store.py"), root.path("object")], output: root.path("out"))
        var words: [Substring] = []
        while words.isEmpty {
            guard program.isRunning else { throw TestKitError(program.output) }
            try await Task.sleep(for: .milliseconds(50))
            words = program.output.split(separator: "\n").first { $0.hasPrefix("READY") }?.split(separator: " ") ?? []
        }
        try #require(words.count == 4)
        let url = "http://127.0.0.1:\(words[1])/assets/packs/one.pack"
        func bench(secret: Substring) throws -> Bench {
            let origin = try CurlURL(url).origin
            return try Bench {
                $0.idleTimeout = .seconds(10)
                $0.credentials[origin] = .sigV4(
                    accessKey: String(words[2]), secretKey: String(secret), sessionToken: nil, region: "eu-central-1",
                    service: "s3")
            }
        }
        let good = try bench(secret: words[3])
        try await good.deliver(object, from: [url])
        try await good.deliver(object, from: [url], range: 1_000..<200_000)

        let bad = try bench(secret: "wrong")
        #expect(try await bad.failure(bad.start(object, from: [url])).code == .authentication)
        let none = try Bench()
        #expect(try await none.failure(none.start(object, from: [url])).code == .authentication)
        program.stop()
    }
}
