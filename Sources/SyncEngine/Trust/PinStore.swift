import CPosix
import SyncDigest
import SyncFiles
import SyncModel
import SyncSystem
package import SyncTrust

/// The pins of this user: one file for each project in `trust/` of the state directory, 0600, replaced as a whole.
///
/// What stands in a file is believed: it was verified before it was written, and nobody else may write there.
package struct PinStore: Sendable {
    private let directory: String

    /// - Parameter stateDirectory: Absolute.
    package init(stateDirectory: String) { directory = stateDirectory + "/trust" }

    private static let ending = ".pin"

    private func path(_ project: String) throws(EngineError) -> String {
        "\(directory)/\(try Self.digest(project))\(Self.ending)"
    }

    static func digest(_ text: String) throws(EngineError) -> SHA256Digest {
        do throws(DigestError) {
            return try sha256(text)
        } catch {
            throw EngineError(.internalError, "\(error)")
        }
    }

    /// The pin of a project; `nil` when there is none.
    ///
    /// - Throws: ``EngineError`` when there is one that cannot be read: without it nothing of the project is believed.
    package func pin(_ project: String) throws(EngineError) -> TrustPin? {
        guard let pin = try read(path(project)), pin.project == project else { return nil }
        return pin
    }

    /// Every pin, by project.
    package func all() throws(EngineError) -> [TrustPin] {
        var pins: [TrustPin] = []
        for name in (directoryEntries(directory) ?? []).sorted()
        where name.hasSuffix(Self.ending) && !name.hasPrefix(".") {
            if let pin = try read("\(directory)/\(name)") { pins.append(pin) }
        }
        return pins.sorted { $0.project < $1.project }
    }

    private func read(_ path: String) throws(EngineError) -> TrustPin? {
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(path, trust: .state, limit: TrustPin.fileLimit)
        } catch {
            if error.isMissing { return nil }
            throw EngineError(.ioError, "cannot read a pin: \(error)")
        }
        do throws(TrustFault) {
            return try TrustPin(file: bytes)
        } catch {
            throw EngineError(
                .refused,
                "\(escaped(path)) is damaged, or a newer syncagent wrote it (\(error.reason)); nothing of its project is "
                    + "believed. Use the newer one, or remove the file and pin the project anew with --trust"
            )
        }
    }

    /// Keeps a pin in the place of another.
    ///
    /// - Parameter former: What this one was made from; `nil` when there was none.
    /// - Returns: `false` when another process has kept something else meanwhile: nothing is written then.
    func keep(_ pin: TrustPin, inPlaceOf former: TrustPin?) throws(EngineError) -> Bool {
        let path = try path(pin.project)
        return try locked { () throws(EngineError) in
            guard try read(path) == former else { return false }
            do throws(FileError) {
                try replaceFile(path, with: pin.file)
                // The name, too: a pin that a power cut takes away would be a machine that believes everybody.
                guard let folder = openDirectory(directory), fsync(folder.raw) == 0 else {
                    throw .last("sync", directory)
                }
            } catch {
                throw EngineError(.cannotCreate, "cannot keep what is trusted: \(error)")
            }
            return true
        }
    }

    /// Forgets a project.
    ///
    /// - Returns: Whether it was pinned.
    package func forget(_ project: String) throws(EngineError) -> Bool {
        let path = try path(project)
        guard access(directory, F_OK) == 0 else { return false }
        return try locked { () throws(EngineError) in
            if unlink(path) == 0 { return true }
            guard sa_errno() == ENOENT else {
                throw EngineError(.ioError, "cannot remove \(escaped(path)): \(errnoText)")
            }
            return false
        }
    }

    /// Does something that no other process does meanwhile. flock(2)
    private func locked<R>(_ work: () throws(EngineError) -> R) throws(EngineError) -> R {
        let file = try lock()
        let result = Result { () throws(EngineError) in try work() }
        _ = consume file
        return try result.get()
    }

    private func lock() throws(EngineError) -> Descriptor {
        do throws(FileError) {
            _ = try openPrivateDirectory(directory, create: true)
            let file = try openFile(directory + "/.lock", O_RDWR | O_CREAT, trust: .ownState)
            guard flock(file.raw, LOCK_EX) == 0 else { throw .last("lock", directory + "/.lock") }
            return file
        } catch {
            throw EngineError(.cannotCreate, "the state directory: \(error)")
        }
    }
}
