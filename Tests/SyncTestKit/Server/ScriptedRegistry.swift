import SyncModel
import Synchronization

/// A registry, of which one repository is what its methods speak of, the store that blobs are redirected to, and the server that gives tokens for it; as real
/// ones answer, those that ask and those that push. OCI Distribution Specification 1.1; Distribution, "Token Authentication Specification".
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
        /// Most **bytes** of the body of one request; with more it is refused.
        public var mostBytes = Int.max
        /// Whether manifests can be deleted.
        public var mayDelete = true
        /// Called with each manifest that is put, before it is there; what it does may be what another client does then.
        public var beforeManifest: (@Sendable (_ reference: String) -> Void)?
        /// Answers in place of the registry, before it has done anything; `nil` for none.
        public var instead: (@Sendable (ServedRequest) -> FaultAnswer?)?
        /// Whether the answer to a request is lost once it was done.
        public var loses: (@Sendable (ServedRequest) -> Bool)?
        /// How often each blob was uploaded, by its digest.
        fileprivate var puts: [String: Int] = [:]
        /// How many tokens were given.
        public fileprivate(set) var given = 0
        /// What the newest of them is good for, by repository.
        fileprivate var actions: [String: Set<String>] = [:]
        /// Repositories for which nobody gets a token.
        public var closed: Set<String> = []
        /// Repositories that one token is for, at most.
        public var mostScopes = Int.max
        /// Whether a blob of another repository can be had without an upload.
        public var mounts = true
        fileprivate var uploads: [String: [UInt8]] = [:]
        fileprivate var started = 0
        fileprivate var left = 0
        fileprivate var repositories: [String: Repository] = [:]

        fileprivate var manifests: [String: (object: ServedObject, digest: String?)] {
            get { self[ScriptedRegistry.repository].manifests }
            set { self[ScriptedRegistry.repository].manifests = newValue }
        }

        fileprivate var blobs: [String: ServedObject] {
            get { self[ScriptedRegistry.repository].blobs }
            set { self[ScriptedRegistry.repository].blobs = newValue }
        }

        fileprivate subscript(_ repository: String) -> Repository {
            get { repositories[repository] ?? Repository() }
            set { repositories[repository] = newValue }
        }
    }

    /// What one repository has.
    fileprivate struct Repository: Sendable {
        var manifests: [String: (object: ServedObject, digest: String?)] = [:]
        var blobs: [String: ServedObject] = [:]
    }

    /// The repository that is meant where none is named.
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

    /// Another repository beside it, with `:TAG`.
    public func beside(_ name: String, _ reference: String) -> String { "oci://\(host)/acme/maps/\(name)\(reference)" }

    /// The blobs of a repository beside it.
    public func blobs(beside name: String) -> Set<String> { state.withLock { Set($0["acme/maps/\(name)"].blobs.keys) } }

    /// Changes how it answers.
    public func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    /// How often each blob was uploaded, by its digest.
    public var puts: [String: Int] { state.withLock(\.puts) }

    /// Tokens that were given.
    public var given: Int { state.withLock(\.given) }

    // MARK: What is there

    /// Its tags, in their order.
    public var tags: [String] {
        state.withLock { $0.manifests.keys.filter { !$0.hasPrefix("sha256:") }.sorted() }
    }

    /// The text of a manifest, by its tag or digest.
    public func manifest(_ reference: String) -> [UInt8]? { state.withLock { $0.manifests[reference]?.object.bytes } }

    /// A blob.
    public func blob(_ digest: String) -> [UInt8]? { state.withLock { $0.blobs[digest]?.bytes } }

    /// Gives a tag to what has another.
    public func tag(_ reference: String, as tag: String) {
        state.withLock { $0.manifests[tag] = $0.manifests[reference] }
    }

    /// The digests of all blobs.
    public var blobs: Set<String> { state.withLock { Set($0.blobs.keys) } }

    /// Removes what no manifest names, as a registry's garbage collection does; returns how many blobs that were.
    @discardableResult public func collectGarbage() -> Int {
        state.withLock { state in
            let texts = state.manifests.values.map { String(decoding: $0.object.bytes, as: UTF8.self) }
            let before = state.blobs.count
            state.blobs = state.blobs.filter { blob in texts.contains { $0.contains("sha256:\(blob.key)") } }
            return before - state.blobs.count
        }
    }

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
        let isPut = request.method == "PUT" && request.path.contains("/manifests/")
        if isPut, let before = state.withLock(\.beforeManifest) {
            before(request.path.split(separator: "/").last.map(String.init) ?? "")
        }
        let (instead, loses) = state.withLock { ($0.instead, $0.loses) }
        if let answer = instead?(request) { return answer }
        let answer = done(request)
        return loses?(request) == true ? .dropped : answer
    }

    private func done(_ request: ServedRequest) -> FaultAnswer {
        state.withLock { state in
            if let refusal = refusal(of: request, &state) { return refusal }
            if !["GET", "HEAD"].contains(request.method) { return changed(request, &state) }
            if request.path == "/v2/" { return .status(200, text: "{}") }
            guard let repository = Self.repositoryName(of: request.path) else { return .status(404) }
            let base = "/v2/\(repository)/"
            if request.path == base + "tags/list" { return tags(request, repository, state) }
            if request.path.hasPrefix(base + "manifests/") {
                let name = String(request.path.dropFirst((base + "manifests/").count))
                guard let found = state[repository].manifests[name], let type = found.object.contentType,
                    request.header("accept")?.contains(type) == true
                else { return .status(404, text: "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}") }
                let answer = FaultAnswer.object(found.object)
                guard state.saysDigest else { return answer }
                return answer.setting("Docker-Content-Digest", found.digest ?? "sha256:\(found.object.sha256)")
            }
            guard request.path.hasPrefix(base + "blobs/sha256:"),
                let blob = state[repository].blobs[String(request.path.dropFirst((base + "blobs/sha256:").count))]
            else { return .status(404) }
            return state.isRedirecting
                ? .redirect(to: store.url("/\(blob.sha256)?sig=1"), status: 307) : .object(blob)
        }
    }

    /// The repository that a request is for; `nil` for none.
    private static func repositoryName(of path: String) -> String? {
        let words = path.split(separator: "/")
        guard words.first == "v2", let end = words.firstIndex(where: { ["manifests", "blobs", "tags"].contains($0) })
        else { return nil }
        return words[1..<end].joined(separator: "/")
    }

    /// A field of a query, as it is meant.
    private static func field(_ name: String, of request: ServedRequest) -> String? {
        let fields = (request.query ?? "").split(separator: "&").map { $0.split(separator: "=", maxSplits: 1) }
        guard let found = fields.first(where: { $0.count == 2 && $0[0] == name }) else { return nil }
        return percentDecoded(found[1].utf8).map { String(decoding: $0, as: UTF8.self) }
    }

    // MARK: Changes

    /// Three tags a page.
    private func tags(_ request: ServedRequest, _ repository: String, _ state: State) -> FaultAnswer {
        let all = state[repository].manifests.keys.filter { !$0.hasPrefix("sha256:") }.sorted()
        guard !all.isEmpty else { return .status(404) }
        let last = (request.query ?? "").split(separator: "&").first { $0.hasPrefix("last=") }?.dropFirst(5)
        let rest = all.filter { last.map(String.init) ?? "" < $0 }
        let page = rest.prefix(3).map { "\"\($0)\"" }.joined(separator: ",")
        let answer = FaultAnswer.object(
            ServedObject(text: "{\"name\":\"\(repository)\",\"tags\":[\(page)]}", contentType: "application/json"))
        guard rest.count > 3 else { return answer }
        return answer.setting("Link", "</v2/\(repository)/tags/list?n=3&last=\(rest[2])>; rel=\"next\"")
    }

    private func changed(_ request: ServedRequest, _ state: inout State) -> FaultAnswer {
        guard let repository = Self.repositoryName(of: request.path) else { return .status(404) }
        let base = "/v2/\(repository)/"
        guard request.body.count <= state.mostBytes else { return .status(413) }
        let parts = request.path.dropFirst(base.count).split(separator: "/")
        switch (request.method, parts.first, parts.count) {
        case ("POST", "blobs", 2):
            if let digest = Self.field("mount", of: request), let other = Self.field("from", of: request),
                state.mounts, let blob = state[other].blobs[String(digest.dropFirst("sha256:".count))]
            {
                state[repository].blobs[blob.sha256] = blob
                return FaultAnswer.status(201).setting("Docker-Content-Digest", digest)
            }
            state.started += 1
            state.uploads["u\(state.started)"] = []
            return at(repository, "u\(state.started)", 202)
        case ("PATCH", "blobs", 3):
            guard let known = state.uploads[String(parts[2])] else { return .status(404) }
            let range = "\(known.count)-\(known.count + request.body.count - 1)"
            guard request.header("content-range").map({ $0 == range }) ?? known.isEmpty else { return .status(416) }
            state.uploads[String(parts[2])] = known + request.body
            return at(repository, String(parts[2]), 202)
        case ("PUT", "blobs", 3):
            guard let known = state.uploads.removeValue(forKey: String(parts[2])) else { return .status(404) }
            let object = ServedObject(known + request.body)
            let digest = (request.query ?? "").replacing("%3A", with: ":")
            guard digest.contains("digest=sha256:\(object.sha256)") else { return .status(400) }
            state[repository].blobs[object.sha256] = object
            state.puts[object.sha256, default: 0] += 1
            return FaultAnswer.status(201).setting("Docker-Content-Digest", "sha256:\(object.sha256)")
        case ("PUT", "manifests", 2):
            let object = ServedObject(
                text: String(decoding: request.body, as: UTF8.self),
                contentType: request.header("content-type") ?? "")
            let text = String(decoding: request.body, as: UTF8.self)
            for word in text.split(separator: "\"") where word.hasPrefix("sha256:") {
                guard state[repository].blobs[String(word.dropFirst(7))] != nil else {
                    return .status(400, text: "{\"errors\":[{\"code\":\"MANIFEST_BLOB_UNKNOWN\"}]}")
                }
            }
            state[repository].manifests[String(parts[1])] = (object, nil)
            state[repository].manifests["sha256:\(object.sha256)"] = (object, nil)
            return FaultAnswer.status(201).setting("Docker-Content-Digest", "sha256:\(object.sha256)")
        case ("DELETE", "manifests", 2):
            guard state.mayDelete, parts[1].hasPrefix("sha256:") else { return .status(405) }
            guard let found = state[repository].manifests[String(parts[1])] else { return .status(404) }
            state[repository].manifests = state[repository].manifests.filter {
                $0.value.object.sha256 != found.object.sha256
            }
            return .status(202)
        default: return .status(405)
        }
    }

    private func at(_ repository: String, _ upload: String, _ status: Int) -> FaultAnswer {
        FaultAnswer.status(status).setting("Location", "/v2/\(repository)/blobs/uploads/\(upload)?_state=x%3Dy")
    }

    private func refusal(of request: ServedRequest, _ state: inout State) -> FaultAnswer? {
        let shown = request.header("authorization")
        switch state.access {
        case .open: return shown == nil ? nil : .status(400)
        case .basic(let user, let password):
            if shown == "Basic \(Self.base64("\(user):\(password)"))" { return nil }
            return FaultAnswer.status(401).setting("WWW-Authenticate", "Basic realm=\"registry\"")
        case .token:
            let actions =
                switch request.method {
                case "GET", "HEAD": ["pull"]
                case "DELETE": ["delete"]
                default: ["pull", "push"]
                }
            let repository = Self.repositoryName(of: request.path) ?? Self.repository
            var scope = "repository:\(repository):\(actions.joined(separator: ","))"
            let other = Self.field("from", of: request)
            if let other { scope += " repository:\(other):pull" }
            if shown == "Bearer t\(state.given)", state.left > 0,
                state.actions[repository]?.isSuperset(of: actions) == true,
                other.map({ state.actions[$0]?.contains("pull") == true }) ?? true
            {
                state.left -= 1
                return nil
            }
            let realm = state.realm ?? tokens.url("/token")
            return FaultAnswer.status(401).setting(
                "WWW-Authenticate",
                "Bearer realm=\"\(realm)\",service=\"registry.test\",scope=\"\(scope)\"")
        }
    }

    private func token(_ request: ServedRequest) -> FaultAnswer {
        state.withLock { state in
            guard case .token(let user, let password) = state.access, request.path == "/token" else {
                return .status(404)
            }
            let form = String(decoding: request.body, as: UTF8.self)
            let fields = request.method == "POST" ? form : request.query ?? ""
            let scopes = fields.split(separator: "&").filter { $0.hasPrefix("scope=") }.flatMap {
                String(decoding: percentDecoded($0.dropFirst("scope=".count).utf8) ?? [], as: UTF8.self)
                    .split(separator: " ")
            }
            let wanted = scopes.map { $0.split(separator: ":") }
            guard fields.contains("service=registry.test"), !wanted.isEmpty,
                wanted.allSatisfy({ $0.count == 3 && $0[0] == "repository" && $0[1].hasPrefix("acme/maps/") })
            else { return .status(400) }
            guard wanted.count <= state.mostScopes, wanted.allSatisfy({ !state.closed.contains(String($0[1])) }) else {
                return .status(403)
            }
            // As a query has them: each by itself.
            guard request.method == "POST" || fields.matches(of: /scope=/).count == wanted.count else {
                return .status(400)
            }
            if let user, let password {
                let isKnown = request.header("authorization") == "Basic \(Self.base64("\(user):\(password)"))"
                let isIdentity = form.contains("grant_type=refresh_token") && form.contains("refresh_token=\(password)")
                guard isKnown || isIdentity else { return .status(401) }
            } else if request.header("authorization") != nil {
                return .status(400)
            }
            state.given += 1
            state.actions = [:]
            for scope in wanted {
                state.actions[String(scope[1]), default: []].formUnion(scope[2].split(separator: ",").map(String.init))
            }
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
