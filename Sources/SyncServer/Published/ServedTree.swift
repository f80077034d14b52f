package import SyncModel
import SyncSystem

/// Why nothing is served at a path, with the status of the answer.
package enum Unserved: Int, Error {
    /// Invalid percent-encoding, a NUL, or an encoded slash.
    case malformed = 400
    /// The file does not exist or is not a regular file, or its name is never served: `..`, a directory, too long, or a
    /// dot-file that no manifest names.
    case notFound = 404
    /// The file's permissions keep this process out.
    case forbidden = 403
    /// The process lacks descriptors or memory; a retry may succeed.
    case unavailable = 503
}

/// The directory that is served, and the only access to its files.
///
/// Each name of a path is opened relative to its directory, and none may be a symbolic link: nothing outside the tree
/// can be reached, whatever is renamed meanwhile. openat(2), ``OpenFlags/noFollow``.
final class ServedTree: Sendable {
    private let root: SharedDescriptor

    /// Opens the directory at `path`, which may itself be a link.
    init(path: String) throws(ServerError) {
        guard let opened = openDirectory(path) else {
            throw ServerError(.noInput, "Cannot serve \(escaped(path)): \(errnoText).")
        }
        root = SharedDescriptor(opened)
    }

    /// Whether a file can be served at `path`.
    func contains(_ path: String) -> Bool {
        // A path that is refused or cannot be opened does not exist.
        guard let names = try? RequestPath(path) else { return false }
        return (try? file(at: names)) != nil
    }

    /// Opens the regular file at `path` for reading.
    func file(at path: RequestPath) throws(Unserved) -> (version: FileVersion, content: OpenFile) {
        guard !path.isHidden else { throw .notFound }
        var directory = root
        for name in path.names.dropLast() {
            directory = SharedDescriptor(try Self.open(name, in: directory, .realDirectory))
        }
        guard let name = path.names.last else { throw .notFound }
        // Checked first, because opening a device or a FIFO can have side effects.
        try Self.requireRegularFile(name, in: directory)
        let file = try Self.open(name, in: directory, .unwaitingNoFollow)
        let status = status(file.raw)
        let content = OpenFile(owning: file.release())
        guard let status, status.kind == .file else { throw .notFound }
        return (FileVersion(status), content)
    }

    private static func open(_ name: [UInt8], in directory: SharedDescriptor, _ flags: OpenFlags) throws(Unserved)
        -> Descriptor
    {
        guard let opened = Descriptor(opening: name.map(CChar.init(bitPattern:)) + [0], in: directory.raw, flags) else {
            throw failure(.last)
        }
        return opened
    }

    private static func requireRegularFile(_ name: [UInt8], in directory: SharedDescriptor) throws(Unserved) {
        switch status(directory.raw, name.map(CChar.init(bitPattern:)) + [0]) {
        case .success(let found): guard found?.kind == .file else { throw .notFound }
        case .failure(let code): throw failure(code)
        }
    }

    private static func failure(_ code: Errno) -> Unserved {
        switch code {
        case .permissionDenied, .notPermitted: .forbidden
        case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory: .unavailable
        default: .notFound
        }
    }
}

extension FileVersion {
    /// A file's version from its inode, size and times, the fields that git's stat cache trusts, too.
    fileprivate init(_ status: FileStatus) {
        let times = [status.modified, status.changed].map(UInt64.init(bitPattern:))
        size = status.size
        modified = HTTPDate(seconds: status.modified / 1_000_000_000)
        entityTag =
            "\"" + ([status.inode, status.size] + times).map { String($0, radix: 36) }.joined(separator: "-") + "\""
    }
}

/// The path of a request, split into names that lead downwards. RFC 3986 §2.1 and §3.3.
package struct RequestPath: Equatable, Sendable {
    /// Directories, then the file: percent-decoded bytes, each a single name.
    package let names: [[UInt8]]

    /// NAME_MAX of Linux, in **bytes**; limits.h(0p).
    private static let maximumNameLength = 255
    /// The depth of a path of PATH_MAX **bytes**.
    private static let maximumDepth = 2_048

    /// Parses the path of a request as received, without query.
    package init(_ path: String) throws(Unserved) {
        guard path.utf8.first == 0x2F else { throw .malformed }
        var names: [[UInt8]] = []
        for part in path.utf8.dropFirst().split(separator: 0x2F, omittingEmptySubsequences: false) {
            guard let name = percentDecoded(part), !name.contains(0x2F) else { throw .malformed }
            names.append(name)
        }
        // An empty name comes from a doubled or trailing slash, so it denotes a directory.
        let isServed = names.allSatisfy { name in
            !name.isEmpty && name.count <= Self.maximumNameLength && name != [0x2E] && name != [0x2E, 0x2E]
        }
        guard isServed, names.count <= Self.maximumDepth else { throw .notFound }
        self.names = names
    }

    /// Whether a name begins with a dot: it may be version control, or our own state.
    package var isHidden: Bool { names.contains { $0.first == 0x2E } }
}

/// The cache control and the media type of an object.
extension RequestPath {
    /// A pack is named by its digest, so it never changes; everything else is revalidated each time, which its entity
    /// tag makes cheap. RFC 9111 §5.2.2, RFC 8246.
    package var cacheControl: String {
        isPack ? "public, max-age=31536000, immutable, no-transform" : "no-cache, no-transform"
    }

    /// The media type by suffix. Packs and assets are opaque.
    package var contentType: String {
        let name = String(decoding: names.last ?? [], as: UTF8.self)
        if name.hasSuffix(".json") { return "application/json" }
        return name.hasSuffix(".zst") ? "application/zstd" : "application/octet-stream"
    }

    /// The digest in the name of a pack, if the path ends in `packs/<sha256>.pack`.
    package var pack: SHA256Digest? {
        let suffix = Array(".pack".utf8)
        guard names.count >= 2, let name = names.last, name.suffix(suffix.count).elementsEqual(suffix),
            names[names.count - 2].elementsEqual("packs".utf8)
        else { return nil }
        return SHA256Digest(hex: name.dropLast(suffix.count))
    }

    /// Whether the path ends in `packs/<sha256>.pack`.
    var isPack: Bool { pack != nil }
}
