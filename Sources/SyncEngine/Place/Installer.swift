import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Turns blobs into verified staged files, on worker threads, and hands them to the committer.
final class Installer: BlobConsumer {
    private struct State {
        var streams: [Int: BlobStream] = [:]
        /// The senders of slots that are parts of files: their bytes may turn out to be wrong later. `nil` for several.
        var sources: [Int: String?] = [:]
        var troubles: [RowFailure] = []
        /// Rows that could not be written to the disk: they get one trouble each, and no source is blamed for them.
        var unwritable: Set<Int> = []
        /// Slots that each part of a span did not deliver; a span without an entry has not ended.
        var missing: [Int: [Range<Int>]] = [:]
    }

    let plan: Plan
    private let context: RunContext
    private let dictionary: DecodingDictionary?
    private let bases: DeltaBases?
    private let copies: ChunkCopies?
    private let windows: WindowBudget
    private let state = Mutex(State())
    private let onBytes: @Sendable (_ raw: UInt64) -> Void
    private var manifest: Manifest { context.manifest }

    /// - Parameters:
    ///   - dictionary: The dictionary of the manifest's blobs.
    ///   - bases: The bases of the plan's deltas.
    ///   - copies: The copies of local chunks into the same files.
    ///   - windows: Bounds the memory for decoding blobs that are too large for memory.
    ///   - onBytes: Receives counts of raw **bytes** that are still to be verified, for progress only.
    init(
        _ context: RunContext, _ plan: Plan, dictionary: DecodingDictionary? = nil, bases: DeltaBases? = nil,
        copies: ChunkCopies? = nil, windows: WindowBudget, onBytes: @escaping @Sendable (UInt64) -> Void
    ) {
        (self.context, self.plan) = (context, plan)
        (self.dictionary, self.bases, self.copies) = (dictionary, bases, copies)
        (self.windows, self.onBytes) = (windows, onBytes)
    }

    /// Rows that failed. Read once the workers have drained.
    var troubles: [RowFailure] { state.withLock(\.troubles) }

    /// The slots that each span's parts did not deliver; a span without an entry has not ended.
    var missing: [Int: [Range<Int>]] { state.withLock(\.missing) }

    // MARK: BlobConsumer

    func take(_ stored: UnsafeRawBufferPointer, of slot: Int, from source: String?, worker: inout DecodeWorker) {
        let wanted = plan.slots[slot]
        if let delta = wanted.delta { return apply(delta, stored, to: slot, from: source, &worker) }
        if !wanted.codec.isCompressed { return install(stored, slot, source, &worker) }
        let raw = worker.scratch(Int(wanted.rawLength))
        do { try worker.decoder.decode(stored, as: wanted.codec, with: dictionary, into: raw) } catch {
            return reportFault(slot, source, "\(error)")
        }
        install(UnsafeRawBufferPointer(raw), slot, source, &worker)
    }

    /// Rebuilds a blob from its delta and a local base; nothing is written before the digest is right.
    private func apply(
        _ delta: Int, _ stored: UnsafeRawBufferPointer, to slot: Int, from source: String?, _ worker: inout DecodeWorker
    ) {
        let wanted = plan.slots[slot]
        var reason = "the previous version changed while it was being read"
        if let bases, bases.read(delta, into: worker.base(bases.length(delta))) {
            let raw = worker.scratch(Int(wanted.rawLength))
            let base = UnsafeRawBufferPointer(worker.base(bases.length(delta)))
            do {
                try worker.decoder.decode(stored, behind: base, into: raw)
                let digest = try worker.hasher.digest(of: UnsafeRawBufferPointer(raw))
                guard digest != plan.digest(of: wanted, in: manifest.files) else {
                    return install(UnsafeRawBufferPointer(raw), slot, source, &worker)
                }
                reason = "the delta gives other bytes"
            } catch { reason = "\(error)" }
        }
        // No source is blamed: the local base may have changed.
        for target in plan.targets[wanted.targets] { report(RowFailure(row: target.row, wrongBytes: reason)) }
    }

