import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The manifest whose packs are reused, and which of its packs can be.
struct BaseSet {
    private(set) var manifest: Manifest
    /// Where it was read from.
    let place: BasePlace
    /// By the base's pack index: whether its blobs may be reused.
    private(set) var usable: [Bool]
    /// The packs with the URLs to write.
    private(set) var packs: [Manifest.Pack]
    private(set) var warnings: [String] = []
    /// How many packs stay where the base is, unread.
    private(set) var far = 0
    /// The packs that were hashed while the base was loaded, by index.
    private var hashed: Set<Int> = []
    /// The manifest's dictionary; `nil` if it has none, or its pack cannot be read.
    private(set) var dictionary: [UInt8]?
    /// Whether the manifest was read from the outlines of its parts: of its digests only the heads are known until the
    /// tree has been read, and of those that are not in the tree for longer.
    private(set) var isOutlined = false
    /// The parts with outlines that are damaged, and made again.
    private(set) var damagedOutlines: Set<Int> = []
    /// Whole digests by their heads, of what the catalogue does not have: of chunked files, and of contents that are
    /// gone from the tree.
    private var digests = [SHA256Digest.ofNothing.head: SHA256Digest.ofNothing]
    private var catalogue: Catalogue?

    /// A placeholder for the remedy of a damaged base in the output, which depends on what else is there.
    private static let damaged = "repair it"

    /// Loads the base named by the options; `nil` if there is none.
    ///
    /// - Parameters:
    ///   - ownPlace: Where files are unless the options say otherwise; see ``PublishChoices``.
    ///   - parts: The parts to read of a base in the output.
    static func load(
        _ options: PublishOptions, _ output: OutputDirectory, ownPlace: String, _ parts: BaseParts = .all
    ) throws(PublishError) -> BaseSet? {
        switch options.base {
        case .none: return nil
        case .inOutput:
            // The latest release kept, in any channel, so that no revision is used twice.
            let kept = try output.keptRevisions().last
            try output.refuseLink(.top, "manifest.json")
            let own = try output.size(.top, "manifest.json")
            guard kept != nil || own != nil else { return nil }
            let place =
                kept.map { BasePlace(.channels, "\($0).json.zst", of: output) }
                ?? BasePlace(.top, "manifest.json", of: output)
            var damaged: Set<Int> = []
            if readsOutlines(options, output), case .all = parts, let manifest = place.outlined(damaged: &damaged) {
                var base = try BaseSet(manifest, at: place, options, ownPlace)
                base.isOutlined = true
                return base
            }
            let manifest: Manifest
            do throws(PublishError) { manifest = try place.manifest(remedy: Self.damaged, parts) } catch {
                guard error.remedy == Self.damaged else { throw error }
                throw PublishError(error.exitStatus, error.summary, details: error.details, output.remedyForDamage())
            }
            var base = try BaseSet(manifest, at: place, options, ownPlace)
            base.giveUpOutlines(of: damaged)
            return base
        case .served(let served): return try BaseSet(served.manifest, at: BasePlace(served, output), options, ownPlace)
        case .manifest(let path):
            let place = try BasePlace(elsewhere: path, output)
            let manifest = try place.manifest(remedy: "name a manifest that this program can read")
            return try BaseSet(manifest, at: place, options, ownPlace)
        }
    }

    /// Whether outlines are enough: for a store, and where no file is spared because of its stamp, which is compared
    /// with whole digests.
    private static func readsOutlines(_ options: PublishOptions, _ output: OutputDirectory) -> Bool {
        let hasStamps = options.trustsStamps && options.stampCache.map { status(following: $0) != nil } ?? false
        return output.home != nil && !hasStamps
    }

    /// Has the outlines of parts made again, which are not what the manifest says.
    private mutating func giveUpOutlines(of parts: Set<Int>) {
        guard !parts.isEmpty else { return }
        damagedOutlines = parts
        let isOne = parts.count == 1
        let what = isOne ? "the outline of a part is" : "the outlines of \(parts.count) parts are"
        warnings.append("\(shown(place.path)): \(what) damaged; \(isOne ? "it is" : "they are") made again")
    }

