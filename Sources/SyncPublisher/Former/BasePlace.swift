import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem
import SyncTrust

/// The parts of a base's manifest that are read, if it is in parts.
enum BaseParts {
    case all
    /// The first part, which shows how the others were made.
    case first
    /// The parts with entries between two paths, both included; no part if `nil`.
    case around((first: [UInt8], last: [UInt8])?)
}

/// The place of a base manifest and its packs: the output directory, a directory elsewhere, or a server. Others may be
/// able to write to each.
///
/// A pack is `packs/SHA256.pack` there, even if the manifest gives another path, and no symbolic link below the
/// directory is followed: a base cannot name this user's other files.
struct BasePlace {
    /// The manifest's path, for people.
    let path: String
    let output: OutputDirectory
    /// The manifest in the output; `nil` for one elsewhere.
    private let inOutput: (folder: OutputDirectory.Folder, name: String)?
    /// The published directory of a manifest elsewhere; `nil` for one in the output, and for one on a server.
    private let elsewhere: OutputDirectory?
    /// The base on a server; `nil` for one on this machine or in the output.
    let served: ServedBase?

    /// A manifest of the output directory.
    init(_ folder: OutputDirectory.Folder, _ name: String, of output: OutputDirectory) {
        path = output.display(folder, name)
        (self.output, inOutput, elsewhere, served) = (output, (folder, name), nil, nil)
    }

    /// A manifest that the user named by its path, or by the directory where it is published. The path may contain
    /// links.
    init(elsewhere place: String, _ output: OutputDirectory) throws(PublishError) {
        let isDirectory = status(following: place)?.kind == .directory
        path = isDirectory ? place + (place.hasSuffix("/") ? "" : "/") + "manifest.json" : place
        (self.output, inOutput, served) = (output, nil, nil)
        elsewhere = try OutputDirectory(Self.published(path), isReadOnly: true)
    }

    /// The published directory of a manifest: the manifest is in it, or in its folder for channels or releases.
    private static func published(_ path: String) -> String {
        let own = parent(of: path)
        // A directory with packs is itself the published one, even if its name is that of a folder.
        guard status(following: own + "/packs")?.kind != .directory, let absolute = try? absolutePath(own) else {
            return own
        }
        let names = absolute.split(separator: "/")
        let folders = [OutputDirectory.Folder.channels, .manifests].map(\.rawValue)
        guard let name = names.last, folders.contains(String(name)) else { return own }
        return "/" + names.dropLast().joined(separator: "/")
    }

    /// A base on a server.
    init(_ served: ServedBase, _ output: OutputDirectory) {
        (path, self.output, inOutput, elsewhere, self.served) = (served.shown, output, nil, nil, served)
    }

    /// Whether the base is outside the output; its packs may stay where it is served.
    var isElsewhere: Bool { inOutput == nil }

    /// Whether the base is the output's `manifest.json`.
    var isNewest: Bool { inOutput?.folder == .top }

    /// Fetches ranges of packs that are not on this machine; `nil` where that is not possible.
    var ranges: PackRanges? { served?.ranges ?? output.home?.ranges }

    /// Opens a pack of the directory elsewhere; `nil` if it is not there.
    func openElsewhere(_ pack: SHA256Digest) throws(PublishError) -> Descriptor? {
        try elsewhere?.open(.packs, pack.packName)
    }

    /// The statement that names a revision's manifest, its signatures not verified; `nil` if there is no readable one.
    func release(_ revision: UInt64) throws(PublishError) -> SignedRelease? {
        if let served { return served.release.flatMap(signedRelease) }
        return try (elsewhere ?? output).release(revision)
    }

    /// Reads the manifest, with its parts, or with some of them.
    func manifest(remedy: String, _ wanted: BaseParts = .all) throws(PublishError) -> Manifest {
        if let served { return served.manifest }
        return try reading(remedy) {
            var assembly = try root(remedy: remedy)
            try narrow(&assembly, to: wanted)
            holdNeeded(assembly.parts.flatMap(\.chain), assembly.packs)
            for index in assembly.parts.indices {
                let text = try text(ofPart: index, assembly.parts, assembly.packs)
                try text.withUnsafeBytes { try assembly.add($0) }
            }
            return try assembly.finish()
        }
    }

