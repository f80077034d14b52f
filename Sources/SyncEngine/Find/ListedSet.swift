import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// The kind of a text that is no manifest, but from which one can be made.
enum ListingKind: String, Sendable {
    case sums, metalink

    /// `nil` for everything else.
    init?(_ text: [UInt8]) {
        let first = text.first { ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        // `{` begins a manifest, these four bytes a zstd frame.
        guard let first, first != 0x7B, !text.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) else { return nil }
        if first == 0x3C {
            guard Metalink.isMetalink(text) else { return nil }
            self = .metalink
        } else {
            guard ChecksumList.isList(text) else { return nil }
            self = .sums
        }
    }
}

/// The cache's record of a derived manifest: its key, and the server's validator of the listing.
struct Derivation: Sendable {
    let key: String
    let validator: Validator
}

extension PullEngine {
    /// The manifest, completed with what its destination has learnt of its files and with the files found there.
    ///
    /// - Parameter asksSizes: Whether servers are asked for sizes that are still unknown.
    func known(_ found: FoundManifest, _ recipe: RunRecipe, asksSizes: Bool) throws(EngineError) -> Manifest {
        let path = try Self.destinationPath(recipe, project: found.project)
        let select = { (manifest: Manifest) throws(EngineError) -> [Int] in
            try recipe.requireGroups(of: manifest)
            try recipe.requirePaths(of: manifest, environment.stop)
            return try recipe.selectedRows(of: manifest, environment.stop)
        }
        return try known(found, in: [path], readsDestination: true, asksSizes: asksSizes, select)
    }

    /// The manifest, completed with what some destinations have learnt of its files.
    ///
    /// - Parameters:
    ///   - readsDestination: Whether files of unknown size are looked for there.
    ///   - asksSizes: Whether servers are asked for sizes that are unknown even then.
    ///   - select: Returns the rows for which that is done; all by default.
    func known(
        _ found: FoundManifest, in destinations: [String], readsDestination: Bool = false, asksSizes: Bool,
        _ select: (Manifest) throws(EngineError) -> [Int] = { Array($0.files.indices) }
    ) throws(EngineError) -> Manifest {
        var manifest = try found.decode()
        guard !manifest.files.checks.isEmpty else { return manifest }
        var open = readsDestination || asksSizes ? manifest.files.withoutSize : []
        if !open.isEmpty { open.formIntersection(try select(manifest)) }
        for path in destinations {
            // A missing destination knows nothing; one that cannot be opened is reported later.
            guard let destination = (try? Self.openIfPresent(path)) ?? nil else { continue }
            var learning = Learning(environment: environment, found: found, destination: destination, progress: nil)
            if readsDestination, !open.isEmpty { learning.index = StatIndex.read(from: destination) }
            manifest = try learning.completed(manifest, rows: readsDestination ? Array(open) : [])
        }
        open.formIntersection(manifest.files.withoutSize)
        guard asksSizes, !open.isEmpty else { return manifest }
        let rows = open.sorted()
        let urls = rows.map { resolve(manifest.files.urls($0), against: found.bases) }
        let sizes = found.source.askSizes(of: urls, found.referrer)
        if environment.stop.isStopped {
            throw EngineError(.interrupted, "stopped while asking for the sizes of files")
        }
        var told: [Int: UInt64] = [:]
        for (row, size) in zip(rows, sizes) { told[row] = size }
        guard !told.isEmpty else { return manifest }
        let text = manifest.files.text(of: manifest, learned: [:], sizes: told)
        return try found.source.keep(text, at: found.place, found.derivation).decode()
    }
}

extension FileTable {
    /// The files of unknown size.
    fileprivate var withoutSize: Set<Int> { Set(checks.lazy.filter { !$0.value.isSizeKnown }.map(\.key)) }
}

extension ManifestSource {
    /// The cache key of what is derived from a listing.
    func key(_ location: String) -> String {
        (base.map { "\(location)\nbase \($0)" } ?? location) + (isForPieces ? "\nfor pieces" : "")
    }