    private func install(_ raw: UnsafeRawBufferPointer, _ slot: Int, _ source: String?, _ worker: inout DecodeWorker) {
        let wanted = plan.slots[slot]
        let targets = plan.targets[wanted.targets]
        let wantedDigest = plan.digest(of: wanted, in: manifest.files)
        if targets.contains(where: \.isStandalone) {
            // Small files: nothing touches the disk before the digest is right.
            do {
                let digest = try worker.hasher.digest(of: raw)
                guard digest == wantedDigest else {
                    let reason = "the bytes have SHA-256 \(digest), not \(wantedDigest)"
                    return reportFault(slot, source, reason, found: digest)
                }
            } catch { return reportFault(slot, source, "\(error)") }
        }
        if !targets.allSatisfy(\.isStandalone) { state.withLock { _ = $0.sources.updateValue(source, forKey: slot) } }
        onBytes(UInt64(raw.count) &* UInt64(targets.count))
        for target in targets {
            if target.isStandalone {
                stage(raw, target.row, wantedDigest, worker.number)
            } else {
                addToPart(raw, target, &worker)
            }
        }
    }

    private func stage(_ raw: UnsafeRawBufferPointer, _ row: Int, _ digest: SHA256Digest, _ lane: Int) {
        do throws(FileError) {
            let staged = try context.stage(raw, row, as: context.newFile(row, lane: lane, digest: digest))
            context.committer.add(staged)
        } catch { report(RowFailure(row: row, disk: error)) }
    }

    private func addToPart(_ raw: UnsafeRawBufferPointer, _ target: Plan.Target, _ worker: inout DecodeWorker) {
        guard !isUnwritable(target.row), let part = part(for: target) else { return }
        let isBlob = target.blob < part.blobCount && UInt64(raw.count) == part.range(blob: target.blob).length
        if let error = isBlob ? part.write(raw, blob: target.blob) : part.write(raw, at: target.fileOffset) {
            return report(RowFailure(row: target.row, disk: error))
        }
        complete(part, target, &worker)
    }

    private func complete(_ part: PartFile, _ target: Plan.Target, _ worker: inout DecodeWorker) {
        take(context.complete(part, row: target.row, blob: target.blob, hasher: &worker.hasher), part, target)
    }

    private func take(_ outcome: PartFile.Progress, _ part: PartFile, _ target: Plan.Target) {
        switch outcome {
        case .incomplete: return
        case .verified: context.committer.add(Committer.Staged(row: target.row, file: part.staged, part.fileStatus))
        case .failed(let error): report(RowFailure(row: target.row, disk: error))
        case .wrong(let reason, let blobs, let found):
            let copied = copies?.takeBack(blobs, of: target.row) ?? []
            let others = blobs.filter { !copied.contains($0) }
            if others.isEmpty, !copied.isEmpty { return }
            // Blobs left by an earlier run have no slot.
            let slots = others.compactMap { slot(of: $0, in: target.row) }
            var told: Set<[String?]> = []
            for slot in slots {
                guard let span = self.span(toBlameFor: slot) else { continue }
                let source = sender(of: slot)
                guard told.insert(["\(span)", source]).inserted else { continue }
                reportWrong(target.row, reason, found: found, span: span, source: source)
            }
            report(RowFailure(row: target.row, wrongBytes: reason))
        }
    }

    /// The slot that delivered a blob of a row. Looked up only after wrong bytes.
    private func slot(of blob: Int, in row: Int) -> Int? {
        plan.targets.firstIndex { $0.row == row && $0.blob == blob }.flatMap { target in
            plan.slots.firstIndex { $0.targets.contains(target) }
        }
    }

    private func part(for target: Plan.Target) -> PartFile? {
        do throws(FileError) { return try context.part(for: target.row, whole: target.isWhole) } catch {
            report(RowFailure(row: target.row, disk: error))
            return nil
        }
    }

    // MARK: Slots too large for memory

    func begin(slot: Int, worker: inout DecodeWorker) {
        do {
            let stream = try BlobStream(
                codec: plan.slots[slot].codec, dictionary: dictionary, rawLength: plan.slots[slot].rawLength,
                windows: windows)
            state.withLock { $0.streams[slot] = stream }
        } catch {
            // The cause is on this machine, so no source is blamed.
            reportFault(slot, nil, "\(error)")
        }
    }

