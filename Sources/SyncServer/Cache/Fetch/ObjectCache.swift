import SyncContent
import SyncModel
import SyncPlugins
import SyncSystem

/// Objects that are named by their SHA-256: slices in the store, and slices on their way.
final class ObjectCache: Sendable {
    /// The part of an object that one answer reads.
    struct Reading: Sendable {
        let object: NamedObject
        let names: [[UInt8]]
        let size: UInt64
        let map: PackMap?
        let range: Range<UInt64>

        fileprivate var place: Place { Place(object: object.digest, names: names) }

        /// Bytes from this offset on are sent only when they are verified, so that only a right answer comes to its
        /// end.
        var hold: UInt64 { range.upperBound - min(CacheStore.piece, range.upperBound - range.lowerBound) }

        /// How these **bytes** of the object are verified; `nil` if they cannot be.
        func check(of bytes: Range<UInt64>) -> SliceCheck? {
            bytes == 0..<size ? .whole(object.digest) : map?.check(of: bytes)
        }
    }

    /// The next piece of an answer.
    enum Piece: Sendable {
        /// Bytes that are not verified yet come with the flight that will verify them.
        case bytes([UInt8], unproven: Flight?, wasHeld: Bool)
        /// The origin sent wrong bytes two times in a row, or bytes that were sent to the client turned out wrong.
        case refused
        case failed(TransferError)
        /// The rest is passed through, since it cannot be kept.
        case pass
        case stopped
    }

    /// An object, and the path that it is fetched from: wrong bytes of one path say nothing about another, and clients
    /// choose paths.
    fileprivate struct Place: Hashable {
        let object: SHA256Digest
        let names: [[UInt8]]
    }

    private struct State {
        var flights: [Place: [Flight]] = [:]
        var flightCount = 0
        /// **Bytes** of slices in memory.
        var memory: UInt64 = 0
        /// Where bytes of an object were wrong, by the first **byte** of the blob or of the object, how often in a row,
        /// and until when they are not fetched again.
        var wrong: [Place: [(offset: UInt64, times: Int, until: ContinuousClock.Instant)]] = [:]
        /// Objects whose server gives them as a whole only.
        var rangeless: Set<Place> = []
        /// Lengths that no manifest states, and until when they are valid; `nil` for good.
        var sizes: [Place: (size: UInt64, until: ContinuousClock.Instant?)] = [:]
        /// Kept slices that are being verified.
        var proving: [CacheStore.Slice: Shared<CacheStore.Proof?>] = [:]

        mutating func note(_ size: UInt64, of place: Place, until: ContinuousClock.Instant?) {
            if sizes.count >= 10_000 { sizes = [:] }
            sizes[place] = (size, until)
        }
    }

    private enum Way {
        case flight(Flight)
        case refused
        case pass
    }

    /// Most **bytes** of slices on their way that are held in memory.
    static let mostMemory: UInt64 = 64 << 20
    /// A slice of more **bytes** goes to a file at once.
    private static let longestInMemory: UInt64 = 8 << 20
    /// How far one answer fetches ahead, in **bytes**.
    private static let ahead: UInt64 = 16 << 20
    /// An answer from the store fetches ahead again after this many **bytes**.
    private static let step: UInt64 = 1 << 20
    /// Pieces of the store that are read at a time.
    private static let piecesAtOnce: UInt64 = 4
    /// Most slices on their way for fetching ahead; slices that a client waits for are not limited.
    private static let mostAhead = 64

    private let context: CacheContext
    private let state = Mutex(State())

    init(_ context: CacheContext) { self.context = context }

    /// The length of an object that no manifest names, as the origin says. It is asked for again after a while, until
    /// the whole object has been verified.
    func size(of object: SHA256Digest, _ names: [[UInt8]]) async throws(TransferError) -> UInt64 {
        let (place, now) = (Place(object: object, names: names), ContinuousClock.now)
        if let known = state.withLock({ $0.sizes[place] }), known.until.map({ now < $0 }) ?? true {
            return known.size
        }
        let download = context.origin.start(context.origin.request(names, range: 0..<1))
        defer { download.cancel() }
        guard let size = try await download.head().objectSize else {
            let words = "the server does not say how long it is"
            throw TransferError(code: .badAnswer, url: context.origin.url(names), detail: words)
        }
        state.withLock { $0.note(size, of: place, until: now + .seconds(30)) }
        return size
    }

    /// Whether a file of the store has a byte of the object, verified or not yet.
    func isHeld(_ object: SHA256Digest, at offset: UInt64) -> Bool { context.store.has(object, at: offset) }
}

// MARK: Reading

