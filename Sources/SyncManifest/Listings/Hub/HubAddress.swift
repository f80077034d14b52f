import SyncModel

/// The repository that `hf://[datasets/|spaces/]ORG/NAME[@REVISION]` names, and its URLs at a hub.
package struct HubAddress: Sendable, Equatable {
    /// The kinds of repositories that a hub keeps apart.
    package enum Kind: String, Sendable, CaseIterable { case models, datasets, spaces }

    package let kind: Kind
    /// `ORG/NAME`, or a name alone.
    package let repository: String
    /// A branch, a tag or a commit.
    package let revision: String

    package static let scheme = "hf"

    /// - Throws: ``ListingError`` for text that names no repository.
    package init(_ location: String) throws(ListingError) {
        guard location.hasPrefix("hf://") else { throw ListingError("", "a hub's set is hf://ORG/NAME") }
        var rest = location.dropFirst("hf://".utf8.count)
        var kind = Kind.models
        for other in [Kind.datasets, .spaces] where rest.hasPrefix(other.rawValue + "/") {
            kind = other
            rest = rest.dropFirst(other.rawValue.utf8.count + 1)
        }
        let at = rest.firstIndex(of: "@")
        let name = rest[..<(at ?? rest.endIndex)]
        let revision = at.map { rest[rest.index(after: $0)...] } ?? "main"
        let components = name.split(separator: "/", omittingEmptySubsequences: false)
        // As huggingface_hub's validate_repo_id has them.
        let isName = components.allSatisfy { part in
            !part.isEmpty && part.utf8.count <= 96 && !part.hasPrefix(".") && !part.hasPrefix("-")
                && part.utf8.allSatisfy { isAlphanumeric($0) || [0x2D, 0x2E, 0x5F].contains($0) }
        }
        guard isName, (1...2).contains(components.count), components.count == 2 || kind != .models else {
            throw ListingError("", "\(quoted(String(name))) is not the name of a repository; write hf://ORG/NAME")
        }
        guard !revision.isEmpty, revision.utf8.count <= 255,
            !revision.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F })
        else { throw ListingError("", "\(quoted(String(revision))) is not a revision: a branch, a tag or a commit") }
        (self.kind, repository, self.revision) = (kind, String(name), String(revision))
    }

    /// The project of its manifest: `ORG.NAME`.
    package var project: String { SourceListing.project(repository) }

    /// The URL at which a hub says which commit a revision is.
    ///
    /// - Parameter endpoint: The hub's URL, without a slash at its end.
    package func revisionURL(_ endpoint: String) -> String {
        "\(api(endpoint))/revision/\(percentEncoded(bytes: revision.utf8, keepsSlash: false))"
    }

    /// The URL at which a hub lists the files of a commit.
    package func treeURL(_ endpoint: String, commit: String) -> String {
        "\(api(endpoint))/tree/\(commit)?recursive=true&expand=false"
    }

    private func api(_ endpoint: String) -> String { "\(endpoint)/api/\(kind.rawValue)/\(repository)" }

    /// The URL of a file, up to its path.
    package func filePrefix(_ endpoint: String, commit: String) -> String {
        "\(endpoint)/\(kind == .models ? "" : kind.rawValue + "/")\(repository)/resolve/\(commit)/"
    }

    /// The page about it, for people.
    package func page(_ endpoint: String) -> String {
        "\(endpoint)/\(kind == .models ? "" : kind.rawValue + "/")\(repository)"
    }
}
