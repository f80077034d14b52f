import Synchronization

/// A registry with one repository, the store that blobs are redirected to, and the server that gives tokens for it; as real
/// ones answer. OCI Distribution Specification 1.1; Distribution, "Token Authentication Specification".
public final class ScriptedRegistry: Sendable {
    /// The three servers.
    public let registry, store, tokens: FaultServer
    private let state = Mutex(State())

    /// What is asked of whoever comes.
    public enum Access: Sendable {
        case open
        /// A user name and a password.
        case basic(user: String, password: String)
        /// A token; anybody's where no password is given.
        case token(user: String?, password: String?)
    }

    /// How it answers.
    public struct State: Sendable {
        /// Who gets in.
        public var access = Access.open
        /// Whether blobs are in the store.
        public var isRedirecting = false
        /// Whether manifests come with `Docker-Content-Digest`.
        public var saysDigest = true
        /// Where tokens are to be had; `nil` for its own server of them.
        public var realm: String?
        /// For how many requests a token is good.
        public var uses = Int.max
        /// What `expires_in` says.
        public var seconds = 300
        /// How many tokens were given.
        public fileprivate(set) var given = 0
        fileprivate var left = 0
        fileprivate var manifests: [String: (object: ServedObject, digest: String?)] = [:]
        fileprivate var blobs: [String: ServedObject] = [:]
    }

    /// Its one repository.
    public static let repository = "acme/maps/tiles"
    /// The type of a manifest.
    public static let manifestType = "application/vnd.oci.image.manifest.v1+json"
    /// The type of an index.
    public static let indexType = "application/vnd.oci.image.index.v1+json"

    /// Starts the three servers; nothing is there yet.
    public init() throws {
        (registry, store, tokens) = (try FaultServer(), try FaultServer(), try FaultServer())
        // Weak: the servers are this value's own.
        registry.respondToOthers { [weak self] in self?.answer($0) ?? .status(404) }
        store.respondToOthers { [weak self] in self?.stored($0) ?? .status(404) }
        tokens.respondToOthers { [weak self] in self?.token($0) ?? .status(404) }
    }

    /// Its host and port.
    public var host: String { "127.0.0.1:\(registry.port)" }

    /// The repository, with `:TAG` or `@DIGEST`.
    public func location(_ reference: String) -> String { "oci://\(host)/\(Self.repository)\(reference)" }

    /// Changes how it answers.
    public func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    /// Tokens that were given.
    public var given: Int { state.withLock(\.given) }

    // MARK: What is there

    /// Puts a manifest there, by its digest and by a tag.
    ///
    /// - Parameter digest: What it says that it has, where that is a lie.
    /// - Returns: `sha256:` and its digest.
    @discardableResult public func put(
        _ text: String, as tag: String? = nil, type: String = manifestType, saying digest: String? = nil
    ) -> String {
        let object = ServedObject(text: text, contentType: type)
        let name = "sha256:\(object.sha256)"
        state.withLock { state in
            state.manifests[name] = (object, digest)
            if let tag { state.manifests[tag] = (object, digest) }
            if let digest { state.manifests[digest] = (object, digest) }
        }
        return name
    }

    /// Puts a blob there; returns how a layer of a manifest names it.
    public func layer(_ bytes: [UInt8], title: String?, type: String = "application/octet-stream", _ more: String = "")
        -> String
    {
        let object = ServedObject(bytes)
        state.withLock { $0.blobs[object.sha256] = object }
        let annotations = (title.map { "\"org.opencontainers.image.title\":\"\($0)\"" } ?? "") + more
        return
            "{\"mediaType\":\"\(type)\",\"digest\":\"sha256:\(object.sha256)\",\"size\":\(bytes.count),\"annotations\":{\(annotations)}}"
    }

    /// A manifest with these layers.
    public static func manifest(_ layers: [String]) -> String {
        "{\"schemaVersion\":2,\"mediaType\":\"\(manifestType)\",\"config\":{\"mediaType\":\"application/vnd.oci.empty.v1+json\","
            + "\"digest\":\"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\",\"size\":2},"
            + "\"layers\":[\(layers.joined(separator: ","))],\"annotations\":{\"org.opencontainers.image.created\":\"2026-01-01T00:00:00Z\"}}"
    }