extension ObjectCache {
    /// The next bytes of an answer, at an offset of the object.
    ///
    /// - Parameter unproven: The flight that the bytes before came from, if they were not verified yet. Until they are,
    ///   the answer continues with that flight, and ends only with it: valid bytes from elsewhere would not correct
    ///   the bytes already sent.
    func next(_ reading: Reading, at offset: UInt64, unproven: Flight?, _ cursor: ReadCursor) async -> Piece {
        while true {
            if Task.isCancelled { return .stopped }
            let bound = unproven.flatMap { $0.isProved ? nil : $0 }
            if bound == nil, let bytes = await held(reading, at: offset, cursor) {
                cursor.flight = nil
                // Not for each piece, since fetching ahead scans all the slices ahead.
                if cursor.fetched.map({ offset - $0 >= Self.step }) ?? true {
                    cursor.fetched = offset
                    fetchAhead(reading, from: offset)
                }
                return .bytes(bytes, unproven: nil, wasHeld: true)
            }
            let flight: Flight
            if let bound {
                flight = bound
            } else if let last = cursor.flight, last.slice.start <= offset, offset < last.slice.end {
                flight = last
            } else {
                switch way(reading, at: offset) {
                case .refused: return .refused
                case .pass: return .pass
                case .flight(let found): flight = found
                }
                cursor.flight = flight
            }
            fetchAhead(reading, from: flight.slice.end)
            let most = min(CacheStore.piece * 2, reading.range.upperBound - offset)
            switch await flight.bytes(at: offset, atMost: most, holding: reading.hold) {
            case .bytes(let bytes, let isProven):
                return .bytes(bytes, unproven: isProven ? nil : flight, wasHeld: false)
            case .stopped: return .stopped
            case .ended(.proved): cursor.flight = nil
            case .ended(.wrong):
                cursor.flight = nil
                // Bytes of it that were sent may have been wrong.
                if bound != nil { return .refused }
            case .ended(.failed(let error)): return .failed(error)
            case .ended(.unwritten):
                if bound != nil { return .refused }
                guard flight.isProved, flight.slice.length <= Self.longestInMemory else { return .pass }
                // Its memory was freed meanwhile: another flight fetches the slice again.
                cursor.flight = nil
            }
        }
    }

    /// The next pieces from the store, verified.
    private func held(_ reading: Reading, at offset: UInt64, _ cursor: ReadCursor) async -> [UInt8]? {
        while true {
            guard let slice = context.store.slice(of: reading.object.digest, at: offset) else { return nil }
            if cursor.slice != slice {
                guard let (file, known) = context.store.open(slice) else {
                    // The slice is still there if this process has no descriptor left for it.
                    if context.store.slice(of: slice.object, at: offset) == slice { return nil }
                    continue
                }
                var proof = known
                if proof == nil {
                    guard let check = reading.check(of: slice.start..<slice.end) else { return nil }
                    proof = await proveOnce(file, slice, check)
                    if Task.isCancelled { return nil }
                }
                guard let proof else {
                    drop(slice, reading)
                    continue
                }
                (cursor.slice, cursor.file, cursor.sums) = (slice, file, proof.sums)
            }
            guard let file = cursor.file else { return nil }
            let index = (offset - slice.start) / CacheStore.piece
            let start = slice.start + index * CacheStore.piece
            let wanted = max(1, min(Self.piecesAtOnce, (reading.range.upperBound - start) / CacheStore.piece))
            let end = min(slice.end, start + CacheStore.piece * wanted)
            guard let bytes = readBytes(file.raw, start - slice.start, Int(end - start)),
                bytes.withUnsafeBytes(pieceSums).elementsEqual(cursor.sums.dropFirst(Int(index)).prefix(Int(wanted)))
            else {
                cursor.slice = nil
                drop(slice, reading)
                continue
            }
            let last = min(end, reading.range.upperBound)
            if offset == start, last == end { return bytes }
            return Array(bytes[Int(offset - start)..<Int(last - start)])
        }
    }

    private func drop(_ slice: CacheStore.Slice, _ reading: Reading) {
        context.counts.withLock { $0.damaged += 1 }
        context.warn("Damaged in the store, fetched again: \(Self.shown(slice, reading.names)).")
        context.store.drop(slice)
    }