    func append(_ stored: UnsafeRawBufferPointer, to slot: Int, from source: String?, worker: inout DecodeWorker) {
        note(source, of: slot)
        guard let stream = state.withLock({ $0.streams[slot] }) else { return }
        let targets = plan.targets[plan.slots[slot].targets]
        let failure = stream.decode(stored) { raw, offset in
            onBytes(UInt64(raw.count) &* UInt64(targets.count))
            for target in targets {
                guard !isUnwritable(target.row), let part = part(for: target) else { continue }
                if let error = part.write(raw, at: target.fileOffset &+ offset) {
                    report(RowFailure(row: target.row, disk: error))
                }
            }
        }
        guard let failure else { return }
        state.withLock { $0.streams[slot] = nil }
        switch failure {
        case .wrong(let reason): reportFault(slot, sender(of: slot), reason)
        case .crowded(let window):
            for target in targets { report(RowFailure(row: target.row, window: window, of: windows.capacity)) }
        }
    }

    func end(slot: Int, worker: inout DecodeWorker) {
        guard let stream = state.withLock({ $0.streams.removeValue(forKey: slot) }) else { return }
        guard stream.isComplete else { return reportFault(slot, sender(of: slot), "the stored bytes end too early") }
        for target in plan.targets[plan.slots[slot].targets] {
            if !isUnwritable(target.row), let part = part(for: target) { complete(part, target, &worker) }
        }
    }

    func put(
        _ bytes: UnsafeRawBufferPointer, of slot: Int, at offset: UInt64, from source: String?,
        worker: inout DecodeWorker
    ) {
        note(source, of: slot)
        let targets = plan.targets[plan.slots[slot].targets]
        onBytes(UInt64(bytes.count) &* UInt64(targets.count))
        for target in targets {
            guard !isUnwritable(target.row), let part = part(for: target) else { continue }
            let outcome = context.put(bytes, at: offset, in: part, row: target.row, hasher: &worker.hasher)
            take(outcome, part, target)
        }
    }

    func ended(span: Int, missing: Range<Int>, worker: inout DecodeWorker) {
        state.withLock { $0.missing[span, default: []].append(missing) }
    }

    // MARK: Slots that are not complete

    func keep(_ stored: UnsafeRawBufferPointer, at position: Int, of slot: Int, part: Int) {
        context.partialBlobs.keep(stored, at: position, of: slot, in: plan, part: part)
    }

    func kept(slot: Int, count: Int) -> [UInt8] { context.partialBlobs.bytes(of: slot, count: count) }

    /// The span of a slot; spans are in the order of their slots.
    private func span(of slot: Int) -> Int? {
        let span = plan.spans.indices.partitioningIndex { plan.spans[$0].slots.upperBound > slot }
        return span < plan.spans.count && plan.spans[span].slots.contains(slot) ? span : nil
    }

    // MARK: Trouble

    /// Records the sender of a part of a slot.
    private func note(_ source: String?, of slot: Int) {
        state.withLock { state in
            let isOnlySource = state.sources[slot].map { $0 == source } ?? true
            state.sources.updateValue(isOnlySource ? source : nil, forKey: slot)
        }
    }

    /// The sender of a slot that is a part of a file; `nil` for several.
    private func sender(of slot: Int) -> String? { state.withLock { $0.sources[slot] ?? nil } }

    /// The span that is responsible for a slot; `nil` if its first bytes come from an earlier process or another
    /// transfer, and may have been changed since.
    private func span(toBlameFor slot: Int) -> Int? {
        if plan.slots[slot].pack != nil { return context.partialBlobs.isMixed(slot) ? nil : span(of: slot) }
        // Some bytes of a loose file may be from an earlier process.
        return plan.targets[plan.slots[slot].targets.lowerBound].isGap ? nil : span(of: slot)
    }

    private func reportFault(_ slot: Int, _ source: String?, _ reason: String, found: SHA256Digest? = nil) {
        let span = span(toBlameFor: slot)
        for target in plan.targets[plan.slots[slot].targets] {
            reportWrong(target.row, reason, found: found, span: span, source: source)
        }
    }

    private func reportWrong(_ row: Int, _ reason: String, found: SHA256Digest?, span: Int?, source: String?) {
        var failure = RowFailure(row: row, wrongBytes: reason)
        (failure.found, failure.span, failure.source) = (found, span, source)
        report(failure)
    }

    private func isUnwritable(_ row: Int) -> Bool { state.withLock { $0.unwritable.contains(row) } }

    private func report(_ trouble: RowFailure) {
        state.withLock { state in
            if trouble.error != nil, !state.unwritable.insert(trouble.row).inserted { return }
            state.troubles.append(trouble)
        }
        if let error = trouble.error { context.disk.note(error) }
    }
}