    private init(_ manifest: Manifest, at place: BasePlace, _ options: PublishOptions, _ ownPlace: String)
        throws(PublishError)
    {
        (self.manifest, self.place) = (manifest, place)
        packs = manifest.packs
        // A set without packs does not reuse the base's.
        if try PublishChoices(options, base: manifest, ownPlace: ownPlace).isLoose {
            usable = Array(repeating: false, count: packs.count)
            return
        }
        usable = Array(repeating: true, count: packs.count)
        var far: [String] = []
        for index in packs.indices {
            let isFar = try locate(index, options)
            if isFar { far.append(packs[index].sha256.packName) }
        }
        if !far.isEmpty { warn(ofFar: far, options) }
        try readDictionary()
    }

    /// Finds out where a pack is and whether it can be used. A pack that is in the output, or copied there now, gets
    /// the output's URL.
    ///
    /// - Returns: Whether the pack is far: it is not in the output, and cannot be copied there.
    private mutating func locate(_ index: Int, _ options: PublishOptions) throws(PublishError) -> Bool {
        let pack = packs[index]
        let name = pack.sha256.packName
        if let size = try place.output.size(.packs, name) {
            if size == pack.size {
                // Perhaps no release in the output names the pack any more, and a prune is about to remove it.
                if place.isElsewhere { place.output.home?.note(found: pack.sha256) }
                packs[index].urls = [options.packURLPrefix + name]
            } else {
                usable[index] = false
                warnings.append("pack \(name) has \(size) bytes instead of \(pack.size); it is made again")
            }
        } else if let file = try place.openElsewhere(pack.sha256) {
            // A damaged pack is of no use where it is, either.
            if status(file.raw)?.size == pack.size, try place.output.adopt(file.raw, asPack: pack.sha256) {
                hashed.insert(index)
                packs[index].urls = [options.packURLPrefix + name]
            } else {
                drop(index, "of the base does not have the content that its name says")
            }
        } else if !place.isElsewhere {
            usable[index] = false
            warnings.append("pack \(name) is missing; its files are packed again")
        } else if let base = place.served, try place.output.home?.take(pack, from: base) == true {
            packs[index].urls = [options.packURLPrefix + name]
        } else {
            if !leavesPacks { usable[index] = false }
            return true
        }
        return false
    }

    /// Whether packs that are not in the output can stay where the base is served, since the output is copied there. A
    /// store must have what its set needs, and nobody can copy files into a registry.
    private var leavesPacks: Bool {
        place.output.home == nil && place.served.map { urlScheme(of: $0.location) != RegistryAddress.scheme } ?? true
    }

    private mutating func warn(ofFar names: [String], _ options: PublishOptions) {
        let isOne = names.count == 1
        if !leavesPacks {
            let packs = isOne ? "pack \(names[0]) of the base is" : "\(names.count) packs of the base are"
            let again = isOne ? "its files are packed again" : "their files are packed again"
            let sent = place.output.home == nil ? "" : ", and sent"
            warnings.append("\(packs) not in \(shown(place.output.path)); \(again)\(sent)")
            return
        }
        far = names.count
        let packs = isOne ? "pack \(names[0]) is" : "\(names.count) packs are"
        let they = isOne ? "it" : "they"
        let unread = options.signing == nil ? "" : " and \(isOne ? "is" : "are") signed unread"
        warnings.append("\(packs) not here\(unread); \(they) must stay where the base is served")
    }

