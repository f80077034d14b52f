package import SyncModel

/// A place in a bucket, as users write it: `s3://BUCKET[/PREFIX]`, with `?endpoint=URL` and `&region=NAME` where it is
/// not in AWS's own cloud.
package struct S3Address: Sendable, Equatable {
    package let bucket: String
    /// The prefix of object names, without slashes at its ends; empty for the whole bucket.
    package private(set) var prefix: String
    /// `https://storage.example.com`, in place of AWS's.
    package var endpoint: String?
    package var region: String?

    package static let scheme = "s3"

    /// Reads a URL.
    package init(_ text: String) throws(S3Fault) {
        func refused(_ reason: String) -> S3Fault { S3Fault(.usage, "\(redacted(url: text)): \(reason)") }
        guard urlScheme(of: text) == Self.scheme else { throw refused("not of the form s3://BUCKET/PREFIX") }
        let plain = text.prefix { $0 != "?" && $0 != "#" }
        let rest = plain.dropFirst(Self.scheme.utf8.count + 3)
        bucket = String(rest.prefix { $0 != "/" })
        // Messages repeat neither a secret key nor a query.
        guard !bucket.contains("@") else { throw refused("a user name in a URL; keys are for AWS's own files") }
        guard (3...255).contains(bucket.utf8.count),
            bucket.utf8.allSatisfy({ isAlphanumeric($0) || [0x2D, 0x2E, 0x5F].contains($0) })
        else { throw refused("'\(escaped(bucket))' is not the name of a bucket") }
        guard let name = percentDecoded(rest.dropFirst(bucket.utf8.count).utf8),
            let decoded = String(validating: name, as: UTF8.self), decoded.isOneLine
        else { throw refused("not the name of an object") }
        var steps = decoded.split(separator: "/", omittingEmptySubsequences: false)[...]
        while steps.first?.isEmpty == true { steps.removeFirst() }
        while steps.last?.isEmpty == true { steps.removeLast() }
        guard !steps.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) else {
            throw refused("a prefix with '.', '..' or nothing between two slashes, which programs read differently")
        }
        prefix = steps.joined(separator: "/")
        guard prefix.utf8.count <= 900 else { throw refused("a prefix of more than 900 bytes") }
        for field in text.dropFirst(plain.count).drop(while: { $0 == "?" }).prefix(while: { $0 != "#" })
            .split(separator: "&")
        {
            let sides = field.split(separator: "=", maxSplits: 1)
            let value =
                sides.count == 2 ? percentDecoded(sides[1].utf8).map { String(decoding: $0, as: UTF8.self) } : nil
            switch sides.first {
            case "endpoint": endpoint = value
            case "region": region = value
            default:
                let name = escaped(String(sides.first ?? ""))
                throw refused("it takes ?endpoint=URL and ?region=NAME, not '\(name)'")
            }
        }
    }

    /// The object with a name below the prefix.
    package func object(_ name: String) -> S3Address {
        var object = self
        object.prefix = prefix.isEmpty ? name : "\(prefix)/\(name)"
        return object
    }

    /// For people: without endpoint and region.
    package var shown: String { prefix.isEmpty ? "s3://\(bucket)" : "s3://\(bucket)/\(prefix)" }

    /// The URL that can be read again, with endpoint and region.
    package var text: String {
        let path = percentEncoded(bytes: prefix.utf8)
        var fields: [String] = []
        if let endpoint { fields.append("endpoint=" + percentEncoded(bytes: endpoint.utf8)) }
        if let region { fields.append("region=" + percentEncoded(bytes: region.utf8)) }
        return "s3://\(bucket)" + (path.isEmpty ? "" : "/\(path)")
            + (fields.isEmpty ? "" : "?" + fields.joined(separator: "&"))
    }
}

/// An error of a bucket, its credentials or its settings.
package struct S3Fault: Error, Sendable, CustomStringConvertible {
    /// Usage for a request that makes no sense, configuration for files and variables, refused for a user without
    /// access, unavailable for what may be there later.
    package let exitStatus: ExitStatus
    /// One line, without secrets.
    package let reason: String

    package init(_ exitStatus: ExitStatus, _ reason: String) { (self.exitStatus, self.reason) = (exitStatus, reason) }

    package var description: String { reason }
}