    /// Verifies a kept slice: once in the life of this process, however many answers need it, and after each change of
    /// the file.
    private func proveOnce(_ file: SharedDescriptor, _ slice: CacheStore.Slice, _ check: SliceCheck) async
        -> CacheStore.Proof?
    {
        let (shared, isNew) = state.withLock { state -> (Shared<CacheStore.Proof?>, Bool) in
            if let running = state.proving[slice] { return (running, false) }
            let shared = Shared<CacheStore.Proof?>()
            state.proving[slice] = shared
            return (shared, true)
        }
        if isNew {
            context.start {
                let proof = await self.prove(file, slice, check)
                self.state.withLock { $0.proving[slice] = nil }
                shared.finish(proof)
            }
        }
        let proof: CacheStore.Proof? = await shared.value() ?? nil
        if isNew || Task.isCancelled || proof.map({ $0.status == status(file.raw) }) == true { return proof }
        // The other call may have opened another file.
        return await prove(file, slice, check)
    }

    /// Reads a kept slice and verifies it.
    private func prove(_ file: SharedDescriptor, _ slice: CacheStore.Slice, _ check: SliceCheck) async
        -> CacheStore.Proof?
    {
        guard let before = status(file.raw), var verifier = try? SliceVerifier(check, from: slice.start) else {
            return nil
        }
        var sums: [UInt64] = []
        var offset: UInt64 = 0
        while offset < slice.length {
            let count = min(CacheStore.piece, slice.length - offset)
            guard let bytes = readBytes(file.raw, offset, Int(count)), bytes.withUnsafeBytes({ verifier.take($0) })
            else {
                return nil
            }
            sums.append(bytes.withUnsafeBytes(pieceSum))
            offset += count
            if offset % (1 << 20) == 0 { await Task.yield() }
        }
        guard verifier.end(at: slice.end), status(file.raw) == before else { return nil }
        let proof = CacheStore.Proof(status: before, sums: sums)
        context.store.note(proof, of: slice)
        return proof
    }

    private static func shown(_ slice: CacheStore.Slice, _ names: [[UInt8]]) -> String {
        let path = names.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
        return "bytes \(slice.start)-\(slice.end - 1) of \(escaped(path))"
    }
}

/// The position of one answer in the store; for one task.
final class ReadCursor {
    var slice: CacheStore.Slice?
    var file: SharedDescriptor?
    var sums: [UInt64] = []
    /// The offset at which the answer fetched ahead last.
    var fetched: UInt64?
    /// The flight that the answer reads from: it is on its way, or could not be kept.
    var flight: Flight?
}

// MARK: Fetching

extension ObjectCache {
    private func fetchAhead(_ reading: Reading, from start: UInt64) {
        var offset = start
        // Not so far that fetched slices evict slices that are not sent yet.
        let end = min(reading.range.upperBound, start.saturatingAdd(min(Self.ahead, context.store.most / 4)))
        while offset < end {
            if let slice = context.store.slice(of: reading.object.digest, at: offset) {
                offset = slice.end
                continue
            }
            let isBusy = state.withLock { $0.flightCount >= Self.mostAhead || $0.memory >= Self.mostMemory / 2 }
            guard !isBusy, case .flight(let flight) = way(reading, at: offset) else { return }
            offset = flight.slice.end
        }
    }

    /// The flight that fetches a byte; starts one if there is none.
    private func way(_ reading: Reading, at offset: UInt64) -> Way {
        let object = reading.object.digest
        let now = ContinuousClock.now
        return state.withLock { state -> Way in
            let flights = state.flights[reading.place] ?? []
            func flight(at offset: UInt64) -> Flight? {
                flights.first { $0.slice.start <= offset && offset < $0.slice.end }
            }
            if let flight = flight(at: offset) { return .flight(flight) }
            var range = 0..<reading.size
            var check = SliceCheck.whole(object)
            if let map = reading.map, !state.rangeless.contains(reading.place),
                let found = map.slice(
                    at: offset, until: reading.range.upperBound,
                    isThere: { flight(at: $0) != nil || self.context.store.has(object, at: $0) })
            {
                (range, check) = found
            }
            var isAgain = false
            for wrong in state.wrong[reading.place] ?? [] where range.contains(wrong.offset) {
                if wrong.times < 2 || wrong.until <= now {
                    isAgain = true
                } else {
                    guard let rest = check.leavingOut(wrong.offset, keeping: offset) else { return .refused }
                    (range, check) = rest
                }
            }
            let slice = CacheStore.Slice(object: object, start: range.lowerBound, end: range.upperBound)
            return self.begin(slice, check, reading, isAgain: isAgain, &state)
        }
    }