    /// Reads every pack that is on this machine, once, before it is signed again: someone, or a failing disk, may have
    /// changed it since. A store has verified each pack on arrival, so its packs are read only if
    /// stamps are not trusted. The content of a wrong pack is packed again.
    ///
    /// - Parameters:
    ///   - isRemembered: Whether to keep what was read in ``PublishOptions/packStamps``, for the next time.
    ///   - progress: Gets the **bytes** read, and those to read.
    mutating func checkPacks(
        _ options: PublishOptions, isRemembered: Bool, isCancelled: () -> Bool, progress: (UInt64, UInt64) -> Void
    ) throws(PublishError) {
        let known = Self.knownStamps(options)
        var checked: [(digest: SHA256Digest, stamp: SourceTree.FileStamp)] = []
        // A base may name packs of any size, so the sum may saturate.
        let total = packs.reduce(UInt64(0)) { $0.saturatingAdd($1.size) }
        var done: UInt64 = 0
        func take(_ piece: UnsafeRawBufferPointer, at offset: UInt64) -> Bool {
            done &+= UInt64(piece.count)
            progress(done, total)
            return !isCancelled()
        }
        let hadDictionary = isDictionaryUsable
        for index in packs.indices where usable[index] && !hashed.contains(index) {
            let digest = packs[index].sha256
            let name = digest.packName
            guard try place.output.size(.packs, name) != nil else { continue }
            if place.output.home != nil {
                guard !options.trustsStamps else { continue }
                let found = try place.output.home?.digest(.packs, name, taking: take)
                if isCancelled() { throw .cancelled }
                if found != digest { drop(index, Self.otherContent) }
                continue
            }
            guard let file = try place.output.open(.packs, name), let before = status(file.raw) else {
                drop(index, "cannot be read")
                continue
            }
            let stamp = SourceTree.FileStamp(before)
            if known[digest] == stamp {
                done &+= stamp.size
            } else {
                let isRight = try checkContent(index, file.raw, taking: take)
                if isCancelled() { throw .cancelled }
                guard isRight else { continue }
            }
            checked.append((digest, stamp))
        }
        if dictionary != nil, hadDictionary, !isDictionaryUsable {
            dictionary = nil
            warnOfDictionary()
        }
        guard isRemembered, let path = options.packStamps, let now = options.now else { return }
        let code = StampCache.write(checked.count, to: path, now: now) { index, add in
            let name = Array(checked[index].digest.packName.utf8)
            name.withUnsafeBufferPointer { add($0, checked[index].stamp, checked[index].digest) }
        }
        if let code { warnings.append("cannot write \(shown(path)): \(code); the next publish reads every pack again") }
    }

    /// The packs that were right when they were last read, with the status of their files then.
    private static func knownStamps(_ options: PublishOptions) -> [SHA256Digest: SourceTree.FileStamp] {
        var known: [SHA256Digest: SourceTree.FileStamp] = [:]
        guard options.trustsStamps, let path = options.packStamps else { return known }
        _ = StampCache.forEach(in: path) { _, stamp, digest in known[digest] = stamp }
        return known
    }

    private static let otherContent = "does not have the content that its name says"

    /// Reads a pack on this disk. A pack that is not what its name says, or cannot be read to its end, is dropped.
    ///
    /// - Returns: Whether it is what its name says.
    private mutating func checkContent(
        _ index: Int, _ file: Int32, taking take: (UnsafeRawBufferPointer, UInt64) -> Bool
    ) throws(PublishError) -> Bool {
        let digest = packs[index].sha256
        do throws(PublishError) {
            let shown = place.output.display(.packs, digest.packName)
            if try OutputDirectory.digest(file, shown: shown, taking: take) == digest { return true }
            drop(index, Self.otherContent)
        } catch {
            // What a failing disk does not give back has to be stored again.
            guard error.exitStatus == .ioError else { throw error }
            drop(index, "cannot be read")
        }
        return false
    }

    private mutating func drop(_ index: Int, _ reason: String) {
        usable[index] = false
        warnings.append("pack \(packs[index].sha256.hex).pack \(reason); its files are packed again")
    }

    private mutating func readDictionary() throws(PublishError) {
        guard let named = manifest.dictionary else { return }
        let pack = manifest.packs[Int(named.blob.pack)]
        do throws(PublishError) { dictionary = try place.read("the dictionary", named, pack) } catch {
            // A failing disk says nothing about the pack, so the run ends. A silent server costs the dictionary, and
            // not the release.
            guard error.exitStatus != .ioError else { throw error }
            warnOfDictionary()
        }
    }

