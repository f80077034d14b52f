import SyncModel
import SyncTrust

/// What was signed in an output directory before, and whether machines that trust it can follow.
extension OutputDirectory {
    /// Why machines that trust the former signatures here would refuse this release; `nil` if they would accept it, or
    /// if the options permit it.
    ///
    /// - Parameters:
    ///   - signing: Who signs it; `nil` for nobody.
    ///   - permits: `nil` for a command that has no options for that.
    func objection(to signing: Signing?, _ permits: PublishOptions.Permits?) throws(PublishError) -> PublishError? {
        guard let signing else {
            guard permits?.contains(.unsigned) != true else { return nil }
            guard try isSigned() else { return nil }
            let wanted = permits == nil ? "" : "if that is wanted: --allow-unsigned; "
            return .refused(
                "\(shown(path)) has signed releases, and this one would not be signed: machines that are pinned would not "
                    + "get it", "add --sign, or --signer; \(wanted)nothing was published")
        }
        guard permits?.contains(.otherKeys) != true, let number = try otherRoots(than: signing).first else {
            return nil
        }
        guard let bytes = try read(.trust, "\(number).root", limit: Role.root.limit),
            (try? TrustPin(root: bytes, basis: .file, now: 0)) != nil
        else {
            return .refused(
                "\(shown(path))/trust/\(number).root is damaged, or is no root",
                "restore it; if no root was ever made with that number, remove it; nothing was published")
        }
        let wanted =
            permits == nil
            ? ""
            : "if those are lost, and these, made with 'syncagent keys new --after', replace them: --allow-other-keys, "
                + "and pin the project again on every machine; "
        return .refused(
            "\(shown(path))/trust/\(number).root is not among the roots to sign with, and they do not continue from it: "
                + "machines that trust it would refuse what is published",
            "use the keys of that root, with every newer one; \(wanted)nothing was published")
    }

    /// Whether a signed release was published here, in any channel.
    func isSigned() throws(PublishError) -> Bool {
        try statementNames().contains { $0 == FreshStatement.name(nil) || $0.hasSuffix(".fresh") }
    }

    /// Removes the roots of others, once a release under these is in place.
    func removeOtherRoots(than signing: Signing) throws(PublishError) {
        for number in try otherRoots(than: signing) { try remove("\(number).root", from: .trust) }
    }

    /// The published roots that are not of one chain with those to sign with, ascending.
    private func otherRoots(than signing: Signing) throws(PublishError) -> [UInt64] {
        let known = Dictionary(signing.roots.map { ($0.content.number, $0.statement.digest) }) { $1 }
        let oldest = signing.roots[0]
        let published = try statementNames().compactMap { name in
            name.hasSuffix(".root") ? UInt64(name.dropLast(5)) : nil
        }
        var others: [UInt64] = []
        for number in published.sorted() {
            let statement = try read(.trust, "\(number).root", limit: Role.root.limit).flatMap {
                try? SignedStatement($0, limit: Role.root.limit)
            }
            let isOther: Bool
            if let digest = known[number] {
                isOther = statement?.digest != digest
            } else if number < oldest.content.number {
                // Older roots need not be at hand; the last of them must have signed the oldest one that is.
                let content = statement.flatMap { try? RootStatement(json: $0.json) }
                isOther =
                    number == oldest.content.number - 1
                    && !(content.map { oldest.statement.isSigned(.root, by: $0.root) } ?? false)
            } else {
                isOther = true
            }
            if isOther { others.append(number) }
        }
        return others
    }
}
