package import SyncModel

/// A published set as an artifact in a registry, as the artifact's manifest describes it. Each layer is a file of the
/// published directory under its path there, so that any client that writes layers by their titles gets a directory
/// that can be served.
///
/// Packs are named by their SHA-256, and so are blobs: the path of a pack names its blob.
package struct RegistryRelease: Sendable, Equatable {
    /// A file of the published directory.
    package struct Layer: Sendable, Equatable {
        /// From the published directory, as `packs/SHA256.pack`.
        package let path: String
        package let digest: SHA256Digest
        /// **Bytes**.
        package let size: UInt64

        package init(path: String, digest: SHA256Digest, size: UInt64) {
            (self.path, self.digest, self.size) = (path, digest, size)
        }
    }

    package var project: String
    package var revision: UInt64
    /// When it was published, as the set's manifest has it.
    package var created: String?
    /// SHA-256 of the text of the set's manifest.
    package var manifest: SHA256Digest
    /// In the order of their paths, each once.
    package private(set) var layers: [Layer]

    /// The type of the artifact, and of its empty configuration, which registries and clients show.
    package static let type = "application/vnd.syncagent.release.v1+json"
    /// The path of the set's manifest, as one zstd frame.
    package static let manifestPath = "manifest.json.zst"

    private static let project = "com.syncagent.project"
    private static let revision = "com.syncagent.revision"
    private static let manifest = "com.syncagent.manifest"
    private static let created = "org.opencontainers.image.created"
    private static let title = "org.opencontainers.image.title"

    package init(
        project: String, revision: UInt64, created: String?, manifest: SHA256Digest, layers: [Layer]
    ) {
        (self.project, self.revision, self.created, self.manifest) = (project, revision, created, manifest)
        self.layers = layers.sorted { $0.path < $1.path }
    }

    /// The file with a path; `nil` if there is none.
    package func layer(_ path: String) -> Layer? {
        let next = layers.indices.partitioningIndex { layers[$0].path >= path }
        return next < layers.count && layers[next].path == path ? layers[next] : nil
    }

    /// The pack that a path of a published directory names; its blob has the same name. `nil` for another path.
    package static func pack(_ path: String) -> SHA256Digest? {
        guard path.hasPrefix("packs/"), path.hasSuffix(".pack") else { return nil }
        return SHA256Digest(hex: String(path.dropFirst("packs/".count).dropLast(".pack".count)))
    }

    /// The blob of a file that is no pack; `nil` if there is none. The set's manifest can also be named by its digest.
    package func blob(_ path: String) -> SHA256Digest? {
        layer(path == "manifests/\(manifest).json.zst" ? Self.manifestPath : path)?.digest
    }

    // MARK: Text

    /// The artifact's manifest: equal for equal releases.
    package var json: [UInt8] {
        let line = JSONLine.object { line in
            line.field("schemaVersion", 2)
            line.field("mediaType", RegistryAnswer.imageManifest)
            line.field("artifactType", Self.type)
            line.object("config") { line in
                line.field("mediaType", Self.type)
                line.field("digest", "sha256:\(Self.emptyDigest)")
                line.field("size", Self.empty.count)
            }
            line.list("layers", layers) { layer, line in
                line.field("mediaType", Self.type(of: layer.path))
                line.field("digest", "sha256:\(layer.digest)")
                line.field("size", layer.size)
                line.object("annotations") { $0.field(Self.title, layer.path) }
            }
            line.object("annotations") { line in
                line.field(Self.project, project)
                line.field(Self.revision, "\(revision)")
                line.field(Self.manifest, manifest.hex)
                line.field(Self.created, optional: created)
            }
        }
        return line.bytes
    }

    /// The bytes of the configuration, which registries require as a blob.
    package static let empty = Array("{}".utf8)
    /// The SHA-256 of ``empty``.
    package static let emptyDigest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

    private static func type(of path: String) -> String {
        if path.hasPrefix("packs/") { return "application/vnd.syncagent.pack.v1" }
        if path.hasSuffix(".json.zst") { return "application/vnd.syncagent.manifest.v1+json+zstd" }
        return "application/vnd.syncagent.statement.v1"
    }

    // MARK: Reading

    /// - Parameters:
    ///   - annotations: The annotations of the artifact's manifest.
    ///   - files: Title, digest and size of each layer.
    init(_ annotations: [String: String], _ files: [(title: String?, digest: String, size: UInt64?)])
        throws(ListingError)
    {
        guard let project = annotations[Self.project], let number = annotations[Self.revision],
            let revision = UInt64(number), "\(revision)" == number,
            let manifest = annotations[Self.manifest].flatMap({ SHA256Digest(hex: $0) })
        else {
            throw ListingError("", "it is a release of syncagent without its project or revision; publish it again")
        }
        var layers: [Layer] = []
        for (index, file) in files.enumerated() {
            guard let title = file.title, Self.isPath(title) else { continue }
            guard let digest = RegistryAddress.sha256(Substring(file.digest)), let size = file.size else {
                throw ListingError(
                    "layer \(index + 1)", "it has no size or no SHA-256 digest: \(quoted(file.digest))")
            }
            if title.hasPrefix("packs/"), title != "packs/\(digest).pack" {
                throw ListingError("layer \(index + 1)", "\(quoted(title)) has another digest: \(digest)")
            }
            layers.append(Layer(path: title, digest: digest, size: size))
        }
        self.init(
            project: project, revision: revision, created: annotations[Self.created], manifest: manifest,
            layers: layers)
        for (one, next) in zip(self.layers, self.layers.dropFirst()) where one.path == next.path {
            throw ListingError("", "it has \(quoted(one.path)) twice")
        }
    }

    /// Whether this is a file that a published directory may have.
    private static func isPath(_ title: String) -> Bool {
        if title == manifestPath { return true }
        let parts = title.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, ["packs", "trust", "channels", "manifests"].contains(parts[0]) else { return false }
        return parts[1].utf8.count <= 255 && parts[1].utf8.first != 0x2E
            && parts[1].utf8.allSatisfy { isAlphanumeric($0) || [0x2D, 0x2E, 0x5F].contains($0) }
    }
}