    /// The manifest as its parts' outlines give it: of each digest only the ``SHA256Digest/head`` is known. `nil` if it
    /// is not in parts that all have an outline that can be read.
    ///
    /// - Parameter damaged: Gets the parts with an outline that was fetched and is not what the manifest says.
    func outlined(damaged: inout Set<Int>) -> Manifest? {
        guard var assembly = try? root(remedy: ""), !assembly.parts.isEmpty,
            assembly.parts.allSatisfy({ !$0.outline.isEmpty }), (try? assembly.checkTotals()) != nil
        else { return nil }
        let outlines = assembly.parts.flatMap(\.outline)
        let bytes = outlines.reduce(UInt64(0)) { $0.saturatingAdd(max($1.blob.rawLength, $1.blob.storedLength)) }
        guard bytes <= UInt64(ManifestLimits.standard.manifestBytes) else { return nil }
        holdNeeded(outlines, assembly.packs)
        let (parts, packs) = (assembly.parts, assembly.packs)
        for (index, part) in parts.enumerated() {
            let text = text(ofOutline: part, packs) { head, _ in
                head == SHA256Digest.ofNothing.head ? .ofNothing : nil
            }
            guard let bytes = text?.bytes else {
                let isHeld = part.outline.map(\.blob).allSatisfy { blob in
                    ranges?.held(packs[Int(blob.pack)].sha256, blob.range) != nil
                }
                guard isHeld else { return nil }
                damaged.insert(index)
                for outline in part.outline { output.home?.note(wrong: packs[Int(outline.blob.pack)].sha256) }
                continue
            }
            // All damaged ones are found at once.
            guard damaged.isEmpty else { continue }
            guard (try? bytes.withUnsafeBytes { try assembly.add($0) }) != nil else { return nil }
        }
        guard damaged.isEmpty else { return nil }
        return try? assembly.finish()
    }

    /// A part's text, as its outline gives it; `nil` if there is none that can be read.
    func text(
        ofOutline part: Manifest.Part, _ packs: [Manifest.Pack], unknown: UInt8 = PartOutline.zero,
        full: (SHA256Digest, Int) -> SHA256Digest?
    ) -> (bytes: [UInt8], isWhole: Bool)? {
        guard let outline = try? text("an outline", part.outline, packs) else { return nil }
        return PartOutline.text(of: outline, length: part.text.blob.rawLength, unknown: unknown, full: full)
    }

    private func holdNeeded(_ texts: [Manifest.OwnBlob], _ packs: [Manifest.Pack]) {
        let far = texts.map { (pack: packs[Int($0.blob.pack)], range: $0.blob.range) }
        ranges?.holdNeeded(far.filter { !output.hasHere(pack: $0.pack.sha256) })
    }

    /// The number of the manifest's entries, and its revision; `nil` if it cannot be read. Parts are not read: the
    /// manifest's own text says how many entries they have.
    var extent: (entries: Int, revision: UInt64)? {
        if served == nil, let root = try? root(remedy: ""), !root.parts.isEmpty {
            return (root.parts.reduce(0) { $0 + $1.files }, root.revision)
        }
        return (try? manifest(remedy: "")).map { ($0.files.count, $0.revision) }
    }

