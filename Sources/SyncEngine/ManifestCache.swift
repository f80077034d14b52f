import CPosix
import SyncDigest
import SyncFiles
import SyncModel
import SyncPlugins

/// Manifests fetched before, in the state directory, so that asking again costs one conditional request.
///
/// `manifests/<SHA-256 of the URL>.head` says what the server said; `manifests/<digest>.json[.zst]` holds the
/// body as received. URLs may carry secrets, so they are not in any name or file. Both are written whole or
/// not at all.
struct ManifestCache: Sendable {
    /// What is known about one URL.
    struct Entry: Sendable, Equatable {
        var digest: SHA256Digest
        var validator: Validator
        /// Whether the body came from the `.zst` sibling.
        var isCompressed: Bool
        var project: String
    }

    private let directory: String
    let parts: PartCache
    /// Whether somebody may still ask for a manifest that is not the latest of its URL.
    private let isNeeded: @Sendable (SHA256Digest) -> Bool

    /// - Parameters:
    ///   - stateDirectory: Absolute; made, 0700, when it is missing.
    ///   - isNeeded: Whether somebody may still ask for a manifest that is not the latest of its URL.
    init(
        stateDirectory: String,
        isNeeded: @escaping @Sendable (SHA256Digest) -> Bool
    ) throws(EngineError) {
        self.isNeeded = isNeeded
        directory = stateDirectory + "/manifests"
        parts = PartCache(stateDirectory: stateDirectory, isReadOnly: false)
        var prefix = ""
        for component in directory.split(separator: "/") {
            prefix += "/" + component
            if mkdir(prefix, 0o700) != 0, access(prefix, F_OK) != 0 {
                throw EngineError(
                    .cannotCreate,
                    "cannot create the state directory \(escaped(prefix)): \(String(cString: strerror(sa_errno())))"
                )
            }
        }
    }

    /// What is known about `url`, if its body is still here.
    func entry(for url: String) -> Entry? {
        guard let name = headName(url), let bytes = read(name) else { return nil }
        var fields: [Substring: Substring] = [:]
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            guard let space = line.firstIndex(of: " ") else { continue }
            fields[line[..<space]] = line[line.index(after: space)...]
        }
        guard fields["format"] == "1", let digest = fields["digest"].flatMap({ SHA256Digest(hex: $0.utf8) }),
            let project = fields["project"]
        else { return nil }
        let entry = Entry(
            digest: digest,
            validator: Validator(
                etag: fields["etag"].map(String.init),
                lastModified: fields["last-modified"].map(String.init)
            ),
            isCompressed: fields["encoding"] == "zstd",
            project: String(project)
        )
        return access("\(directory)/\(bodyName(entry.digest, entry.isCompressed))", R_OK) == 0 ? entry : nil
    }

    /// The body of an entry, as received.
    func body(of entry: Entry) -> [UInt8]? { read(bodyName(entry.digest, entry.isCompressed)) }

    /// A body by its digest, and whether it is compressed.
    func body(_ digest: SHA256Digest) -> (bytes: [UInt8], isCompressed: Bool)? {
        for isCompressed in [true, false] {
            if let bytes = read(bodyName(digest, isCompressed)) { return (bytes, isCompressed) }
        }
        return nil
    }

    /// Keeps a body without a URL. A failure only costs reading the manifest again.
    func keep(_ body: [UInt8], _ digest: SHA256Digest, isCompressed: Bool) {
        _ = write(body, to: bodyName(digest, isCompressed))
    }

    /// Remembers a body and what the server said about it. A failure only costs a request next time.
    func remember(_ entry: Entry, body: [UInt8], for url: String) {
        guard let head = headName(url), write(body, to: bodyName(entry.digest, entry.isCompressed)) else {
            return
        }
        let old = self.entry(for: url)
        var text = "format 1\ndigest \(entry.digest)\nproject \(entry.project)\n"
        if let etag = entry.validator.etag, !etag.contains("\n") { text += "etag \(etag)\n" }
        if let date = entry.validator.lastModified, !date.contains("\n") { text += "last-modified \(date)\n" }
        if entry.isCompressed { text += "encoding zstd\n" }
        guard write(Array(text.utf8), to: head) else { return }
        if let old, old.digest != entry.digest, !isNeeded(old.digest) {
            unlink("\(directory)/\(bodyName(old.digest, old.isCompressed))")
            parts.drop(root: old.digest)
        }
    }

    /// Forgets what the server said, so that the next request is without condition.
    func forget(_ url: String) {
        if let head = headName(url) { unlink("\(directory)/\(head)") }
    }

    private func headName(_ url: String) -> String? {
        (try? sha256(url)).map { "\($0).head" }  // No memory: as if nothing were known.
    }

    private func bodyName(_ digest: SHA256Digest, _ isCompressed: Bool) -> String {
        "\(digest).json" + (isCompressed ? ".zst" : "")
    }

    private func read(_ name: String) -> [UInt8]? { readFile("\(directory)/\(name)") }

    private func write(_ bytes: [UInt8], to name: String) -> Bool {
        replaceFile("\(directory)/\(name)", with: bytes, durable: true)
    }
}

/// Puts a file in place whole, under a temporary name first.
///
/// - Parameter durable: Whether to fdatasync(2) before the rename.
/// - Returns: Whether it is there.
func replaceFile(_ path: String, with bytes: [UInt8], durable: Bool) -> Bool {
    let temporary = "\(path).\(getpid()).new"
    let raw = sa_openat(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600)
    guard raw >= 0 else { return false }
    let file = Descriptor(owning: raw)
    let code = bytes.withUnsafeBytes { writeAll(file.raw, $0, at: 0) }
    guard code == 0, !durable || fdatasync(file.raw) == 0, rename(temporary, path) == 0 else {
        unlink(temporary)
        return false
    }
    return true
}

/// A whole file's bytes, or `nil` with errno set: EFBIG for one of more than `limit` **bytes**.
func readFile(_ path: String, limit: Int = 1 << 30) -> [UInt8]? {
    let raw = sa_openat(AT_FDCWD, path, O_RDONLY, 0)
    guard raw >= 0 else { return nil }
    let file = Descriptor(owning: raw)
    guard let status = status(file.raw), status.kind == .file, let count = Int(exactly: status.size) else {
        sa_set_errno(EISDIR)
        return nil
    }
    guard count <= limit else {
        sa_set_errno(EFBIG)
        return nil
    }
    var isWhole = false
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
        let read = readFully(file.raw, into: UnsafeMutableRawBufferPointer(buffer), at: 0)
        isWhole = read == count
        used = max(0, read)
    }
    return isWhole ? bytes : nil
}
