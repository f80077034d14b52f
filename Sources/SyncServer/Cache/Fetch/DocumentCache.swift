import SyncContent
import SyncModel
import SyncPlugins
import SyncSystem

/// Documents that may change: manifests, channels, signed statements. The origin is asked each time; the held document
/// is sent when the origin is gone.
final class DocumentCache: Sendable {
    /// A held document. Its file begins with a line of JSON in a block of its own.
    struct Document: Sendable, Equatable {
        /// Encoded as in its URL.
        var path: String
        /// The version, as the origin named it.
        var validator: Validator
        /// **Bytes** without the block.
        var size: UInt64
        var sha256: SHA256Digest
        /// When the origin last said that this is the newest version, in **seconds** since 1970.
        var checked: Int64

        /// The first **byte** of the text in the file.
        static let start: UInt64 = 4_096

        /// The origin's tag where it is strong, else one of the bytes.
        var tag: String {
            guard let etag = validator.etag, etag.hasPrefix("\""), etag.hasSuffix("\""), etag.utf8.count >= 2 else {
                return "\"\(sha256.hex)\""
            }
            return etag
        }
    }

    /// The result for a path.
    enum Outcome: Sendable {
        case current(Document, SharedDescriptor)
        /// The held document; the origin could not be asked.
        case stale(Document, SharedDescriptor)
        case failed(TransferError)
        /// A digest names the document, and the origin sent something else.
        case refused
        /// The document cannot be kept.
        case pass
    }

    /// The key of a request that concurrent clients share.
    private struct Question: Hashable {
        let path: String
        let reload: Bool
    }

    private struct State {
        var documents: [String: (document: Document, status: FileStatus)] = [:]
        var running: [Question: Shared<Outcome>] = [:]
        /// The last answers of the origin that were refusals, by path.
        var refusals: [String: TransferError] = [:]
        /// Until when held documents are sent without asking the origin, after it could not be reached.
        var goneUntil: ContinuousClock.Instant?
        /// Documents that have arrived since ``takeFresh()`` was called, the latest last.
        var fresh: [String] = []

        /// Each document is in ``fresh`` once: an origin without versions sends it again with every request.
        mutating func hold(_ document: Document, _ status: FileStatus) {
            let former = documents.updateValue((document, status), forKey: document.path)
            if former != nil { fresh.removeAll { $0 == document.path } }
            fresh.append(document.path)
        }

        /// Clients choose paths, so the number of refusals is bounded: at the bound all are forgotten.
        mutating func note(_ refusal: TransferError, at path: String) {
            if refusals.count >= 1_000 { refusals = [:] }
            refusals[path] = refusal
        }
    }

    /// Most **bytes** of a document that is kept.
    private static let longest: UInt64 = 128 << 20

    private let context: CacheContext
    private let state = Mutex(State())

    init(_ context: CacheContext) {
        self.context = context
        for name in context.store.documentNames { read(name) }
    }

    /// Documents that have arrived since the last call, the latest first.
    func takeFresh() -> [String] {
        state.withLock { state in
            defer { state.fresh = [] }
            return state.fresh.reversed()
        }
    }

    /// Whether a path is that of a document.
    static func isDocument(_ names: [[UInt8]]) -> Bool {
        guard let first = names.first, let last = names.last else { return false }
        if names.count > 1, ["channels", "manifests", "trust"].contains(where: { first.elementsEqual($0.utf8) }) {
            return true
        }
        return ["manifest.json", "manifest.json.zst"].contains { last.elementsEqual($0.utf8) }
    }

    /// The text of a document that is held.
    func text(at path: String) -> [UInt8]? {
        guard let (document, file) = held(path) else { return nil }
        return readBytes(file.raw, Document.start, Int(document.size))
    }

    // MARK: Held documents

    /// The name of a document's file. It depends on the origin, so that a store never shows a document of another
    /// origin.
    private func fileName(_ path: String) -> String? { (try? SyncContent.sha256(context.origin.name + path))?.hex }

    /// Reads the file of a document; a damaged one is removed.
    @discardableResult private func read(_ name: String) -> Document? {
        guard let file = context.store.openDocument(name) else { return nil }
        guard let found = status(file.raw), found.size >= Document.start,
            let block = readBytes(file.raw, 0, Int(Document.start)), let document = Document(block: block),
            fileName(document.path) == name, found.size == Document.start.saturatingAdd(document.size),
            Self.sha256(of: file, document.size) == document.sha256
        else {
            context.store.dropDocument(name)
            return nil
        }
        state.withLock { $0.hold(document, found) }
        return document
    }

