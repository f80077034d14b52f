package import SyncModel

/// Reads the manifests that a registry sends: JSON, of which only the needed members are read. OCI Image Specification
/// 1.1 and Docker's Image Manifest 2.2, whose fields are the same.
package enum RegistryAnswer {
    /// The longest manifest, in **bytes**, as registries limit it.
    package static let limit = 4 << 20
    /// Most layers of a manifest, and entries of an index.
    package static let mostLayers = 20_000, mostEntries = 2_000
    /// How deep indexes may be nested.
    package static let mostLevels = 4

    package static let imageManifest = "application/vnd.oci.image.manifest.v1+json"
    private static let dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
    private static let artifactManifest = "application/vnd.oci.artifact.manifest.v1+json"
    private static let indexes = [
        "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
    ]

    /// The kinds of manifests that are read, as `Accept` has them.
    package static var accepted: String {
        ([imageManifest, dockerManifest, artifactManifest] + indexes).joined(separator: ", ")
    }

    /// The machines that a manifest of an index is for.
    package struct Platform: Sendable, Equatable, CustomStringConvertible {
        package var system, architecture: String
        package var variant: String?

        package var description: String {
            "\(system)/\(architecture)" + (variant.map { "/\($0)" } ?? "")
        }

        /// The platform of this machine.
        package static let own: Platform = {
            #if arch(x86_64)
                Platform(system: "linux", architecture: "amd64")
            #elseif arch(arm64)
                Platform(system: "linux", architecture: "arm64")
            #else
                Platform(system: "linux", architecture: "unknown")
            #endif
        }()
    }

    /// The content of a manifest.
    package enum Manifest: Sendable {
        /// Files, each with its digest.
        case files(SourceListing)
        /// A set that was published there.
        case release(RegistryRelease)
        /// Another manifest is to be read, by this digest.
        case elsewhere(SHA256Digest)
    }

    /// Reads a manifest, or chooses one of an index.
    ///
    /// - Parameters:
    ///   - prefix: The URL of a blob, up to its digest.
    ///   - platform: The machine for which a manifest is chosen.
    package static func read(_ text: [UInt8], prefix: String, platform: Platform = .own) throws(ListingError)
        -> Manifest
    {
        let document = try Document(text)
        let type = document.mediaType ?? ""
        if document.isFirstVersion {
            throw ListingError("", "it is in the first version of docker's format, which names no files; push it again")
        }
        // If there is no media type, the members tell the kind.
        if indexes.contains(type) || type.isEmpty && document.layers == nil && document.manifests != nil {
            return .elsewhere(try choose(document.manifests ?? [], platform))
        }
        guard type.isEmpty || [imageManifest, dockerManifest, artifactManifest].contains(type),
            let layers = document.layers
        else {
            throw ListingError(
                "", "it is not the manifest of an artifact but \(quoted(type.isEmpty ? "something else" : type))")
        }
        if document.artifactType == RegistryRelease.type || document.configurationType == RegistryRelease.type {
            let files = layers.map { ($0.annotations[titles[0]], $0.digest, $0.size) }
            return .release(try RegistryRelease(document.annotations, files))
        }
        return .files(try files(layers, prefix: prefix))
    }

    /// Whether an answer is a manifest, even one that ``read(_:prefix:platform:)`` refuses: with layers, or an index.
    package static func isManifest(_ text: [UInt8]) -> Bool {
        guard let document = try? Document(text) else { return false }
        return document.layers != nil || document.manifests != nil
    }

    // MARK: Index

    /// The manifest for a machine, or the only one there is.
    private static func choose(_ all: [Descriptor], _ platform: Platform) throws(ListingError) -> SHA256Digest {
        // Without the signed statements about other manifests, which docker's builder adds.
        let entries = all.filter { entry in
            entry.annotations["vnd.docker.reference.type"] == nil
                && (entry.mediaType == imageManifest || entry.mediaType == dockerManifest
                    || entry.mediaType == artifactManifest || indexes.contains(entry.mediaType))
        }
        func isFitting(_ entry: Descriptor) -> Bool {
            entry.platform?.system == platform.system && entry.platform?.architecture == platform.architecture
        }
        let plain = entries.filter { $0.platform == nil }
        let chosen =
            entries.first(where: isFitting) ?? (entries.count == 1 ? entries.first : nil)
            ?? (plain.count == 1 ? plain.first : nil)
        guard let chosen else {
            let names = entries.prefix(8).map { "\($0.platform.map(\.description) ?? "any machine") at \($0.digest)" }
            throw ListingError(
                "",
                entries.isEmpty
                    ? "its index has no manifests"
                    : "its index has \(entries.count) manifests and none for \(platform); name one by its digest: "
                        + escaped(names.joined(separator: ", ")))
        }
        guard let digest = RegistryAddress.sha256(Substring(chosen.digest)) else {
            throw ListingError("", "its index has \(quoted(chosen.digest)), which is not a SHA-256")
        }
        return digest
    }

    // MARK: Layers

    /// The annotations of a layer that may have the path of its file: the common one, and ModelPack's.
    private static let titles = [
        "org.opencontainers.image.title", "org.cncf.model.filepath", "org.cnai.model.filepath",
    ]
    /// The media type of directories.
    private static let directoryType = "application/vnd.oci.image.layer.v1.tar+gzip"
    /// The prefixes of the media types of ModelPack's layers: their tars have the file inside.
    private static let modelTypes = ["application/vnd.cncf.model.", "application/vnd.cnai.model."]

    private static func files(_ layers: [Descriptor], prefix: String) throws(ListingError) -> SourceListing {
        var listing = SourceListing()
        for (index, layer) in layers.enumerated() {
            let title = titles.lazy.compactMap { layer.annotations[$0] }.first
            if title == nil, layer.mediaType == "application/vnd.oci.empty.v1+json" { continue }
            let place = "layer \(index + 1)"
            if let reason = objection(to: layer, title) { throw ListingError(place, reason) }
            let digest: (ContentCheck.Algorithm, String)?
            if layer.digest.hasPrefix("sha512:") {
                digest = ContentCheck.digest(.sha512, layer.digest.dropFirst("sha512:".utf8.count).utf8)
            } else {
                digest = RegistryAddress.sha256(Substring(layer.digest)).map { (.sha256, $0.hex) }
            }
            guard let title, let digest, let size = layer.size else {
                throw ListingError(place, "it has no size or no SHA-256 digest: \(quoted(layer.digest))")
            }
            let path = title.hasPrefix("./") ? title.dropFirst(2) : title[...]
            try listing.add(
                SourceListing.File(path: Array(path.utf8), size: size, digest: digest, urls: [prefix + layer.digest]),
                at: place)
        }
        guard !listing.files.isEmpty else { throw ListingError("", "it has no files") }
        return listing
    }

    /// Why a layer is no file; `nil` if it is one. The content of a tar is unknown before it is unpacked, so nothing
    /// could be verified or left out.
    private static func objection(to layer: Descriptor, _ title: String?) -> String? {
        let what = "\(escaped(layer.mediaType)), \(layer.size ?? 0) bytes, \(escaped(layer.digest))"
        let isTar =
            layer.mediaType.hasSuffix(".tar") || layer.mediaType.contains(".tar+")
            || layer.mediaType.contains(".tar.")
        guard let title else {
            return isTar
                ? "a tar archive without a title, as container images have them (\(what)); layers are not unpacked"
                : "no annotation says what file it is (\(what)); \(titles[0]) is needed"
        }
        // Some clients mark directories, others only give them this type. An archive that was pushed as a file has the
        // name of one.
        let isNamedAsArchive = [".gz", ".tgz", ".tar"].contains { title.lowercased().hasSuffix($0) }
        let isDirectory = layer.mediaType == directoryType && !isNamedAsArchive
        if isDirectory || layer.annotations["io.deis.oras.content.unpack"] == "true" {
            return
                "the directory \(quoted(title)), packed into a tar archive (\(what)); layers are not unpacked: push its "
                + "files one by one"
        }
        if isTar, modelTypes.contains(where: layer.mediaType.hasPrefix) {
            return "\(quoted(title)) in a tar archive (\(what)); layers are not unpacked: push it raw"
        }
        return nil
    }

    // MARK: JSON

    private struct Document {
        var mediaType, artifactType, configurationType: String?
        var annotations: [String: String] = [:]
        var isFirstVersion = false
        var layers, manifests: [Descriptor]?

        init(_ text: [UInt8]) throws(ListingError) {
            do throws(ManifestError) {
                self = try text.withUnsafeBufferPointer { bytes throws(ManifestError) in
                    var reader = JSONReader(bytes, limits: .standard)
                    let document = try Document(&reader)
                    try reader.end()
                    return document
                }
            } catch { throw ListingError("", "the registry's manifest cannot be read: \(error.reason)") }
            if layers.map({ $0.count > RegistryAnswer.mostLayers }) == true {
                throw ListingError("", "it has more than \(RegistryAnswer.mostLayers) layers")
            }
            if manifests.map({ $0.count > RegistryAnswer.mostEntries }) == true {
                throw ListingError("", "its index has more than \(RegistryAnswer.mostEntries) entries")
            }
        }

        private init(_ reader: inout JSONReader) throws(ManifestError) {
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch String(decoding: key, as: UTF8.self) {
                case "schemaVersion": isFirstVersion = try reader.integer() == 1
                case "mediaType": mediaType = String(decoding: try reader.string(), as: UTF8.self)
                case "artifactType": artifactType = String(decoding: try reader.string(), as: UTF8.self)
                case "config" where reader.isAtObject(): configurationType = try Descriptor(&reader).mediaType
                case "annotations" where reader.isAtObject(): annotations = try Descriptor.annotations(&reader)
                case "layers", "blobs": layers = try Descriptor.list(&reader, most: RegistryAnswer.mostLayers)
                case "manifests": manifests = try Descriptor.list(&reader, most: RegistryAnswer.mostEntries)
                default: try reader.skipValue()
                }
            }
        }
    }

    private struct Descriptor {
        var mediaType = "", digest = ""
        var size: UInt64?
        var annotations: [String: String] = [:]
        var platform: Platform?

        /// One more than the most is enough to know that there are too many.
        static func list(_ reader: inout JSONReader, most: Int) throws(ManifestError) -> [Descriptor] {
            var all: [Descriptor] = []
            try reader.beginArray()
            while try reader.nextElement() {
                if all.count > most { try reader.skipValue() } else { all.append(try Descriptor(&reader)) }
            }
            return all
        }

        static func annotations(_ reader: inout JSONReader) throws(ManifestError) -> [String: String] {
            var annotations: [String: String] = [:]
            try reader.beginObject()
            while let name = try reader.nextKey() {
                let name = String(decoding: name, as: UTF8.self)
                annotations[name] = String(decoding: try reader.string(), as: UTF8.self)
            }
            return annotations
        }

        init(_ reader: inout JSONReader) throws(ManifestError) {
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch String(decoding: key, as: UTF8.self) {
                case "mediaType": mediaType = String(decoding: try reader.string(), as: UTF8.self)
                case "digest": digest = String(decoding: try reader.string(), as: UTF8.self)
                case "size": size = try reader.integer()
                case "annotations" where reader.isAtObject(): annotations = try Self.annotations(&reader)
                case "platform" where reader.isAtObject():
                    var found = Platform(system: "", architecture: "")
                    try reader.beginObject()
                    while let name = try reader.nextKey() {
                        switch String(decoding: name, as: UTF8.self) {
                        case "os": found.system = String(decoding: try reader.string(), as: UTF8.self)
                        case "architecture": found.architecture = String(decoding: try reader.string(), as: UTF8.self)
                        case "variant": found.variant = String(decoding: try reader.string(), as: UTF8.self)
                        default: try reader.skipValue()
                        }
                    }
                    platform = found
                default: try reader.skipValue()
                }
            }
        }
    }
}
