import SyncEngine
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTransfer

/// The settings of huggingface_hub's environment, for `hf://`.
extension HubPlace {
    /// `HF_ENDPOINT`, or the usual hub.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` with status 78 if it is no URL of a server.
    init(_ host: HostEnvironment) throws(EngineError) {
        self.init()
        guard var text = host.variable("HF_ENDPOINT"), !text.isEmpty else { return }
        while text.hasSuffix("/") { text.removeLast() }
        guard isWebURL(text), (try? CurlURL(text)) != nil,
            !text.contains(where: { $0 == "?" || $0 == "#" || $0 == "@" })
        else {
            throw EngineError(
                .configuration,
                "HF_ENDPOINT is '\(redacted(url: text))': write a URL such as https://huggingface.co, without a user or a "
                    + "query")
        }
        self.init(endpoint: text)
    }

    /// Whether a location is on a hub.
    static func isNamed(by location: String) -> Bool { urlScheme(of: location) == "hf" }

    /// Sends the user's token to the hub, and nowhere else.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` with status 78 for a token that cannot be one, or that others on the way
    ///   could read.
    mutating func addToken(of host: HostEnvironment, to configuration: inout TransportConfiguration)
        throws(EngineError)
    {
        guard let origin = (try? CurlURL(endpoint))?.origin, configuration.credentials[origin] == nil,
            let (token, place) = self.token(host)
        else { return }
        guard token.utf8.count <= 4_096, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw EngineError(.configuration, "\(place) holds no token")
        }
        guard origin.scheme == "https" || origin.isOfThisMachine else {
            throw EngineError(
                .configuration, "\(origin): the token of \(place) would be readable on the way; use https, or unset it")
        }
        configuration.credentials[origin] = .bearer(token: token)
    }

    /// The token, and its source, for people: `HF_TOKEN`, the file that `HF_TOKEN_PATH` names, or `token` in `HF_HOME`
    /// or in the user's cache. A file that cannot be read counts as none until the hub wants a token.
    private mutating func token(_ host: HostEnvironment) -> (token: String, place: String)? {
        func trimmed(_ text: String) -> String {
            String(text.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
        }
        if let text = host.variable("HF_TOKEN").map(trimmed), !text.isEmpty { return (text, "HF_TOKEN") }
        guard let path = Self.path(host) else { return nil }
        do throws(FileError) {
            let text = trimmed(String(decoding: try readFile(path, trust: .input, limit: 8_192), as: UTF8.self))
            return text.isEmpty ? nil : (text, escaped(path))
        } catch {
            if !error.isMissing { unreadToken = "\(error)" }
            return nil
        }
    }

    private static func path(_ host: HostEnvironment) -> String? {
        host.path("HF_TOKEN_PATH", "") ?? host.path("HF_HOME", "/token")
            ?? host.path("XDG_CACHE_HOME", "/huggingface/token") ?? host.path("HOME", "/.cache/huggingface/token")
    }
}

extension HostEnvironment {
    /// A variable of the environment for programs, or of this process.
    func variable(_ name: String) -> String? { variables[name] ?? lookup(name) }

    /// A path below the directory that a variable names; `nil` if it names no absolute one.
    func path(_ name: String, _ rest: String) -> String? {
        variable(name).flatMap { $0.hasPrefix("/") ? $0 + rest : nil }
    }
}
