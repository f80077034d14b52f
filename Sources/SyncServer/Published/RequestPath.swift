import SyncModel

/// The path of a request, taken apart into names that lead downwards. RFC 3986 §2.1 and §3.3.
struct RequestPath: Equatable, Sendable {
    /// Why a path names nothing that could be served.
    enum Refusal: Error, Equatable {
        /// Broken percent-encoding, a NUL, or a slash in disguise.
        case malformed
        /// A name that is never served: `..`, a dot-file, a directory, something too long.
        case notServed
    }

    /// Directories, then the file: percent-decoded bytes, each a single name.
    let names: [[UInt8]]

    /// NAME_MAX of Linux, in **bytes**; limits.h(0p).
    private static let maximumNameLength = 255
    private static let maximumDepth = 128

    /// Takes the path of a request as it came, without query.
    init(_ path: String) throws(Refusal) {
        guard path.utf8.first == 0x2F else { throw .malformed }
        var names: [[UInt8]] = []
        for part in path.utf8.dropFirst().split(separator: 0x2F, omittingEmptySubsequences: false) {
            guard let name = percentDecoded(part), !name.contains(0x2F) else { throw .malformed }
            names.append(name)
        }
        // An empty name is a doubled or a last slash, so a directory. Names that begin with a dot are `..`, `.`,
        // version control and our own state.
        let isServed = names.allSatisfy { name in
            !name.isEmpty && name.count <= Self.maximumNameLength && name.first != 0x2E
        }
        guard isServed, names.count <= Self.maximumDepth else { throw .notServed }
        self.names = names
    }
}
