import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// Manifests fetched before, kept in the state directory so that the next check costs one conditional request.
///
/// `manifests/<SHA-256 of the URL>.head` records the server's answer; `manifests/<digest>.json[.zst]` is the body as
/// received. URLs may contain secrets, so no file and no file name has one. Each file is written whole or not at all.
///
/// `manifests/<SHA-256 of the text>.part` holds a part of a manifest, compressed as a rule, `manifests/<root>.parts`
/// lists the digests of a root's parts, one per line; parts in no list are removed. Readers check every part, so no part
/// has to be synced.
struct ManifestCache: Sendable {
    /// The record of one URL.
    struct Entry: Sendable, Equatable {
        var digest: SHA256Digest
        var validator: Validator
        /// Whether the body came from the `.zst` sibling.
        var isCompressed: Bool
        var project: String
        /// The listing that the body was made from, without its URL; `nil` for a published manifest.
        var source: SourceOrigin?

        var isDerived: Bool { source != nil }
    }

    private let directory: String
    /// Whether nothing is stored.
    let isReadOnly: Bool
    /// The most **bytes** of a body to read.
    private let limit: Int
    /// Whether a manifest that is not the latest of its URL may still be needed.
    private let isNeeded: @Sendable (SHA256Digest) -> Bool

    /// A read-only cache, which need not exist.
    init(reading stateDirectory: String, limit: Int) {
        self.limit = limit
        isNeeded = { _ in true }
        directory = stateDirectory + "/manifests"
        isReadOnly = true
    }

    /// - Parameters:
    ///   - stateDirectory: Absolute; created with mode 0700 if it is missing.
    ///   - limit: The most **bytes** of a body to read.
    ///   - isNeeded: Whether a manifest that is not the latest of its URL may still be needed.
    init(stateDirectory: String, limit: Int, isNeeded: @escaping @Sendable (SHA256Digest) -> Bool) throws(EngineError) {
        self.limit = limit
        self.isNeeded = isNeeded
        directory = stateDirectory + "/manifests"
        isReadOnly = false
        // Entries were checked when they were stored, and are trusted from then on.
        _ = try usable(openPrivateDirectory(directory, create: true), "the state directory: ")
    }

    /// The entry for `url`, if its body is still here.
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
        var entry = Entry(
            digest: digest,
            validator: Validator(
                etag: fields["etag"].map(String.init), lastModified: fields["last-modified"].map(String.init)),
            isCompressed: fields["encoding"] == "zstd", project: String(project))
        if let kind = fields["kind"], let at = fields["at"] {
            entry.source = SourceOrigin(kind: String(kind), url: "", at: String(at))
        }
        return isPermitted(.read, "\(directory)/\(bodyName(entry.digest, entry.isCompressed))") ? entry : nil
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

    /// Whether there is a body of this digest.
    ///
    /// - Throws: ``FileError`` if that cannot be determined.
    func hasBody(_ digest: SHA256Digest) throws(FileError) -> Bool {
        for isCompressed in [true, false] {
            do throws(FileError) {
                _ = try openFile("\(directory)/\(bodyName(digest, isCompressed))", trust: .state)
                return true
            } catch {
                // A file that is not ours counts as missing.
                guard error.isMissing || error.isRefusal else { throw error }
            }
        }
        return false
    }

    /// Stores a body without a URL. A failure only means fetching it again.
    func keep(_ body: [UInt8], _ digest: SHA256Digest, isCompressed: Bool) {
        _ = write(body, to: bodyName(digest, isCompressed))
    }

    /// Stores a body and the server's answer. A failure only costs a request next time.
    func remember(_ entry: Entry, body: [UInt8], for url: String) {
        guard let head = headName(url), write(body, to: bodyName(entry.digest, entry.isCompressed)) else { return }
        let old = self.entry(for: url)
        var text = "format 1\ndigest \(entry.digest)\nproject \(entry.project)\n"
        for (key, value) in [("etag", entry.validator.etag), ("last-modified", entry.validator.lastModified)] {
            if let value, !value.utf8.contains(where: { $0 < 0x20 }) { text += "\(key) \(value)\n" }
        }
        if entry.isCompressed { text += "encoding zstd\n" }
        if let source = entry.source { text += "kind \(source.kind)\nat \(source.at)\n" }
        guard write(Array(text.utf8), to: head) else { return }
        if let old, old.digest != entry.digest, !isNeeded(old.digest) {
            removeFile("\(directory)/\(bodyName(old.digest, old.isCompressed))")
            dropParts(of: old.digest)
        }
    }

    /// Forgets the server's answer, so that the next request is unconditional.
    func forget(_ url: String) { if let head = headName(url) { removeFile("\(directory)/\(head)") } }

    private func headName(_ url: String) -> String? {
        (try? sha256(url)).map { "\($0).head" }  // No memory: as if nothing were known.
    }

    private func bodyName(_ digest: SHA256Digest, _ isCompressed: Bool) -> String {
        "\(digest).json" + (isCompressed ? ".zst" : "")
    }

    private func read(_ name: String) -> [UInt8]? {
        // A file that is not ours counts as missing.
        try? readFile("\(directory)/\(name)", trust: .state, limit: limit)
    }

    private func write(_ bytes: [UInt8], to name: String) -> Bool {
        // After a failure the file is fetched again.
        !isReadOnly && (try? replaceFile("\(directory)/\(name)", with: bytes, isNameDurable: false)) != nil
    }

    // MARK: Parts

    /// Whether a part is in the cache; its bytes are checked when they are read.
    func hasPart(_ digest: SHA256Digest) -> Bool { isPermitted(.read, "\(directory)/\(digest).part") }

    /// A part as stored.
    func part(_ digest: SHA256Digest) -> [UInt8]? {
        // A part that cannot be read counts as missing.
        try? readFile("\(directory)/\(digest).part", trust: .state, limit: ManifestLimits.standard.partBytes)
    }

    /// Stores a part. A failure only means fetching it again.
    func keep(part bytes: [UInt8], _ digest: SHA256Digest) { write(part: bytes, to: "\(digest).part") }

    /// Lists the parts that a root needs. Without the list, the next cleanup removes them.
    func note(_ parts: some Sequence<SHA256Digest>, of root: SHA256Digest) {
        var text = ""
        for part in parts { text += "\(part)\n" }
        write(part: Array(text.utf8), to: "\(root).parts")
    }

    /// Removes a root's list, and the parts in no other list.
    private func dropParts(of root: SHA256Digest) {
        guard let own = list("\(root).parts"), !own.isEmpty else { return }
        guard let names = (try? directoryEntries(directory)) ?? nil else { return }
        var others: Set<String> = []
        for name in names where name.hasSuffix(".parts") && name != "\(root).parts" {
            // Without another root's list, nobody knows which parts it needs: all stay, until 'syncagent gc'.
            guard let list = list(name) else { return }
            others.formUnion(list)
        }
        removeFile("\(directory)/\(root).parts")
        for part in own where !others.contains(part) { removeFile("\(directory)/\(part).part") }
    }

    /// The parts in a list; empty if there is no list of ours, `nil` if it cannot be read.
    private func list(_ name: String) -> [String]? {
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile("\(directory)/\(name)", trust: .state, limit: ManifestLimits.standard.partBytes)
        } catch { return error.isMissing || error.isRefusal ? [] : nil }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init).filter {
            SHA256Digest(hex: $0.utf8) != nil
        }
    }

    private func write(part bytes: [UInt8], to name: String) {
        // After a failure the file is fetched again.
        if !isReadOnly { try? replaceFile("\(directory)/\(name)", with: bytes, isDurable: false) }
    }
}
