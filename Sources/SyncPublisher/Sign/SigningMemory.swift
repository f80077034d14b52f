import SyncDigest
import SyncModel
import SyncSystem
package import SyncTrust

/// The roots under which this machine has signed an output directory: a file of the state directory, in the form of a
/// pin. It keeps anyone with write access to the published directory from choosing the keys of the next publish.
package struct SigningMemory: Sendable {
    private let directory: String
    private let output: String

    /// - Parameters:
    ///   - directory: A directory of state, made when it is missing.
    ///   - output: The output directory.
    package init(in directory: String, for output: String) {
        (self.directory, self.output) = (directory, output)
    }

    /// Named by the output's real path; `nil` if the output does not exist yet.
    private var path: String? {
        guard let real = OutputPlacement.realPath(output), let name = try? sha256(real).hex else {
            return nil
        }
        return "\(directory)/\(name).roots"
    }

    /// What is remembered; `nil` for nothing.
    ///
    /// - Throws: ``PublishError`` for a file that is damaged.
    package func read() throws(PublishError) -> TrustPin? {
        guard let path else { return nil }
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(path, trust: .state, limit: TrustPin.fileLimit)
        } catch {
            if error.isMissing { return nil }
            throw .cannotRead("\(error)", Self.remedy)
        }
        do throws(TrustFault) {
            return try TrustPin(file: bytes)
        } catch {
            throw .cannotSign(
                "\(shown(path)) is damaged, or a newer syncagent wrote it: \(error.reason)",
                Self.remedy
            )
        }
    }

    private static let remedy = "name the directory with the roots with --sign, and it is written again"

    /// Remembers roots, oldest first. On failure, the next publish trusts at first sight again, and says so.
    func keep(_ roots: [TrustPin.Root], now: Int64) {
        guard let path, let first = roots.first,
            var pin = try? TrustPin(root: first.statement.bytes, basis: .file, now: now)
        else { return }
        for root in roots.dropFirst() { pin.advance(to: root) }
        if let former = try? read(), former.roots == pin.roots { return }
        guard (try? openStateDirectory(directory, create: true)) != nil else { return }
        try? replaceFile(path, with: pin.file)
    }
}
