package import SyncEngine
package import SyncModel
import SyncSystem
import SyncTrust

extension TrustChoice {
    /// The pins of a configuration, and the choice of a recipe.
    init(_ file: ConfigurationFile, _ recipe: RunRecipe?) throws(EngineError) {
        self.init()
        anchor = try recipe?.trust.map { trust throws(EngineError) in try Self.anchor(trust, of: "--trust") }
        grace = min(max(0, recipe?.staleSeconds ?? 0), 36_500 * 86_400) * 1_000
        for (project, text) in file.pins {
            do throws(EngineError) {
                pins[project] = try Self.anchor(text, of: "trust.pins of the configuration, \(escaped(project))")
            } catch { pins[project] = .unreadable(EngineError(.configuration, error.message)) }
        }
        requiresSignature = file.unsigned == .refuse
    }

    /// The digest of `SHA256:` and 64 hexadecimal digits; `nil` for any other text.
    package static func digest(_ text: String) -> SHA256Digest? {
        text.hasPrefix("SHA256:") ? SHA256Digest(hex: String(text.dropFirst(7))) : nil
    }

    /// The anchor that a text stands for.
    ///
    /// - Parameter option: The option or key that has the text, for messages.
    /// - Throws: ``/SyncEngine/EngineError`` with status 66 for a file that is not there, 77 for one that others could
    ///   change, 74 for one that cannot be read.
    private static func anchor(_ text: String, of option: String) throws(EngineError) -> Anchor {
        if text == "first" { return .first }
        if let digest = digest(text) { return .fingerprint(digest) }
        let bytes = try rethrowing(readUnchangeable(text, limit: Role.root.limit)) { (error: FileError) in
            EngineError(error.isMissing ? .noInput : error.isRefusal ? .refused : .ioError, "\(option): \(error)")
        }
        return .file(path: text, bytes)
    }
}