    /// Pushes files; returns the digest of their manifest.
    @discardableResult public func push(_ files: [String: [UInt8]], as tag: String) -> String {
        let layers = files.sorted { $0.key < $1.key }.map { layer($0.value, title: $0.key) }
        return put(Self.manifest(layers), as: tag)
    }

    // MARK: Answers

    private func answer(_ request: ServedRequest) -> FaultAnswer {
        state.withLock { state in
            if let refusal = refusal(of: request, &state) { return refusal }
            let base = "/v2/\(Self.repository)/"
            if request.path.hasPrefix(base + "manifests/") {
                let name = String(request.path.dropFirst((base + "manifests/").count))
                guard let found = state.manifests[name], let type = found.object.contentType,
                    request.header("accept")?.contains(type) == true
                else { return .status(404, text: "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}") }
                let answer = FaultAnswer.object(found.object)
                guard state.saysDigest else { return answer }
                return answer.setting("Docker-Content-Digest", found.digest ?? "sha256:\(found.object.sha256)")
            }
            guard request.path.hasPrefix(base + "blobs/sha256:"),
                let blob = state.blobs[String(request.path.dropFirst((base + "blobs/sha256:").count))]
            else { return .status(404) }
            return state.isRedirecting
                ? .redirect(to: store.url("/\(blob.sha256)?sig=1"), status: 307) : .object(blob)
        }
    }

    private func refusal(of request: ServedRequest, _ state: inout State) -> FaultAnswer? {
        let shown = request.header("authorization")
        switch state.access {
        case .open: return shown == nil ? nil : .status(400)
        case .basic(let user, let password):
            if shown == "Basic \(Self.base64("\(user):\(password)"))" { return nil }
            return FaultAnswer.status(401).setting("WWW-Authenticate", "Basic realm=\"registry\"")
        case .token:
            if shown == "Bearer t\(state.given)", state.left > 0 {
                state.left -= 1
                return nil
            }
            let realm = state.realm ?? tokens.url("/token")
            return FaultAnswer.status(401).setting(
                "WWW-Authenticate",
                "Bearer realm=\"\(realm)\",service=\"registry.test\",scope=\"repository:\(Self.repository):pull\"")
        }
    }

    private func token(_ request: ServedRequest) -> FaultAnswer {
        state.withLock { state in
            guard case .token(let user, let password) = state.access, request.path == "/token" else {
                return .status(404)
            }
            let form = String(decoding: request.body, as: UTF8.self)
            let fields = request.method == "POST" ? form : request.query ?? ""
            guard fields.contains("service=registry.test"),
                fields.contains("scope=repository%3Aacme%2Fmaps%2Ftiles%3Apull")
            else { return .status(400) }
            if let user, let password {
                let isKnown = request.header("authorization") == "Basic \(Self.base64("\(user):\(password)"))"
                let isIdentity = form.contains("grant_type=refresh_token") && form.contains("refresh_token=\(password)")
                guard isKnown || isIdentity else { return .status(401) }
            } else if request.header("authorization") != nil {
                return .status(400)
            }
            state.given += 1
            state.left = state.uses
            return .object(
                ServedObject(
                    text:
                        "{\"token\":\"t\(state.given)\",\"expires_in\":\(state.seconds),\"issued_at\":\"2026-01-01T00:00:00Z\"}",
                    contentType: "application/json"))
        }
    }

    private func stored(_ request: ServedRequest) -> FaultAnswer {
        state.withLock { state in
            // As object stores do that see two ways to get in.
            guard request.header("authorization") == nil, request.query == "sig=1" else { return .status(400) }
            return state.blobs[String(request.path.dropFirst())].map { .object($0) } ?? .status(404)
        }
    }

    /// RFC 4648 §4.
    public static func base64(_ text: String) -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        let bytes = Array(text.utf8)
        var result = ""
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let part = bytes[start..<min(start + 3, bytes.count)]
            let value = (0..<3).reduce(0) { $0 << 8 | ($1 < part.count ? Int(part[start + $1]) : 0) }
            for place in 0..<4 {
                result.append(place <= part.count ? digits[value >> (18 - 6 * place) & 63] : "=")
            }
        }
        return result
    }
}