    private func begin(
        _ slice: CacheStore.Slice, _ check: SliceCheck, _ reading: Reading, isAgain: Bool, _ state: inout State
    ) -> Way {
        let isInMemory =
            slice.length <= Self.longestInMemory && state.memory.saturatingAdd(slice.length) <= Self.mostMemory
        let hasRoom = context.store.reserve(slice.length)
        var file: UnfinishedFile?
        if !isInMemory {
            guard hasRoom else { return .pass }
            file = context.store.unfinishedFile()
            if file == nil {
                let code = Errno.last
                context.start { [context] in context.couldNotKeep(code) }
                context.store.giveBack(slice.length)
                return .pass
            }
        }
        let place = reading.place
        let flight: Flight
        do {
            flight = try Flight(slice, check, file: file) { [weak self] in
                self?.state.withLock { state in
                    if state.rangeless.count >= 10_000 { state.rangeless = [] }
                    state.rangeless.insert(place)
                }
            }
        } catch {
            if hasRoom { context.store.giveBack(slice.length) }
            return .pass
        }
        state.flights[place, default: []].append(flight)
        state.flightCount += 1
        if isInMemory { state.memory += slice.length }
        let request = context.origin.request(
            reading.names, range: slice.start..<slice.end, size: reading.size, reload: isAgain)
        let (transport, context) = (context.origin.transport, context)
        // Not under the lock: a transport that has ended completes at once.
        context.start {
            transport.start(request, sink: flight) { result in
                context.start { self.conclude(flight, result, reading, hasRoom: hasRoom, isInMemory: isInMemory) }
            }
        }
        return .flight(flight)
    }

    private func conclude(
        _ flight: Flight, _ result: Result<TransferReport, TransferError>, _ reading: Reading, hasRoom: Bool,
        isInMemory: Bool
    ) {
        let (slice, place) = (flight.slice, reading.place)
        let outcome = flight.outcome(result)
        let isProved = if case .proved = outcome { true } else { false }
        var isKept = false
        if isProved, hasRoom {
            let code = keep(flight)
            isKept = code == nil
            if let code { context.couldNotKeep(code) }
        } else if hasRoom {
            context.store.giveBack(slice.length)
        }
        if let code = flight.trouble { context.couldNotKeep(code) }
        let now = ContinuousClock.now
        // A slice that could not be kept stays for a moment, for others who need it at about the same time.
        let lingers = isProved && !isKept && isInMemory
        if lingers {
            context.start {
                try? await Task.sleep(for: .seconds(15))
                self.forget(flight, of: place, isInMemory: true)
                flight.release()
            }
        } else {
            forget(flight, of: place, isInMemory: isInMemory)
        }
        state.withLock { state in
            var known = state.wrong[place] ?? []
            if case .wrong = outcome {
                let offset = flight.firstUnproven
                let times = (known.first { $0.offset == offset && $0.until > now }?.times ?? 0) + 1
                known.removeAll { $0.offset == offset }
                known.append((offset, times, now + .seconds(30)))
            } else if isProved {
                known.removeAll { (slice.start..<slice.end).contains($0.offset) }
                // The whole object proves its length.
                if flight.givesUnproven { state.note(slice.end, of: place, until: nil) }
            }
            if !isProved { state.sizes[place] = nil }
            if state.wrong.count >= 1_000 { state.wrong = [:] }
            state.wrong[place] = known.isEmpty ? nil : known.suffix(1_000)
        }
        if case .wrong = outcome {
            context.counts.withLock { $0.refused += 1 }
            context.warn("Does not match its name, and was not kept: \(Self.shown(slice, reading.names)).")
        }
        if case .failed(let error) = outcome { context.warn("\(error)") }
        flight.finish(outcome)
    }

    private func forget(_ flight: Flight, of place: Place, isInMemory: Bool) {
        state.withLock { state in
            state.flights[place]?.removeAll { $0 === flight }
            if state.flights[place]?.isEmpty == true { state.flights[place] = nil }
            state.flightCount -= 1
            if isInMemory { state.memory -= min(state.memory, flight.slice.length) }
        }
    }

    /// Puts a verified slice into the store.
    private func keep(_ flight: Flight) -> Errno? {
        let slice = flight.slice
        let (bytes, held) = flight.content
        guard let file = held ?? context.store.unfinishedFile() else {
            context.store.giveBack(slice.length)
            return .last
        }
        guard let bytes else { return context.store.keep(file, as: slice, nil) }
        let (code, sums) = bytes.withUnsafeBytes { (writeAll($0, to: file.descriptor.raw, at: 0), pieceSums($0)) }
        if let code {
            context.store.giveBack(slice.length)
            return code
        }
        guard let found = status(file.descriptor.raw) else { return context.store.keep(file, as: slice, nil) }
        return context.store.keep(file, as: slice, CacheStore.Proof(status: found, sums: sums))
    }
}
