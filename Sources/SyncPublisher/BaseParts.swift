import CPosix
import SyncCompression
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel

/// Reads the parts of a base out of its packs, in the output directory or beside the base.
enum BaseParts {
    /// The text of one part, its SHA-256 checked.
    static func read(
        _ part: Manifest.Part,
        _ index: Int,
        _ pack: Manifest.Pack,
        manifest: String,
        _ output: OutputDirectory
    ) throws(PublishError) -> [UInt8] {
        let blob = part.blob
        guard let stored = stored(blob, pack, manifest, output) else {
            throw PublishError(
                .invalidBase,
                "\(shown(manifest)): part \(index) is in the pack \(pack.sha256.hex), which is not here",
                remedy: "bring the packs of the base into the output directory, or publish with --no-base"
            )
        }
        var raw = stored
        if blob.codec == .zstd {
            let decoded = stored.withUnsafeBytes { frame -> [UInt8]? in
                // What cannot be decoded has no text, which its digest does not fit.
                try? decodeZstd(frame, limit: Int(clamping: blob.rawLength))
            }
            raw = decoded ?? []
        }
        let digest: SHA256Digest?
        do throws(DigestError) { digest = try sha256(raw) } catch { throw .refusedCall(error) }
        guard UInt64(raw.count) == blob.rawLength, digest == part.digest else {
            throw PublishError(
                .invalidBase,
                "\(shown(manifest)): part \(index) is not what the manifest says; its pack is \(pack.sha256.hex)",
                remedy: "repair the pack, or publish with --no-base"
            )
        }
        return raw
    }

    private static func stored(
        _ blob: Blob,
        _ pack: Manifest.Pack,
        _ manifest: String,
        _ output: OutputDirectory
    ) -> [UInt8]? {
        if let file = output.open(.packs, pack.sha256.hex + ".pack"), let bytes = read(file.raw, blob) {
            return bytes
        }
        let directory = manifest.lastIndex(of: "/").map { String(manifest[...$0]) } ?? ""
        for url in pack.urls where !url.contains("://") && !url.hasPrefix("/") {
            let raw = sa_openat(AT_FDCWD, directory + url, O_RDONLY, 0)
            guard raw >= 0 else { continue }
            let file = Descriptor(owning: raw)
            if let bytes = read(file.raw, blob) { return bytes }
        }
        return nil
    }

    private static func read(_ file: Int32, _ blob: Blob) -> [UInt8]? {
        guard let count = Int(exactly: blob.storedLength) else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        return bytes.withUnsafeMutableBytes { readFully(file, into: $0, at: blob.offset) } == count
            ? bytes : nil
    }

    private static func sha256(_ bytes: [UInt8]) throws(DigestError) -> SHA256Digest {
        let result: Result<SHA256Digest, DigestError> = bytes.withUnsafeBytes { buffer in
            do throws(DigestError) { return .success(try SyncDigest.sha256(buffer)) } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}