    private static func sha256(of file: SharedDescriptor, _ size: UInt64) -> SHA256Digest? {
        guard var hasher = try? SHA256Hasher() else { return nil }
        var offset: UInt64 = 0
        while offset < size {
            let count = min(CacheStore.piece, size - offset)
            guard let bytes = readBytes(file.raw, Document.start + offset, Int(count)),
                (try? bytes.withUnsafeBytes({ try hasher.update($0) })) != nil
            else { return nil }
            offset += count
        }
        return try? hasher.finish()
    }

    /// The held document of a path, verified; a file that was changed is read again.
    private func held(_ path: String) -> (Document, SharedDescriptor)? {
        guard let known = state.withLock({ $0.documents[path] }), let name = fileName(path) else { return nil }
        guard let file = context.store.openDocument(name), let found = status(file.raw) else { return nil }
        if found == known.status { return (known.document, file) }
        guard var document = read(name) else { return nil }
        document.checked = known.document.checked
        return (document, file)
    }

    private func forget(_ path: String) {
        state.withLock { $0.documents[path] = nil }
        if let name = fileName(path) { context.store.dropDocument(name) }
    }
}

// MARK: Asking

extension DocumentCache {
    /// The current document of a path; concurrent requests get one answer.
    ///
    /// - Parameter reload: Whether caches on the way to the publisher are bypassed, too.
    func current(_ names: [[UInt8]], reload: Bool = false) async -> Outcome {
        let path = CacheOrigin.path(names)
        let question = Question(path: path, reload: reload)
        let named = Self.digest(in: names)
        if named != nil, let (document, file) = held(path) { return .current(document, file) }
        let (shared, isNew) = state.withLock { state -> (Shared<Outcome>, Bool) in
            if let running = state.running[question] { return (running, false) }
            let shared = Shared<Outcome>()
            state.running[question] = shared
            return (shared, true)
        }
        if isNew {
            context.start {
                var outcome = await self.ask(names, path, named, reload: reload)
                if case .refused = outcome { outcome = await self.ask(names, path, named, reload: true) }
                self.state.withLock { $0.running[question] = nil }
                shared.finish(outcome)
            }
        }
        return await shared.value() ?? .failed(Download.stopped)
    }

    /// The digest that names a manifest in `manifests/`.
    private static func digest(in names: [[UInt8]]) -> SHA256Digest? {
        guard names.count == 2, names[0].elementsEqual("manifests".utf8) else { return nil }
        let name = names[1].prefix { $0 != 0x2E }
        return name.count == 64 ? SHA256Digest(hex: name) : nil
    }

    private func ask(_ names: [[UInt8]], _ path: String, _ named: SHA256Digest?, reload: Bool) async -> Outcome {
        let known = held(path)
        let now = context.now()
        let (isGone, refusal) = state.withLock { state in
            (state.goneUntil.map { ContinuousClock.now < $0 } ?? false, state.refusals[path])
        }
        if isGone, let former = Self.former(known, refusal) { return former }
        var request = context.origin.request(names, reload: reload)
        if let known, !known.0.validator.isEmpty { request.knownValidator = known.0.validator }
        let download = context.origin.start(request, isNamed: named != nil)
        let head: ResponseHead
        do throws(TransferError) { head = try await download.head() } catch { return failed(error, known, path) }
        state.withLock { $0.refusals[path] = nil }
        if head.status == 304, let known {
            state.withLock { state in
                state.goneUntil = nil
                state.documents[path]?.document.checked = now
            }
            var document = known.0
            document.checked = now
            return .current(document, known.1)
        }
        guard head.status != 304, (head.objectSize ?? 0) <= Self.longest else {
            download.cancel()
            return .pass
        }
        guard let file = context.store.unfinishedFile() else {
            context.couldNotKeep(.last)
            download.cancel()
            return .pass
        }
        return await take(download, head, into: file, at: path, names: names, named: named, known: known)
    }

    private func failed(_ error: TransferError, _ known: (Document, SharedDescriptor)?, _ path: String) -> Outcome {
        if let status = error.code.status ?? error.status {
            // A refusal: the held document must not be shown to those who may not see it, even after a restart.
            if status < 500, status != 408, status != 429 {
                if [401, 403, 404, 410].contains(status) { forget(path) }
                if error.cause != .notThere { context.warn("\(error)") }
                state.withLock { $0.note(error, at: path) }
                return .failed(error)
            }
        } else if error.code == .unreachable || error.code == .timedOut {
            state.withLock { $0.goneUntil = ContinuousClock.now + .seconds(5) }
        }
        guard let former = Self.former(known, state.withLock({ $0.refusals[path] })) else {
            context.warn("\(error)")
            return .failed(error)
        }
        let how = if case .stale = former { "Served from the store" } else { "Counts as missing or refused, as before" }
        context.warn("\(how), because the origin did not confirm it: \(escaped(path)). \(error)")
        return former
    }