    /// Makes a manifest from a listing.
    ///
    /// - Parameters:
    ///   - report: The report of the listing's transfer; `nil` for a file.
    ///   - key: The cache key.
    func derive(_ kind: ListingKind, _ text: [UInt8], _ report: TransferReport?, at place: ManifestPlace, key: String)
        throws(EngineError) -> FoundManifest
    {
        let at = try digest(of: text)
        // A file has no validator: its digest says whether it is the same.
        let key = report == nil ? "\(key)\n\(kind.rawValue) \(at)" : key
        let former = cache.entry(for: key)
        let origin = SourceOrigin(kind: kind.rawValue, url: place.location, at: at.hex)
        // The same text is the same set, even if a server has no validators: what was learnt of it still holds.
        if var same = former, same.source?.kind == origin.kind, same.source?.at == origin.at {
            if let validator = report?.response.validator, validator != same.validator {
                same.validator = validator
                if !cache.isReadOnly, let body = cache.body(of: same) { cache.remember(same, body: body, for: key) }
            }
            return cached(same, at: place, key: key)
        }
        var listing: SourceListing
        do throws(ListingError) {
            switch kind {
            case .sums: listing = try ChecksumList.read(text, base: try prefix(place))
            case .metalink:
                let base = base ?? place.baseURL
                listing = try Metalink.read(text, schemes: limits.schemes ?? webSchemes) { url in
                    leadingScheme(of: url) == nil && base.hasPrefix("http") ? resolve(url, against: base) : url
                }
            }
        } catch { throw EngineError(.dataInvalid, "\(place.shown): \(error)") }
        findSizes(of: &listing, place, former: former)
        if stop.isStopped { throw EngineError(.interrupted, "stopped while reading the list") }
        let project = SourceListing.project(ofDirectory: base.map { "\($0)/x" } ?? place.location)
        return try keep(
            listing.manifest(project: project, origin), at: place,
            Derivation(key: key, validator: report?.response.validator ?? Validator()))
    }

    /// The prefix that makes a URL of a name in a checksum list; empty for a local list.
    private func prefix(_ place: ManifestPlace) throws(ListingError) -> String {
        if let base { return base.hasSuffix("/") ? base : base + "/" }
        guard urlScheme(of: place.location) != nil else { return "" }
        guard let slash = place.location.lastIndex(of: "/") else { return "" }
        return String(place.location[...slash])
    }

    /// Decodes a derived manifest, and puts it into the cache.
    ///
    /// - Parameter derivation: `nil` to keep the manifest by its digest only.
    func keep(_ text: [UInt8], at place: ManifestPlace, _ derivation: Derivation?) throws(EngineError) -> FoundManifest
    {
        keep(try decode(text, isCompressed: false, at: place, isDerived: true), text, at: place, derivation)
    }

    /// Keeps a derived manifest that is decoded already.
    func keep(_ manifest: Manifest, _ text: [UInt8], at place: ManifestPlace, _ derivation: Derivation?)
        -> FoundManifest
    {
        if let derivation {
            var entry = ManifestCache.Entry(
                digest: manifest.digest, validator: derivation.validator, isCompressed: false,
                project: manifest.project)
            entry.source = manifest.source
            cache.remember(entry, body: text, for: derivation.key)
        } else {
            cache.keep(text, manifest.digest, isCompressed: false)
        }
        var found = FoundManifest(manifest, at: place, self)
        (found.derivation, found.origin) = (derivation, manifest.source)
        return found
    }

    /// A derived manifest whose text is in the cache.
    func cached(_ entry: ManifestCache.Entry, at place: ManifestPlace, key: String) -> FoundManifest {
        var found = cached(entry, at: place) { () throws(EngineError) in
            cache.forget(key)
            throw EngineError(
                .unavailable, "\(place.shown): what was known of it is missing from the cache, or damaged; try again",
                cause: .badManifest)
        }
        found.derivation = Derivation(key: key, validator: entry.validator)
        found.origin = entry.source
        found.origin?.url = place.location
        return found
    }

