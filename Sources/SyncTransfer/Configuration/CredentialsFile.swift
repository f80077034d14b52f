import SyncModel
import SyncPlugins
import SyncSystem

/// A file of credentials by origin, with one section for each origin:
/// ```ini
/// # Lines that begin with # are comments.
/// [https://files.example.com]
/// type = basic
/// user = alice
/// password = …
///
/// [https://bucket.s3.eu-central-1.amazonaws.com]
/// type = sigv4
/// access-key = …
/// secret-key = …
/// region = eu-central-1
/// service = s3
/// ```
/// and `type = bearer` with `token`. A value is everything after the first `=`, without the blanks around it.
extension Credentials {
    /// The reason why a file is refused. Never contains a value from the file.
    package struct Refusal: Error, Equatable, CustomStringConvertible {
        /// The line, the reason and the remedy.
        package let description: String
    }

    /// Reads a file that its owner alone may read.
    ///
    /// - Throws: ``Refusal`` when the file cannot be read, belongs to another user, is accessible to others, or is
    ///   malformed, or when others may write to its directory.
    package static func read(path: String) throws(Refusal) -> Credentials {
        let text: String
        do throws(FileError) { text = try readSecret(path, limit: maximumSize) } catch {
            throw Refusal(description: "the credentials file \(path): \(error.reason)")
        }
        do { return try parse(text) } catch { throw Refusal(description: "\(path): \(error.description)") }
    }

    /// Parses the text of a credentials file.
    package static func parse(_ text: String) throws(Refusal) -> Credentials {
        var credentials = Credentials()
        var section: (origin: Origin, line: Int, fields: [String: String])?
        var number = 0
        for raw in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            number += 1
            let line = raw.trimmed
            if line.isEmpty || line.hasPrefix("#") { continue }
            if line.hasPrefix("[") {
                try add(section, to: &credentials)
                section = (try origin(in: line, number), number, [:])
                continue
            }
            guard let equals = line.firstIndex(of: "=") else {
                throw refusal(number, "neither [origin] nor name = value")
            }
            guard section != nil else { throw refusal(number, "a value before the first [origin]") }
            let name = line[..<equals].trimmed
            let value = String(line[line.index(after: equals)...].trimmed)
            guard names.contains(String(name)) else { throw refusal(number, "unknown name \(name)") }
            guard !value.isEmpty else { throw refusal(number, "\(name) has no value") }
            guard value.isOneLine else { throw refusal(number, "\(name) has control characters") }
            guard section?.fields.updateValue(value, forKey: String(name)) == nil else {
                throw refusal(number, "\(name) appears twice")
            }
        }
        try add(section, to: &credentials)
        return credentials
    }

    private static func origin(in line: Substring, _ number: Int) throws(Refusal) -> Origin {
        guard line.hasSuffix("]"), let url = try? CurlURL(String(line.dropFirst().dropLast())), url.path == "/",
            url.query == nil, !line.dropLast().hasSuffix("/")
        else { throw refusal(number, "not an origin; write [https://host] or [https://host:port]") }
        return url.origin
    }

    private static func add(
        _ section: (origin: Origin, line: Int, fields: [String: String])?, to credentials: inout Credentials
    ) throws(Refusal) {
        guard let (origin, line, fields) = section else { return }
        guard credentials[origin] == nil else { throw refusal(line, "\(origin) appears twice") }
        var rest = fields
        func take(_ name: String) throws(Refusal) -> String {
            guard let value = rest.removeValue(forKey: name) else { throw refusal(line, "\(origin) lacks \(name)") }
            return value
        }
        let kind: Credential.Kind
        switch try take("type") {
        case "basic":
            kind = .basic(user: try take("user"), password: try take("password"))
            // What follows it would count as the password. RFC 7617 section 2.
            guard fields["user"]?.contains(":") != true else {
                throw refusal(line, "\(origin): a user name has no colon")
            }
        case "bearer": kind = .bearer(token: try take("token"))
        case "sigv4":
            let session = rest.removeValue(forKey: "session-token")
            kind = .sigV4(
                accessKey: try take("access-key"), secretKey: try take("secret-key"), sessionToken: session,
                region: try take("region"), service: rest.removeValue(forKey: "service") ?? "s3")
        default: throw refusal(line, "\(origin): the type is basic, bearer or sigv4")
        }
        guard let extra = rest.keys.sorted().first else {
            credentials[origin] = kind
            return
        }
        throw refusal(line, "\(origin): \(extra) does not belong to its type")
    }

    private static let names: Set = [
        "type", "user", "password", "token", "access-key", "secret-key", "session-token", "region", "service",
    ]

    /// Most **bytes** of a file; enough for thousands of origins.
    private static let maximumSize = 1 << 20

    private static func refusal(_ line: Int, _ detail: String) -> Refusal {
        Refusal(description: "line \(line): \(detail)")
    }
}
