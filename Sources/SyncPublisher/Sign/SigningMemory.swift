import SyncContent
package import SyncModel
import SyncSystem
package import SyncTrust

/// The record of what this machine has signed for an output directory, and under which roots: a file of the state
/// directory, in the form of a pin. The record keeps anyone with write access to the published directory from choosing
/// the keys of the next publish, from having something signed that this machine did not make, and from bringing back
/// what was signed before.
package struct SigningMemory: Sendable {
    private let directory: String
    private let output: String

    /// - Parameters:
    ///   - directory: A directory of state, made when it is missing.
    ///   - output: The output directory.
    package init(in directory: String, for output: String) { (self.directory, self.output) = (directory, output) }

    /// The path of the record, named by the output's real path, or by its URL; `nil` if the output does not exist yet.
    private func path() throws(PublishError) -> String? {
        guard let real = urlScheme(of: output) != nil ? output : try OutputPlacement.place(of: output) else {
            return nil
        }
        let name = try calling { try sha256(real) }
        return "\(directory)/\(name.hex).roots"
    }

    /// The record; `nil` if there is none.
    ///
    /// - Throws: ``PublishError`` for a file that is damaged, or cannot be read.
    package func read() throws(PublishError) -> TrustPin? {
        guard let path = try path() else { return nil }
        let bytes: [UInt8]
        do throws(FileError) { bytes = try readFile(path, trust: .state, limit: TrustPin.fileLimit) } catch {
            if error.isMissing { return nil }
            throw .cannotRead("\(error)", error.remark == nil ? "check the state directory" : Self.remedy)
        }
        do throws(TrustFault) { return try TrustPin(file: bytes) } catch {
            throw .refused("\(shown(path)) is damaged, or a newer syncagent wrote it: \(error.reason)", Self.remedy)
        }
    }

    private static let remedy = "name the directory with the roots with --sign, and it is written again"

    /// The record, as far as it is valid under a root. If the root names none of the former release keys, all revisions
    /// are dropped; if it lacks one of the former fresh keys, all serials are. So a project recovers from numbers that
    /// an attacker has set too high.
    ///
    /// A reader drops revisions as soon as one release key is gone, ``/SyncTrust/TrustPin/advance(to:)``. Here they stay
    /// while one of the former keys is valid: that key has signed older releases, too, which could be put back and
    /// confirmed otherwise. A revision that is too high only makes the next ones higher.
    func known(under root: RootStatement) throws(PublishError) -> TrustPin? {
        guard var pin = try usable(), pin.project == root.project else { return nil }
        let former = pin.root.content
        if Set(former.release.keys).isDisjoint(with: root.release.keys) {
            (pin.newest, pin.channels) = (TrustPin.Track(), [:])
        }
        guard Set(former.fresh.keys).isSubset(of: root.fresh.keys) else {
            // What the statements say stays: a channel that was removed stays removed.
            for channel in [nil] + pin.channels.keys.map(Optional.some) { pin[channel].serial = 0 }
            return pin
        }
        return pin
    }

    /// The record; `nil` also for a damaged file, which is then written again. A file that merely cannot be read now is
    /// an error.
    private func usable() throws(PublishError) -> TrustPin? {
        do throws(PublishError) { return try read() } catch {
            guard error.remedy == Self.remedy else { throw error }
            return nil
        }
    }

    /// Remembers a fresh statement that was published, and its roots, oldest first. On failure, what was remembered
    /// before stays.
    func keep(_ statement: SignedStatement, _ fresh: FreshStatement, under roots: [TrustPin.Root], now: Int64) {
        guard let root = roots.last, var pin = Self.pin(roots, now) else { return }
        let known: TrustPin?
        do throws(PublishError) { known = try self.known(under: root.content) } catch { return }
        if let known {
            (pin.newest, pin.channels, pin.made) = (known.newest, known.channels, known.made)
        }
        // A statement is never forgotten for an older one, as long as the same keys are valid.
        let last = pin[fresh.channel]
        let isOlder = fresh.revision < last.revision
        pin[fresh.channel] = TrustPin.Track(
            serial: max(fresh.serial, last.serial), revision: max(fresh.revision, last.revision),
            fresh: isOlder ? last.fresh ?? statement : statement)
        if pin.channels.count > TrustPin.mostChannels {
            // Drop the channel that was signed first: serials come from the clock.
            let oldest = pin.channels.filter { $0.key != fresh.channel }.min { $0.value.serial < $1.value.serial }
            if let oldest { pin.channels[oldest.key] = nil }
        }
        if let path = try? path() { try? write(pin, to: path) }
    }

    /// Remembers a manifest that is about to be published and signed, so that the next publish can continue it even if
    /// this one is killed before it has signed.
    func note(made manifest: SHA256Digest, under roots: [TrustPin.Root], now: Int64) throws(PublishError) {
        let former = try usable()
        let isSame = former?.project == roots.last?.content.project
        guard var pin = isSame ? former : Self.pin(roots, now), !pin.made.contains(manifest) else { return }
        pin.note(made: manifest)
        guard let path = try path() else { return }
        do throws(FileError) { try write(pin, to: path) } catch {
            throw PublishError(
                .ioError, "cannot remember what is signed: \(error)",
                "free space, or set XDG_STATE_HOME to another directory; the published set is unchanged")
        }
    }

    private static func pin(_ roots: [TrustPin.Root], _ now: Int64) -> TrustPin? {
        guard let first = roots.first, var pin = try? TrustPin(root: first.statement.bytes, basis: .file, now: now)
        else { return nil }
        for root in roots.dropFirst() { pin.advance(to: root) }
        return pin
    }

    private func write(_ pin: TrustPin, to path: String) throws(FileError) {
        _ = try openStateDirectory(directory, create: true)
        try replaceFile(path, with: pin.file)
    }
}

extension Signing {
    /// Signs again that the releases published at a place are the newest.
    package func refresh(_ place: TargetPlace) throws(PublishError) -> Refreshed {
        let output = try OutputDirectory(published: place, isReadOnly: false)
        let refreshed = try SignedOutput(output: output, signing: self).refresh()
        try output.home?.commit()
        return refreshed
    }

    /// The record of what this machine has signed before, as far as it is valid under the newest root; `nil` if there
    /// is none.
    var known: TrustPin? { get throws(PublishError) { try memory?.known(under: root) } }

    /// When something was signed last, as far as this machine knows, if its clock says that it is earlier now: it is
    /// behind, or was ahead then. **Milliseconds** since 1970.
    package var laterSignature: Int64? {
        var last = root.signed
        if let pin = try? known {
            for track in [pin.newest] + pin.channels.values { last = max(last, track.freshContent?.signed ?? last) }
        }
        return last > now + TrustCheck.clockTolerance ? last : nil
    }

    /// Whether this machine remembers having made a manifest, to sign it. If not, the manifest's signature must prove
    /// its origin.
    package func hasMade(_ manifest: SHA256Digest) -> Bool { (try? known)?.made.contains(manifest) == true }
}

extension TrustPin {
    /// The highest revision that was signed, in any channel; `nil` if none was.
    var lastRevision: UInt64? {
        let last = ([newest] + channels.values).map(\.revision).max() ?? 0
        return last > 0 ? last : nil
    }
}