    private mutating func warnOfDictionary() {
        if let pack = manifest.dictionary.map({ manifest.packs[Int($0.blob.pack)] }) {
            warnings.append(
                "the dictionary of the base is missing or damaged (pack \(pack.sha256.hex)); what is new is stored "
                    + "without one")
        }
    }

    /// Whether the dictionary may stay in its pack, and blobs made with it may be reused.
    var isDictionaryUsable: Bool { manifest.dictionary.map { usable[Int($0.blob.pack)] } ?? false }

    /// Adds every usable blob to the catalogue.
    func register(in catalogue: Catalogue) throws(PublishError) {
        for row in manifest.files.indices {
            for blob in manifest.files.blobs(row) where usable[Int(blob.pack)] {
                guard !blob.codec.needsDictionary || isDictionaryUsable,
                    let stored = UInt32(exactly: blob.storedLength), let raw = UInt32(exactly: blob.rawLength)
                else { continue }
                let place = Catalogue.Entry(
                    digest: manifest.files.digest(of: blob, in: row), pack: blob.pack, codec: blob.codec,
                    offset: blob.offset, storedLength: stored, rawLength: raw)
                guard catalogue.add(place) != nil else { throw .tooManyBlobs }
            }
        }
    }
}

/// A base that was read from outlines.
extension BaseSet {
    private func full(_ head: SHA256Digest) -> SHA256Digest? { digests[head] ?? catalogue?.full(head) }

    private mutating func completeManifest() {
        // As a method of this very value, ``full(_:)`` would hold the manifest, and all of its digests would be copied.
        let (digests, catalogue) = (digests, catalogue)
        manifest.completeDigests { digests[$0] ?? catalogue?.full($0) }
    }

    /// Completes the digests of what is in the tree as well, once it has been read.
    mutating func completeDigests(from ledger: Ledger, _ catalogue: Catalogue) {
        guard isOutlined else { return }
        self.catalogue = catalogue
        for digest in ledger.digests.values where full(digest.head) == nil { digests[digest.head] = digest }
        completeManifest()
    }

    /// Completes the digests of these rows, with the texts of their parts, as far as those can be read.
    ///
    /// - Returns: Whether texts were read for that.
    mutating func completeDigests(ofRows rows: [Int]) throws(PublishError) -> Bool {
        let files = manifest.files
        let unknown = rows.filter { row in
            files.digest(row).isHead || files.blobs(row).contains { files.digest(of: $0, in: row).isHead }
        }
        guard isOutlined, !unknown.isEmpty else { return false }
        var ends: [Int] = []
        for part in manifest.parts { ends.append((ends.last ?? 0) + part.files) }
        let parts = Set(unknown.map { row in ends.indices.partitioningIndex { ends[$0] > row } }).sorted()
        try place.hold(parts.flatMap { manifest.parts[$0].chain }, manifest.packs)
        for index in parts {
            guard let text = try? place.text(ofPart: index, manifest.parts, manifest.packs) else { continue }
            var found: [SHA256Digest] = []
            _ = place.text(ofOutline: manifest.parts[index], manifest.packs) { head, position in
                let digest = SHA256Digest(hex: text.dropFirst(position).prefix(2 * SHA256Digest.byteCount))
                if let digest, digest.head == head, full(head) == nil { found.append(digest) }
                return digest
            }
            for digest in found { digests[digest.head] = digest }
        }
        completeManifest()
        return true
    }

    /// The text of a part, for a frame that is made behind it; `nil` if it cannot be read. Digits that are not known
    /// are bytes that no text has.
    func prefix(ofPart index: Int) -> [UInt8]? {
        let part = manifest.parts[index]
        let made =
            isOutlined
            ? place.text(ofOutline: part, manifest.packs, unknown: PartOutline.noText) { head, _ in full(head) } : nil
        // A text that is whole is checked.
        if let made, !made.isWhole || (try? sha256(made.bytes)) == part.text.digest { return made.bytes }
        return try? place.text(ofPart: index, manifest.parts, manifest.packs)
    }
}

extension PublishError {
    static var tooManyBlobs: Self {
        .invalid(
            "the source has more than 4294967295 different blobs",
            "publish it as several projects, or raise the chunk size")
    }
}
