import SyncCompression
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The manifest whose packs are reused, and which of them can be.
struct BaseSet {
    let manifest: Manifest
    /// Where it was read from.
    let path: String
    /// By the base's pack index: whether its blobs may be reused.
    private(set) var usable: [Bool]
    /// The packs with the URLs to write.
    private(set) var packs: [Manifest.Pack]
    private(set) var warnings: [String] = []
    /// The manifest's dictionary; `nil` if it has none, or its pack is not here.
    private(set) var dictionary: [UInt8]?

    /// Loads the base named by the options; `nil` if there is none.
    ///
    /// - Parameter ownPlace: Where files are unless the options say otherwise; see ``PublishChoices``.
    static func load(
        _ options: PublishOptions,
        _ output: OutputDirectory,
        ownPlace: String
    ) throws(PublishError) -> BaseSet? {
        switch options.base {
        case .none: return nil
        case .inOutput:
            // The latest release kept, in whatever channel, so that no number is used twice.
            let kept = try output.keptRevisions().last
            guard kept != nil || output.size(.top, "manifest.json") != nil else { return nil }
            let path = "\(options.output)/" + (kept.map { "channels/\($0).json.zst" } ?? "manifest.json")
            let remedy = "repair it, publish with --no-base, or name another output directory"
            let manifest = try read(path, output, remedy: remedy)
            return try BaseSet(manifest, path: path, options, output, ownPlace, mayBeElsewhere: false)
        case .manifest(let path):
            let manifest = try read(path, output, remedy: "name a manifest that this program can read")
            return try BaseSet(manifest, path: path, options, output, ownPlace, mayBeElsewhere: true)
        }
    }

    private init(
        _ manifest: Manifest,
        path: String,
        _ options: PublishOptions,
        _ output: OutputDirectory,
        _ ownPlace: String,
        mayBeElsewhere: Bool
    ) throws(PublishError) {
        self.manifest = manifest
        self.path = path
        packs = manifest.packs
        // A set without packs does not reuse the base's.
        if try PublishChoices(options, base: manifest, ownPlace: ownPlace).isLoose {
            usable = Array(repeating: false, count: packs.count)
            return
        }
        usable = Array(repeating: true, count: packs.count)
        let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        for index in packs.indices {
            let pack = packs[index]
            let name = pack.sha256.hex + ".pack"
            let local = pack.urls.first { !$0.contains("://") && !$0.hasPrefix("/") }
            if let size = output.size(.packs, name) {
                if size == pack.size {
                    packs[index].urls = [options.packURLPrefix + name]
                } else {
                    usable[index] = false
                    warnings.append(
                        "pack \(name) has \(size) bytes instead of \(pack.size); it is made again"
                    )
                }
            } else if let local, OutputDirectory.size(directory + local) == pack.size,
                try output.adopt(directory + local, asPack: name, pack.sha256)
            {
                packs[index].urls = [options.packURLPrefix + name]
            } else if !mayBeElsewhere {
                usable[index] = false
                warnings.append("pack \(name) is missing; its files are packed again")
            } else {
                warnings.append("pack \(name) is not here; it must stay where the base is served")
            }
        }
        readDictionary(output)
    }

    private mutating func readDictionary(_ output: OutputDirectory) {
        guard let named = manifest.dictionary else { return }
        let pack = manifest.packs[Int(named.blob.pack)]
        let (blob, digest) = (named.blob, named.digest)
        dictionary = try? BaseParts.read("the dictionary", blob, digest, pack, manifest: path, output)
        if dictionary == nil {
            warnings.append(
                "the dictionary of the base is missing or damaged (pack \(pack.sha256.hex)); what is new is stored "
                    + "without one"
            )
        }
    }

    /// Whether blobs made with the dictionary may be reused.
    private var isDictionaryUsable: Bool { manifest.dictionary.map { usable[Int($0.blob.pack)] } ?? false }

    /// Enters every usable blob into the catalogue.
    func register(in catalogue: Catalogue) throws(PublishError) {
        for row in manifest.files.indices {
            for blob in manifest.files.blobs(row) where usable[Int(blob.pack)] {
                guard !blob.codec.needsDictionary || isDictionaryUsable,
                    let stored = UInt32(exactly: blob.storedLength),
                    let raw = UInt32(exactly: blob.rawLength)
                else { continue }
                let place = Catalogue.Entry(
                    digest: manifest.files.digest(of: blob, in: row),
                    pack: blob.pack,
                    codec: blob.codec,
                    offset: blob.offset,
                    storedLength: stored,
                    rawLength: raw
                )
                guard catalogue.add(place) != nil else { throw .tooManyBlobs }
            }
        }
    }

    static func read(
        _ path: String,
        _ output: OutputDirectory,
        remedy: String
    ) throws(PublishError) -> Manifest {
        let limit = ManifestLimits.standard.manifestBytes
        var bytes: [UInt8]
        do throws(FileError) { bytes = try readFile(path, trust: .input, limit: limit) } catch {
            if error.isMissing {
                throw .notFound("there is no base manifest \(shown(path))", remedy)
            }
            guard let remark = error.remark else {
                throw .reading(path, "open the base manifest", code: error.code)
            }
            throw .invalidBase("the base manifest \(shown(path)) cannot be used: \(remark)", remedy)
        }
        do {
            if bytes.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) {
                bytes = try bytes.withUnsafeBytes { try decodeZstd($0, limit: limit) }
            }
            let digest = try sha256(bytes)
            var assembly = try ManifestAssembly(bytes, digest: digest)
            bytes = []
            for (index, part) in assembly.parts.enumerated() {
                let pack = assembly.pack(of: part)
                let (blob, digest) = (part.blob, part.digest)
                let text = try BaseParts.read("part \(index)", blob, digest, pack, manifest: path, output)
                try text.withUnsafeBytes { try assembly.add($0) }
            }
            return try assembly.finish()
        } catch let error where error is ManifestError || error is CompressionError {
            throw .invalidBase("\(shown(path)): \(error)", remedy)
        } catch {
            return try calling { throw error }
        }
    }
}

extension PublishError {
    static var tooManyBlobs: Self {
        .refusedEntries(
            "the source has more than 4294967295 different blobs",
            "publish it as several projects, or raise the chunk size"
        )
    }
}
