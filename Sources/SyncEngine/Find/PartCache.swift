import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Parts of manifests fetched before, in the state directory beside the manifests.
///
/// `manifests/<SHA-256 of the text>.part` holds a part as it came out of its pack, `manifests/<root>.parts` lists the
/// digests of a root's parts, one per line; parts in no list are removed. Readers check every part, so nothing has to
/// be synced.
struct PartCache: Sendable {
    let directory: String
    /// Whether nothing is written.
    let isReadOnly: Bool

    init(stateDirectory: String, isReadOnly: Bool) {
        directory = stateDirectory + "/manifests"
        self.isReadOnly = isReadOnly
    }

    /// Whether a part is in the cache; whether it is right is seen when it is read.
    func has(_ digest: SHA256Digest) -> Bool { isPermitted(.read, "\(directory)/\(digest).part") }

    /// A part as stored.
    func part(_ digest: SHA256Digest) -> [UInt8]? { Self.read("\(directory)/\(digest).part") }

    /// Stores a part. A failure only means fetching it again.
    func keep(_ bytes: [UInt8], _ digest: SHA256Digest) { if !isReadOnly { write(bytes, to: "\(digest).part") } }

    /// Lists the parts that a root needs. Without the list, the next cleanup removes them.
    func note(_ parts: some Sequence<SHA256Digest>, of root: SHA256Digest) {
        guard !isReadOnly else { return }
        var text = ""
        for part in parts { text += "\(part)\n" }
        write(Array(text.utf8), to: "\(root).parts")
    }

    /// Removes a root's list, and the parts in no other list.
    func drop(root: SHA256Digest) {
        guard !isReadOnly else { return }
        let own = Self.list("\(directory)/\(root).parts")
        guard !own.isEmpty else { return }
        guard let names = (try? directoryEntries(directory)) ?? nil else { return }
        removeFile("\(directory)/\(root).parts")
        var others: Set<String> = []
        for name in names where name.hasSuffix(".parts") && name != "\(root).parts" {
            others.formUnion(Self.list("\(directory)/\(name)"))
        }
        for part in own where !others.contains(part) { removeFile("\(directory)/\(part).part") }
    }

    private static func list(_ path: String) -> [String] {
        guard let bytes = read(path) else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init).filter {
            SHA256Digest(hex: $0.utf8) != nil
        }
    }

    private static func read(_ path: String) -> [UInt8]? {
        // What cannot be read counts as missing.
        try? readFile(path, trust: .state, limit: ManifestLimits.standard.partBytes)
    }

    private func write(_ bytes: [UInt8], to name: String) {
        // On failure, it is fetched again.
        try? replaceFile("\(directory)/\(name)", with: bytes, isDurable: false)
    }
}