    /// The last answer of the origin: a refusal, such as for the next root that a pull of a signed set looks for;
    /// otherwise the held document.
    private static func former(_ known: (Document, SharedDescriptor)?, _ refusal: TransferError?) -> Outcome? {
        // The held document may be older than the refusal.
        if let refusal { return .failed(refusal) }
        return known.map { Outcome.stale($0.0, $0.1) }
    }

    private func take(
        _ download: Download, _ head: ResponseHead, into file: UnfinishedFile, at path: String, names: [[UInt8]],
        named: SHA256Digest?, known: (Document, SharedDescriptor)?
    ) async -> Outcome {
        var size: UInt64 = 0
        guard var hasher = try? SHA256Hasher() else { return .pass }
        do throws(TransferError) {
            while let bytes = try await download.next() {
                let code = bytes.withUnsafeBytes { writeAll($0, to: file.descriptor.raw, at: Document.start + size) }
                if let code { context.couldNotKeep(code) }
                size += UInt64(bytes.count)
                guard code == nil, size <= Self.longest,
                    (try? bytes.withUnsafeBytes({ try hasher.update($0) })) != nil
                else {
                    download.cancel()
                    return .pass
                }
            }
        } catch { return failed(error, known, path) }
        guard let digest = try? hasher.finish() else { return .pass }
        let document = Document(
            path: path, validator: head.validator, size: size, sha256: digest, checked: context.now())
        state.withLock { $0.goneUntil = nil }
        if let named, !isManifest(named, file, size) {
            context.counts.withLock { $0.refused += 1 }
            context.warn("Does not match its name, and was not kept: \(escaped(path)).")
            return .refused
        }
        if isWebPage(readBytes(file.descriptor.raw, Document.start, Int(min(size, 512))) ?? []) {
            // A log-in page, or what a server shows for everything: it says nothing of the document, and is not kept.
            let detail = "a web page in place of the document"
            guard known != nil else {
                if path.hasSuffix(".root") {
                    // To a pull, it ends the roots as a 404 does, and has to when the origin is gone.
                    let none = TransferError(code: .badStatus(404), url: context.origin.url(names), detail: detail)
                    state.withLock { $0.note(none, at: path) }
                }
                return .current(document, file.descriptor)
            }
            return failed(TransferError(code: .badAnswer, url: context.origin.url(names), detail: detail), known, path)
        }
        // A document that cannot be kept is still an answer.
        guard let name = fileName(path), let block = document.block else { return .pass }
        let whole = Document.start + size
        var code = block.withUnsafeBytes { writeAll($0, to: file.descriptor.raw, at: 0) }
        if code == nil {
            guard context.store.reserve(whole) else { return .current(document, file.descriptor) }
            code = context.store.keep(file, asDocument: name, bytes: whole)
        }
        if let code { context.couldNotKeep(code) }
        guard code == nil, let found = status(file.descriptor.raw) else { return .current(document, file.descriptor) }
        state.withLock { $0.hold(document, found) }
        return .current(document, file.descriptor)
    }

    /// Whether a file has the manifest that a digest names, compressed or not.
    private func isManifest(_ digest: SHA256Digest, _ file: UnfinishedFile, _ size: UInt64) -> Bool {
        guard let bytes = readBytes(file.descriptor.raw, Document.start, Int(size)), let text = plainText(bytes) else {
            return false
        }
        return (try? SyncContent.sha256(text)) == digest
    }
}

/// A manifest's text, from its bytes as they are served; `nil` if they are a broken zstd frame.
func plainText(_ bytes: [UInt8]) -> [UInt8]? {
    guard bytes.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) else { return bytes }
    return try? decodeZstd(bytes, limit: 128 << 20)
}

extension DocumentCache.Document {
    /// The first block of its file: a line, filled up with blanks; `nil` if it does not fit.
    fileprivate var block: [UInt8]? {
        let line = JSONLine.object { line in
            line.field("path", path)
            line.field("etag", optional: validator.etag)
            line.field("modified", optional: validator.lastModified)
            line.field("size", size)
            line.field("sha256", sha256.hex)
            line.field("checked", checked)
        }
        let room = Int(Self.start) - 1 - line.bytes.count
        guard room >= 0 else { return nil }
        return line.bytes + [UInt8](repeating: 0x20, count: room) + [0x0A]
    }

    fileprivate init?(block: [UInt8]) {
        guard let json = block.withUnsafeBytes({ JSONParser.parse($0) }), let path = json["path"]?.string,
            let size = json["size"]?.unsigned, let checked = json["checked"]?.unsigned,
            let digest = json["sha256"]?.string.flatMap({ SHA256Digest(hex: $0) })
        else { return nil }
        self.init(
            path: path, validator: Validator(etag: json["etag"]?.string, lastModified: json["modified"]?.string),
            size: size, sha256: digest, checked: Int64(clamping: checked))
    }
}