    /// The derivation of a cached manifest, if it is still the newest of its listing.
    func derivation(of digest: SHA256Digest, _ location: String) -> Derivation? {
        let key = key(location)
        guard let entry = cache.entry(for: key), entry.isDerived, entry.digest == digest else { return nil }
        return Derivation(key: key, validator: entry.validator)
    }

    // MARK: Sizes

    /// Finds the sizes that the listing does not give: from the last derived manifest, by digest, or from local files.
    /// Other sizes are learnt with the bytes. If the set is pulled in pieces, servers are asked, since the pieces are
    /// cut before anything is fetched.
    private func findSizes(of listing: inout SourceListing, _ place: ManifestPlace, former: ManifestCache.Entry?) {
        var unknown = listing.files.indices.filter { listing.files[$0].size == nil }
        guard !unknown.isEmpty else { return }
        let known = sizes(former, at: place)
        unknown.removeAll { row in
            let file = listing.files[row]
            guard let digest = file.sha256, let size = known[digest] else { return false }
            listing.files[row].size = size
            return true
        }
        let urls = unknown.map { row in listing.files[row].urls.map { resolve($0, against: place.baseURL) } }
        if let first = urls.first, isLocal(first) {
            for (row, urls) in zip(unknown, urls) {
                guard let bytes = urls.first.flatMap(SyncModel.path(ofFileURL:)) else { continue }
                let found = status(following: String(decoding: bytes, as: UTF8.self))
                if let found, found.kind == .file { listing.files[row].size = found.size }
            }
        } else if isForPieces {
            for (row, size) in zip(unknown, askSizes(of: urls, place.referrer)) { listing.files[row].size = size }
        }
    }

    /// The most requests for sizes at a time.
    private static let mostAsked = 16

    /// Asks servers for the sizes of files, with a request for one byte each.
    ///
    /// - Parameter files: The absolute URLs of each file.
    /// - Returns: The size of each file; `nil` if no server states it.
    func askSizes(of files: [[String]], _ referrer: TransferRequest.Referrer?) -> [UInt64?] {
        let requests = files.map { urls in
            TransferRequest(
                id: .next(), urls: ofOneKind(urls), range: 0..<1, limit: 1, priority: .max,
                referrer: referrer)
        }
        let sinks = requests.map { _ in MemorySink(limit: 1) }
        let state = Monitor<(next: Int, running: Set<TransferID>)>((0, []))
        let transport = transport
        stop.onStop {
            let running = state.change { state in
                state.next = requests.count
                return state.running
            }
            for identifier in running { transport.cancel(identifier) }
        }
        while true {
            let place = state.wait { state -> Int? in
                if state.next >= requests.count { return requests.count }
                guard state.running.count < Self.mostAsked else { return nil }
                defer { state.next += 1 }
                state.running.insert(requests[state.next].id)
                return state.next
            }
            guard place < requests.count else { break }
            let identifier = requests[place].id
            transport.start(requests[place], sink: sinks[place]) { _ in
                state.change { _ = $0.running.remove(identifier) }
            }
        }
        state.wait { state -> Void? in state.running.isEmpty ? () : nil }
        // An empty file does not have the listed digest: its fetch reports that.
        return sinks.map { sink in sink.objectSize.flatMap { $0 > 0 ? $0 : nil } }
    }

    /// The sizes in the last derived manifest, by digest.
    private func sizes(_ former: ManifestCache.Entry?, at place: ManifestPlace) -> [SHA256Digest: UInt64] {
        guard let former, former.isDerived, let body = cache.body(of: former),
            let manifest = try? decode(body, isCompressed: false, at: place, isDerived: true)
        else { return [:] }
        var sizes: [SHA256Digest: UInt64] = [:]
        for row in manifest.files.indices where manifest.files.kind(row) != .link && manifest.files.checks[row] == nil {
            sizes[manifest.files.digest(row)] = manifest.files.size(row)
        }
        return sizes
    }
}
