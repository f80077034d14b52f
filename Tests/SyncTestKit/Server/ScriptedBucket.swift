import SyncContent
import SyncModel
import Synchronization

/// A bucket as S3 answers for it: requests that are not signed by its user are refused, puts look at their conditions and at the
/// hash of what came, and a list has pages. What goes wrong is said by whoever asks for it.
public final class ScriptedBucket: Sendable {
    /// Its server, with the log of what was asked.
    public let server: FaultServer
    private let state = Mutex(State())

    /// The keys of its user.
    public static let (access, secret) = ("AKIDTEST", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYTEST")
    /// What it is called.
    public static let name = "assets"
    /// Where it says that it is.
    public static let region = "eu-test-1"

    /// How it answers.
    public struct State: Sendable {
        /// Whether anybody may read, without a signature.
        public var isPublic = false
        /// Whether it looks at the conditions of a put.
        public var knowsConditions = true
        /// Objects on a page of a list.
        public var page = 3
        /// Whether it says where it is in the text of a refusal alone, to whoever has signed for another region.
        public var saysRegionInText = false
        /// What temporary keys must be shown with.
        public var session: String?
        /// Answers in place of the bucket, before it has done anything; `nil` for none.
        public var instead: (@Sendable (ServedRequest) -> FaultAnswer?)?
        /// Whether the answer to a request is lost once it was done.
        public var loses: (@Sendable (ServedRequest) -> Bool)?
        /// Called with the name of each object that is put, before it is there.
        public var beforePut: (@Sendable (String) -> Void)?
        /// The reasons of refusals.
        public fileprivate(set) var refusals: [String] = []
        /// How often each object was put.
        public fileprivate(set) var puts: [String: Int] = [:]
        fileprivate var objects: [String: ServedObject] = [:]
    }

    /// Starts it; nothing is there yet.
    public init() throws {
        server = try FaultServer()
        // Weak: the server is this value's own.
        server.respondToOthers { [weak self] in self?.answer($0) ?? .status(404) }
    }

    /// Where it is.
    public var endpoint: String { "http://127.0.0.1:\(server.port)" }

    /// What its user's programs have in their environment.
    public var environment: [String: String] {
        [
            "AWS_ACCESS_KEY_ID": Self.access, "AWS_SECRET_ACCESS_KEY": Self.secret, "AWS_REGION": Self.region,
            "AWS_ENDPOINT_URL": endpoint, "AWS_EC2_METADATA_DISABLED": "true",
        ]
    }

    /// Changes how it answers.
    public func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    /// Why requests were refused.
    public var refusals: [String] { state.withLock(\.refusals) }

    /// How often each object was put.
    public var puts: [String: Int] { state.withLock(\.puts) }

    /// Its objects.
    public var names: Set<String> { state.withLock { Set($0.objects.keys) } }

    /// The bytes of an object; `nil` where there is none.
    public subscript(_ name: String) -> [UInt8]? {
        get { state.withLock { $0.objects[name]?.bytes } }
        set { state.withLock { $0.objects[name] = newValue.map { ServedObject($0) } } }
    }

    // MARK: Answers

    private func answer(_ request: ServedRequest) -> FaultAnswer {
        let (instead, loses, before) = state.withLock { ($0.instead, $0.loses, $0.beforePut) }
        if let answer = instead?(request) { return answer }
        if request.method == "PUT", let before { before(Self.key(request) ?? "") }
        let answer = state.withLock { done(request, &$0) }
        return loses?(request) == true ? .dropped : answer
    }

    /// The object that is meant; `nil` for the bucket.
    private static func key(_ request: ServedRequest) -> String? {
        let path = request.path.dropFirst(name.utf8.count + 2)
        guard !path.isEmpty, let bytes = percentDecoded(path.utf8) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func error(_ status: Int, _ code: String) -> FaultAnswer {
        .status(
            status,
            text: "<?xml version=\"1.0\"?><Error><Code>\(code)</Code><Message>as the script says</Message></Error>")
    }

    private func done(_ request: ServedRequest, _ state: inout State) -> FaultAnswer {
        guard request.path.hasPrefix("/\(Self.name)") else { return Self.error(404, "NoSuchBucket") }
        if !(state.isPublic && ["GET", "HEAD"].contains(request.method)), let reason = refusal(of: request, state) {
            state.refusals.append(reason)
            if state.saysRegionInText {
                let isElsewhere = Self.scope(request).map { $0[2] != Self.region } ?? false
                guard isElsewhere else { return Self.error(403, "AccessDenied") }
                let text = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>expecting another region</Message>"
                return .status(400, text: text + "<Region>\(Self.region)</Region></Error>")
            }
            return Self.error(403, "SignatureDoesNotMatch").setting("x-amz-bucket-region", Self.region)
        }
        guard let key = Self.key(request) else { return list(request, state) }
        let there = state.objects[key]
        switch request.method {
        case "GET", "HEAD": return there.map { .object($0) } ?? Self.error(404, "NoSuchKey")
        case "DELETE":
            state.objects[key] = nil
            return .status(204)
        case "PUT":
            // As S3 names what was put in one request.
            let object = ServedObject(request.body, etag: md5(request.body).map { "\"\($0)\"" })
            if let hash = request.header("x-amz-content-sha256"), hash != object.sha256 {
                return Self.error(400, "XAmzContentSHA256Mismatch")
            }
            if state.knowsConditions {
                if request.header("if-none-match") == "*", there != nil { return Self.error(412, "PreconditionFailed") }
                if let tag = request.header("if-match") {
                    guard let there else { return Self.error(404, "NoSuchKey") }
                    guard there.etag == tag else { return Self.error(412, "PreconditionFailed") }
                }
            }
            state.objects[key] = object
            state.puts[key, default: 0] += 1
            return FaultAnswer.status(200).setting("ETag", object.etag ?? "")
        default: return Self.error(405, "MethodNotAllowed")
        }
    }

    /// Names in their order, a few on a page; the last of them is where the next one goes on.
    private func list(_ request: ServedRequest, _ state: State) -> FaultAnswer {
        let fields = Self.fields(request.query ?? "")
        guard request.method == "GET", fields["list-type"] == "2" else { return Self.error(405, "MethodNotAllowed") }
        let (prefix, after) = (fields["prefix"] ?? "", fields["continuation-token"] ?? "")
        let rest = state.objects.keys.filter { $0.hasPrefix(prefix) && $0 > after }.sorted()
        var text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>\(Self.name)</Name>"
        for key in rest.prefix(state.page) {
            guard let object = state.objects[key] else { continue }
            let tag = (object.etag ?? "").replacing("\"", with: "&quot;")
            text += "<Contents><Key>\(percentEncoded(bytes: key.utf8))</Key><Size>\(object.bytes.count)</Size>"
            text += "<ETag>\(tag)</ETag><Owner><ID>1</ID></Owner></Contents>"
        }
        let isTruncated = rest.count > state.page
        text += "<IsTruncated>\(isTruncated)</IsTruncated>"
        if isTruncated { text += "<NextContinuationToken>\(rest[state.page - 1])</NextContinuationToken>" }
        return .status(200, text: text + "</ListBucketResult>")
    }

    private static func fields(_ query: String) -> [String: String] {
        var fields: [String: String] = [:]
        for field in query.split(separator: "&") {
            let sides = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = sides.count == 2 ? percentDecoded(sides[1].utf8) ?? [] : []
            fields[String(sides[0])] = String(decoding: value, as: UTF8.self)
        }
        return fields
    }

    // MARK: Signatures

    /// The parts of a signature.
    private static func parts(_ request: ServedRequest) -> [String: String] {
        var parts: [String: String] = [:]
        let authority = request.header("authorization") ?? ""
        for part in authority.dropFirst("AWS4-HMAC-SHA256 ".count).split(separator: ",") {
            let sides = part.split(separator: "=", maxSplits: 1)
            if sides.count == 2 { parts[sides[0].filter { $0 != " " }] = String(sides[1]) }
        }
        return parts
    }

    /// Key, day, region, service and the end of what a request is signed for.
    private static func scope(_ request: ServedRequest) -> [Substring]? {
        let scope = parts(request)["Credential"]?.split(separator: "/")
        return scope?.count == 5 ? scope : nil
    }

    /// Why a request is not one of the user's; `nil` for one that is.
    private func refusal(of request: ServedRequest, _ state: State) -> String? {
        guard request.header("authorization") != nil else { return "no signature" }
        let parts = Self.parts(request)
        guard let time = request.header("x-amz-date"), let names = parts["SignedHeaders"],
            let scope = Self.scope(request), scope[0] == Self.access,
            scope[2] == Self.region,
            let payload = request.header("x-amz-content-sha256") ?? Optional("UNSIGNED-PAYLOAD")
        else { return "a signature in another form" }
        if state.session != request.header("x-amz-security-token") { return "another session" }
        for name in request.headers.map(\.name) where name.hasPrefix("x-amz-") || name == "host" {
            guard names.split(separator: ";").contains(Substring(name)) else { return "\(name) is not signed" }
        }
        let lines = names.split(separator: ";").map { "\($0):\(request.header(String($0)) ?? "")\n" }.joined()
        let query = (request.query ?? "").split(separator: "&").sorted().joined(separator: "&")
        let canonical = "\(request.method)\n\(request.path)\n\(query)\n\(lines)\n\(names)\n\(payload)"
        let place = scope.dropFirst().joined(separator: "/")
        let text = "AWS4-HMAC-SHA256\n\(time)\n\(place)\n\(Self.hash(Array(canonical.utf8)).hex)"
        var key = Array("AWS4\(Self.secret)".utf8)
        for part in scope.dropFirst() { key = Self.bytes(Self.code(Array(part.utf8), key)) }
        let signature = Self.code(Array(text.utf8), key).hex
        return signature == parts["Signature"] ? nil : "another signature for \(request.method) \(request.target)"
    }

    private static func hash(_ bytes: [UInt8]) -> SHA256Digest { (try? sha256(bytes)) ?? .zero }

    private static func bytes(_ digest: SHA256Digest) -> [UInt8] { (0..<32).map { digest[byte: $0] } }

    /// RFC 2104.
    private static func code(_ text: [UInt8], _ key: [UInt8]) -> SHA256Digest {
        var block = key.count > 64 ? bytes(hash(key)) : key
        block += [UInt8](repeating: 0, count: 64 - block.count)
        return hash(block.map { $0 ^ 0x5C } + bytes(hash(block.map { $0 ^ 0x36 } + text)))
    }
}
