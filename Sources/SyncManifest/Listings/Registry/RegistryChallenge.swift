import SyncModel

/// The credentials that a registry asks for, as `WWW-Authenticate` says. RFC 9110 §11.6.1; Distribution, "Token
/// Authentication".
package enum RegistryChallenge: Sendable, Equatable {
    /// A token from the server at `realm`.
    case bearer(realm: String, service: String?, scope: String?)
    /// A user name and a password.
    case basic

    /// Reads a challenge: a token if it offers that, else a password; `nil` for other schemes, and for malformed text.
    package init?(_ text: String) {
        guard text.utf8.count <= 8_192 else { return nil }
        var found: [(scheme: String, parameters: [String: String])] = []
        var rest = text[...]
        while true {
            rest = rest.drop { $0 == " " || $0 == "\t" || $0 == "," }
            guard !rest.isEmpty else { break }
            let word = rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || "-_.~+!#$%&'*^`|".contains($0)) }
            guard !word.isEmpty else { return nil }
            rest = rest[word.endIndex...].drop { $0 == " " || $0 == "\t" }
            guard rest.first == "=" else {
                found.append((word.lowercased(), [:]))
                continue
            }
            rest = rest.dropFirst().drop { $0 == " " || $0 == "\t" }
            guard let value = Self.value(&rest), !found.isEmpty else { return nil }
            let name = word.lowercased()
            if found[found.count - 1].parameters[name] == nil { found[found.count - 1].parameters[name] = value }
        }
        for (scheme, parameters) in found {
            if scheme == "bearer", let realm = parameters["realm"], !realm.isEmpty {
                self = .bearer(realm: realm, service: parameters["service"], scope: parameters["scope"])
                return
            }
        }
        guard found.contains(where: { $0.scheme == "basic" }) else { return nil }
        self = .basic
    }

    /// A token or a quoted string.
    private static func value(_ rest: inout Substring) -> String? {
        guard rest.first == "\"" else {
            let word = rest.prefix { $0 != "," && $0 != " " && $0 != "\t" }
            rest = rest[word.endIndex...]
            return String(word)
        }
        rest = rest.dropFirst()
        var value = ""
        while let character = rest.popFirst() {
            if character == "\"" { return value }
            if character == "\\", let next = rest.popFirst() { value.append(next) } else { value.append(character) }
        }
        return nil
    }
}

/// The answer of a token server.
package struct RegistryToken: Sendable, Equatable {
    package let token: String
    /// The lifetime of the token, in **seconds**.
    package let seconds: UInt64

    /// The longest answer, in **bytes**.
    package static let limit = 128 << 10

    package init(_ text: [UInt8]) throws(ListingError) {
        let found: (token: String?, seconds: UInt64?)
        do throws(ManifestError) {
            found = try text.withUnsafeBufferPointer { bytes throws(ManifestError) in
                var reader = JSONReader(bytes, limits: .standard)
                var found: (token: String?, seconds: UInt64?) = (nil, nil)
                try reader.beginObject()
                while let key = try reader.nextKey() {
                    switch String(decoding: key, as: UTF8.self) {
                    case "token", "access_token":
                        let token = String(decoding: try reader.string(), as: UTF8.self)
                        if !token.isEmpty { found.token = token }
                    case "expires_in": found.seconds = try reader.integer()
                    default: try reader.skipValue()
                    }
                }
                return found
            }
        } catch { throw ListingError("", "its answer cannot be read: \(error.reason)") }
        guard let token = found.token, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw ListingError("", "there is no token in its answer")
        }
        // The default is a minute.
        (self.token, seconds) = (token, found.seconds ?? 60)
    }
}
