import SyncFiles
package import SyncModel
import SyncSystem
package import SyncTrust

/// The pins of this user: one file per project in `trust/` of the state directory, 0600, replaced as a whole.
///
/// The files are trusted: they were verified before they were written, and nobody else may write there. A damaged file
/// stops only its own project: empty files beside it name the places that the project was pulled from.
package struct PinStore: Sendable {
    private let directory: String

    /// - Parameter stateDirectory: Absolute.
    package init(stateDirectory: String) { directory = stateDirectory + "/trust" }

    private static let ending = ".pin"
    private static let placeEnding = ".place"

    private func path(_ project: String) throws(EngineError) -> String {
        "\(directory)/\(try Self.digest(project))\(Self.ending)"
    }

    /// The empty file that marks a place as a pinned project's.
    private static func mark(_ project: some StringProtocol, _ place: SHA256Digest) -> String {
        "\(project).\(place)\(placeEnding)"
    }

    /// The digest of the project that a file belongs to.
    private static func owner(_ name: String) -> Substring { name.prefix { $0 != "." } }

    static func digest(_ text: String) throws(EngineError) -> SHA256Digest {
        try SyncEngine.digest(of: Array(text.utf8))
    }

    /// The pin of a project; `nil` if there is none.
    ///
    /// - Throws: ``EngineError`` when there is one that cannot be read: without it nothing of the project is accepted.
    package func pin(_ project: String) throws(EngineError) -> TrustPin? { try read(path(project)) }

    /// The pin of the project that was pulled from a place, the latest one if several projects were; `nil` if there is
    /// none.
    ///
    /// - Parameter place: The SHA-256 of the place.
    /// - Throws: ``EngineError`` when that may be a project whose pin cannot be read.
    package func pin(at place: SHA256Digest) throws(EngineError) -> TrustPin? {
        let names = try names()
        var (found, doubt) = (TrustPin?.none, EngineError?.none)
        for name in names where Self.isPin(name) {
            do throws(EngineError) {
                if let pin = try read("\(directory)/\(name)"), pin.places.contains(place),
                    found.map({ $0.pinned < pin.pinned }) ?? true
                {
                    found = pin
                }
            } catch {
                let marks = names.filter { $0.hasSuffix(Self.placeEnding) && Self.owner($0) == Self.owner(name) }
                if marks.contains(Self.mark(Self.owner(name), place)) { throw error }
                // Without any mark, any place may be the damaged pin's.
                if marks.isEmpty { doubt = doubt ?? error }
            }
        }
        if found == nil, let doubt { throw doubt }
        return found
    }

    /// Every pin, by project, and the errors of those that cannot be read.
    package func all() throws(EngineError) -> (pins: [TrustPin], damage: [EngineError]) {
        var (pins, damage) = ([TrustPin](), [EngineError]())
        for name in try names() where Self.isPin(name) {
            do throws(EngineError) { if let pin = try read("\(directory)/\(name)") { pins.append(pin) } } catch {
                damage.append(error)
            }
        }
        return (pins.sorted { $0.project < $1.project }, damage)
    }

    private static func isPin(_ name: String) -> Bool { name.hasSuffix(ending) && !name.hasPrefix(".") }

    /// The names in the directory, sorted.
    private func names() throws(EngineError) -> [String] {
        do throws(Errno) { if let names = try directoryEntries(directory) { return names.sorted() } } catch {
            throw EngineError(.ioError, "cannot read the pins in \(escaped(directory)): \(error)")
        }
        // A link that leads nowhere means that the disk with the pins is missing, not that nothing is pinned.
        guard case .success(nil) = status(currentDirectory, directory) else {
            throw EngineError(.ioError, "cannot read the pins in \(escaped(directory)): \(Errno.noSuchFileOrDirectory)")
        }
        return []
    }

    private func read(_ path: String) throws(EngineError) -> TrustPin? {
        let bytes: [UInt8]
        do throws(FileError) { bytes = try readFile(path, trust: .state, limit: TrustPin.fileLimit) } catch {
            if error.isMissing { return nil }
            throw EngineError(.ioError, "cannot read a pin: \(error)")
        }
        let reason: String
        switch Result(catching: { () throws(TrustFault) in try TrustPin(file: bytes) }) {
        case .success(let pin):
            if try self.path(pin.project) == path { return pin }
            reason = "it is the pin of \(pin.project)"
        case .failure(let fault): reason = fault.reason
        }
        throw EngineError(
            .refused,
            "\(escaped(path)) is damaged, or a newer syncagent wrote it (\(reason)); its project is not "
                + "trusted. Use the newer one, or remove the file and pin the project again with --trust",
            cause: .signature)
    }

    /// Replaces a pin.
    ///
    /// - Parameter former: The pin that this one was made from; `nil` when there was none.
    /// - Returns: `false` if another process has stored something else meanwhile: nothing is written then.
    func keep(_ pin: TrustPin, inPlaceOf former: TrustPin?) throws(EngineError) -> Bool {
        let path = try path(pin.project)
        return try locked { () throws(EngineError) in
            guard try read(path) == former else { return false }
            let owner = try Self.digest(pin.project).hex
            let marks = Set(pin.places.map { Self.mark(owner, $0) })
            let marked = Set(try names().filter { $0.hasSuffix(Self.placeEnding) && Self.owner($0) == owner })
            do throws(FileError) {
                for mark in marks.subtracting(marked) {
                    _ = try openFile("\(directory)/\(mark)", [.writeOnly, .create], trust: .ownState)
                }
                // With a durable name: if a power cut removed the pin, this machine would trust anyone.
                try replaceFile(path, with: pin.file)
                for mark in marked.subtracting(marks) { removeFile("\(directory)/\(mark)") }
            } catch { throw EngineError(cannotUse: error, "cannot keep what is trusted: ") }
            return true
        }
    }

    /// Forgets a project.
    ///
    /// - Returns: Whether it was pinned.
    package func forget(_ project: String) throws(EngineError) -> Bool {
        let path = try path(project)
        guard exists(directory) else { return false }
        return try locked { () throws(EngineError) in
            if let code = removeFile(path) {
                guard code == .noSuchFileOrDirectory else {
                    throw EngineError(.ioError, "cannot remove \(escaped(path)): \(code)")
                }
                return false
            }
            let owner = try Self.digest(project).hex
            for name in try names() where name.hasSuffix(Self.placeEnding) && Self.owner(name) == owner {
                removeFile("\(directory)/\(name)")
            }
            return true
        }
    }

    /// Runs `work` while no other process does. flock(2)
    private func locked<R>(_ work: () throws(EngineError) -> R) throws(EngineError) -> R {
        let file = try lock()
        defer { withExtendedLifetime(file) {} }
        return try work()
    }

    private func lock() throws(EngineError) -> Descriptor {
        do throws(FileError) {
            _ = try openPrivateDirectory(directory, create: true)
            let file = try openFile(directory + "/.lock", [.readWrite, .create], trust: .ownState)
            while let code = lockWhole(file.raw) {
                guard code == .resourceTemporarilyUnavailable else {
                    throw FileError(step: "lock", path: directory + "/.lock", code: code)
                }
                pauseThread(milliseconds: 5)
            }
            return file
        } catch { throw EngineError(cannotUse: error, "the state directory: ") }
    }
}
