import SyncManifest
import SyncModel
package import SyncPlugins

/// The git repository that `lfs+https://HOST/PATH.git[@REF]` names, at a branch, a tag or a commit.
package struct LFSAddress: Sendable, Equatable {
    /// As git takes it, such as `https://host/acme/assets.git`.
    package let repository: String
    /// A branch, a tag or a commit; `nil` for the repository's own branch.
    package let reference: String?

    /// The schemes of such URLs.
    package static let schemes: Set = ["lfs+https", "lfs+http", "lfs+file"]

    /// The name of this source in manifests and messages.
    static let name = "lfs"

    /// - Throws: ``/SyncPlugins/PluginError`` with the code `misused` for text that names no repository.
    package init(_ location: String) throws(PluginError) {
        func refused(_ reason: String) -> PluginError { .lfs(.misused, reason) }
        guard let scheme = urlScheme(of: location), Self.schemes.contains(scheme) else {
            throw refused("write lfs+https://HOST/PATH.git")
        }
        let plain = location.dropFirst("lfs+".utf8.count)
        guard !plain.contains(where: { $0 == "?" || $0 == "#" }),
            plain.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x5C && $0 != 0x22 })
        else {
            throw refused("write lfs+https://HOST/PATH.git[@REF], with what is not ASCII as %XX, and without a query")
        }
        let start = plain.firstRange(of: "://").map(\.upperBound) ?? plain.endIndex
        let authority = plain[start...].prefix { $0 != "/" }
        guard !authority.contains("@") else {
            throw refused("leave out the user and the password: git's credential helpers have them")
        }
        guard authority.isEmpty == (scheme == "lfs+file") else {
            throw refused("write lfs+https://HOST/PATH.git, or lfs+file:///PATH.git for a repository on this machine")
        }
        let path = plain[authority.endIndex...]
        // The first `@` behind the repository's name: a branch may have more of them in its own name.
        let split =
            path.firstRange(of: ".git@").map { path.index(before: $0.upperBound) } ?? path.firstIndex(of: "@")
        var directory = path[..<(split ?? path.endIndex)]
        while directory.hasSuffix("/") { directory.removeLast() }
        let components = directory.split(separator: "/")
        guard !components.isEmpty, !components.contains(".."), !components.contains(".") else {
            throw refused("the URL names no repository; write lfs+https://HOST/PATH.git")
        }
        repository = String(plain[..<path.startIndex]) + directory
        guard let split else {
            reference = nil
            return
        }
        let name = String(path[path.index(after: split)...])
        // git-check-ref-format(1), as far as it matters on a command line.
        guard !name.isEmpty, name.utf8.count <= 255, !name.hasPrefix("-"), !name.hasPrefix("/"), !name.hasSuffix("/"),
            !name.contains(".."), !name.contains("@{"), !name.contains(where: { "~^:*[".contains($0) })
        else { throw refused("\(quoted(name)) is not a branch, tag or commit") }
        reference = name
    }

    /// Whether the reference can only be a commit.
    var isCommit: Bool { reference.map(Self.isObject) ?? false }

    /// Whether text is the name of an object of git, as SHA-1.
    static func isObject(_ text: some StringProtocol) -> Bool {
        text.utf8.count == 40 && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    /// The project of its manifest: the last two components of the path.
    var project: String {
        let path = repository.drop { $0 != ":" }.dropFirst(3).drop { $0 != "/" }
        let components = path.split(separator: "/").suffix(2).map { part in
            percentDecoded(part.utf8).map { String(decoding: $0, as: UTF8.self) } ?? String(part)
        }
        let name = components.joined(separator: "/")
        return SourceListing.project(name.hasSuffix(".git") ? String(name.dropLast(4)) : name)
    }

    /// The server of its large files, unless `.lfsconfig` names another. For a repository on this machine, the
    /// repository itself.
    var endpoint: String { repository.hasPrefix("file:") ? repository : repository + "/info/lfs" }
}

extension PluginError {
    /// Why a repository cannot be read.
    static func lfs(_ code: Code, _ message: String) -> PluginError {
        PluginError(plugin: LFSAddress.name, code: code, message: message)
    }
}

/// The place of one file's bytes, as its URL in a manifest names it.
enum LFSObject: Sendable, Equatable {
    /// In LFS: `lfs+` and the server's URL, `/objects/`, the SHA-256, and the size.
    case large(endpoint: String, sha256: String, size: UInt64)
    /// In git itself: `lfs+` and the repository's URL, `/blobs/`, and the blob's name.
    case plain(repository: String, name: String)

    var url: String {
        switch self {
        case .large(let endpoint, let digest, let size): "lfs+\(endpoint)/objects/\(digest)/\(size)"
        case .plain(let repository, let name): "lfs+\(repository)/blobs/\(name)"
        }
    }

    /// `nil` for a URL of neither form.
    init?(_ url: String) {
        guard let scheme = urlScheme(of: url), LFSAddress.schemes.contains(scheme),
            !url.contains(where: { $0 == "?" || $0 == "#" })
        else { return nil }
        let plain = url.dropFirst("lfs+".utf8.count)
        if let range = plain.ranges(of: "/objects/").last {
            let parts = plain[range.upperBound...].split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count == 2, let size = UInt64(parts[1]), size <= UInt64(Int64.max),
                SHA256Digest(hex: parts[0].utf8) != nil
            else { return nil }
            self = .large(endpoint: String(plain[..<range.lowerBound]), sha256: parts[0].lowercased(), size: size)
        } else if let range = plain.ranges(of: "/blobs/").last {
            let name = plain[range.upperBound...]
            guard LFSAddress.isObject(name) else { return nil }
            self = .plain(repository: String(plain[..<range.lowerBound]), name: String(name))
        } else {
            return nil
        }
    }
}

/// The text that git has in place of a file in LFS: a few lines with its SHA-256 and its size.
/// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
struct LFSPointer: Equatable {
    let sha256: String
    let size: UInt64
    /// Whether it has extensions: then the stored bytes are not the content.
    let isExtended: Bool

    /// A pointer is shorter, in **bytes**.
    static let limit = 1_024

    private static let versions = [
        "https://git-lfs.github.com/spec/v1", "http://git-media.io/v/2", "https://hawser.github.com/spec/v1",
    ]

    /// - Returns: `nil` for text that is no pointer.
    init?(_ text: some Sequence<UInt8>) {
        let lines = String(decoding: Array(text), as: UTF8.self).split(separator: "\n")
        guard let first = lines.first, first.hasPrefix("version "),
            Self.versions.contains(String(first.dropFirst("version ".count)))
        else { return nil }
        var digest: String?
        var length: UInt64?
        for line in lines.dropFirst() {
            if line.hasPrefix("oid sha256:") { digest = String(line.dropFirst("oid sha256:".count)) }
            if line.hasPrefix("size ") { length = UInt64(line.dropFirst("size ".count)) }
        }
        guard let digest, let length, length <= UInt64(Int64.max), SHA256Digest(hex: digest.utf8) != nil else {
            return nil
        }
        (sha256, size) = (digest.lowercased(), length)
        isExtended = lines.contains { $0.hasPrefix("ext-") }
    }
}
