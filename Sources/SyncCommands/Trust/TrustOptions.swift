import ArgumentParser
import SyncEngine
import SyncModel
import SyncSettings
import SyncSystem
import SyncTrust

/// Whom a pull believes.
struct TrustOptions: ParsableArguments {
    @Option(
        help:
            "Pin the project: from now on its releases must be signed. Takes a root file, SHA256:HEX of its statement, or 'first' to trust the root that is served now."
            .taking("root"),
        completion: .file(extensions: ["root"])
    )
    var trust: String?

    @Option(
        help: "Accept a signed release for this long after it expires, such as 7d; the run records it."
            .taking("time"),
        transform: validity
    )
    var stale: Int64?

    func validate() throws {
        guard let trust else { return }
        if trust.isEmpty { throw ValidationError("--trust wants a file, SHA256:HEX or 'first'.") }
        if trust.hasPrefix("SHA256:"), Self.digest(trust) == nil {
            throw ValidationError("--trust SHA256: wants 64 hexadecimal digits.")
        }
    }

    private static func digest(_ text: String) -> SHA256Digest? {
        text.hasPrefix("SHA256:") ? SHA256Digest(hex: String(text.dropFirst(7))) : nil
    }

    /// Where trust begins, from its text.
    static func anchor(_ text: String, of option: String) throws(CommandFailure) -> TrustChoice.Anchor {
        if text == "first" { return .first }
        if let digest = digest(text) { return .fingerprint(digest) }
        return .file(path: text, try inputFile(text, limit: Role.root.limit, "\(option): "))
    }

    func apply(to recipe: inout RunRecipe, _ environment: EnvironmentPaths) throws(CommandFailure) {
        recipe.staleSeconds = stale.map { $0 / 1_000 }
        guard let trust else { return }
        let isPath = trust != "first" && Self.digest(trust) == nil
        recipe.trust = isPath ? try translating(environment.pathBase.absolute(trust)) : trust
    }
}

extension TrustChoice {
    /// The pins of a configuration, and what a recipe says beside them.
    init(_ setting: TrustSetting, _ recipe: RunRecipe?) throws(CommandFailure) {
        self.init()
        anchor = try recipe?.trust.map { trust throws(CommandFailure) in
            try TrustOptions.anchor(trust, of: "--trust")
        }
        grace = min(max(0, recipe?.staleSeconds ?? 0), 36_500 * 86_400) * 1_000
        for (project, text) in setting.pins {
            do throws(CommandFailure) {
                pins[project] = try TrustOptions.anchor(
                    text,
                    of: "trust.pins of the configuration, \(escaped(project))"
                )
            } catch {
                pins[project] = .unreadable(EngineError(.configuration, error.message))
            }
        }
        requiresSignature = setting.unsigned == .refuse
    }
}