    /// Reads the manifest's own text, without its parts.
    func root(remedy: String) throws -> ManifestAssembly {
        let limit = ManifestLimits.standard.manifestBytes
        var bytes: [UInt8]
        do throws(FileError) {
            if let inOutput {
                bytes = try output.contents(inOutput.folder, inOutput.name, limit: limit)
            } else {
                bytes = try readFile(path, trust: .input, limit: limit)
            }
        } catch {
            if error.isMissing { throw PublishError.notFound("there is no base manifest \(shown(path))", remedy) }
            if inOutput != nil { try output.home?.rethrow() }
            guard let remark = error.remark else {
                throw PublishError.reading(path, "open the base manifest", code: error.code)
            }
            throw PublishError.invalid("the base manifest \(shown(path)) cannot be used: \(remark)", remedy)
        }
        if bytes.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) {
            bytes = try decodeZstd(bytes, limit: limit)
        }
        return try ManifestAssembly(bytes, digest: try sha256(bytes))
    }

    private func reading<R>(_ remedy: String, _ body: () throws -> R) throws(PublishError) -> R {
        do { return try body() } catch let error where error is ManifestError || error is CompressionError {
            throw .invalid("\(shown(path)): \(error)", remedy)
        } catch { return try calling { throw error } }
    }

    /// Leaves out the parts that are not wanted. The first path of a part is known only once the part is read, so a
    /// binary search finds them.
    private func narrow(_ assembly: inout ManifestAssembly, to wanted: BaseParts) throws {
        guard !assembly.parts.isEmpty else { return }
        switch wanted {
        case .all: return
        case .first: try assembly.narrow(to: 0..<1)
        case .around(let paths):
            let whole = assembly
            func precedes(_ index: Int, _ path: [UInt8]) throws -> Bool {
                let text = try text(ofPart: index, whole.parts, whole.packs)
                let first = try text.withUnsafeBytes { try whole.firstPath(ofPart: index, $0) }
                return first.withUnsafeBufferPointer { first in
                    path.withUnsafeBufferPointer { PathOrder.compare(first, $0) <= 0 }
                }
            }
            guard let paths else { return try assembly.narrow(to: 0..<0) }
            let parts = whole.parts.indices
            let start = try parts.partitioningIndex { try !precedes($0, paths.first) }
            let end = try (start..<parts.upperBound).partitioningIndex { try !precedes($0, paths.last) }
            try assembly.narrow(to: max(0, start - 1)..<max(1, end))
        }
    }

    /// Fetches texts that are not on this machine, before they are read.
    func hold(_ texts: [Manifest.OwnBlob], _ packs: [Manifest.Pack]) throws(PublishError) {
        guard let ranges else { return }
        let far = Set(texts).map { (pack: packs[Int($0.blob.pack)], range: $0.blob.range) }.filter {
            !output.hasHere(pack: $0.pack.sha256) && ranges.held($0.pack.sha256, $0.range) == nil
        }
        let ordered = far.sorted {
            ($0.pack.sha256.hex, $0.range.lowerBound) < ($1.pack.sha256.hex, $1.range.lowerBound)
        }
        try ranges.hold(ordered, isCancelled: { false })
    }

    /// The text of a part. Its SHA-256, and that of each text that it is made from, is checked.
    func text(ofPart index: Int, _ parts: [Manifest.Part], _ packs: [Manifest.Pack]) throws(PublishError) -> [UInt8] {
        try text("part \(index)", parts[index].chain, packs)
    }

    /// The last of some texts, each made from the one before.
    func text(_ what: String, _ chain: [Manifest.OwnBlob], _ packs: [Manifest.Pack]) throws(PublishError) -> [UInt8] {
        var text: [UInt8]?
        for own in chain { text = try read(what, own, packs[Int(own.blob.pack)], behind: text) }
        return text ?? []
    }

    /// The raw bytes of a text, or of the dictionary, their SHA-256 checked.
    ///
    /// - Parameters:
    ///   - what: What is read, for people.
    ///   - prefix: The text that it is made from.
    func read(_ what: String, _ own: Manifest.OwnBlob, _ pack: Manifest.Pack, behind prefix: [UInt8]? = nil)
        throws(PublishError) -> [UInt8]
    {
        let (blob, digest) = (own.blob, own.digest)
        guard let stored = try stored(blob, pack) else {
            if let failure = ranges?.failure { throw failure }
            throw .invalid(
                "\(shown(path)): \(what) is in the pack \(pack.sha256.hex), which is not here",
                "bring the packs of the base into the output directory, or publish with --no-base")
        }
        let length = Int(clamping: blob.rawLength)
        // What cannot be decoded counts as no bytes at all, whose digest does not match.
        let raw = (try? BlobDecoder.decode(stored, as: blob.codec, behind: prefix, length: length)) ?? []
        let found = try calling { try sha256(raw) }
        guard UInt64(raw.count) == blob.rawLength, found == digest else {
            throw .invalid(
                "\(shown(path)): \(what) is not what the manifest says; its pack is \(pack.sha256.hex)",
                "repair the pack, or publish with --no-base")
        }
        return raw
    }

    private func stored(_ blob: Blob, _ pack: Manifest.Pack) throws(PublishError) -> [UInt8]? {
        let name = pack.sha256.packName
        if let file = try output.open(.packs, name), let bytes = try Self.read(file.raw, blob, name) { return bytes }
        if let file = try openElsewhere(pack.sha256) { return try Self.read(file.raw, blob, name) }
        return ranges.flatMap { $0.held(pack.sha256, blob.range) ?? $0.bytes((pack, blob.range)) }
    }

    /// - Returns: `nil` if the pack ends before the blob does.
    private static func read(_ file: Int32, _ blob: Blob, _ name: String) throws(PublishError) -> [UInt8]? {
        let path = OutputDirectory.Folder.packs.path(name)
        guard let size = status(file)?.size else { throw .unread(path, "look at", code: .last) }
        guard let count = Int(exactly: blob.storedLength), blob.storedLength <= size,
            blob.offset <= size - blob.storedLength
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        let done = bytes.withUnsafeMutableBytes { readFully(file, into: $0, at: blob.offset) }
        guard done >= 0 else { throw .unread(path, "read", code: .last) }
        return done == count ? bytes : nil
    }
}
