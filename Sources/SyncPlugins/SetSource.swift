/// What a source says of a URL.
public enum SourceAnswer: Sendable, Equatable {
    /// The manifest that it made last still holds.
    case unchanged
    /// A manifest, as JSON: `Manifests/FORMAT.md`, sections *Sources* and *What a listing does not say*. URLs are absolute;
    /// `source.at` says which state it is, and may be left out.
    case manifest([UInt8])
}

/// Makes a manifest of a set that nobody published: of a listing, a directory, a database, whatever its URL names.
///
/// If it fails, the pull ends before anything is changed.
public protocol SetSource: Sendable {
    /// Makes a manifest; may take minutes, on a thread of its own.
    ///
    /// - Parameters:
    ///   - url: As it was asked for; it may contain secrets.
    ///   - known: `source.at` of the manifest that it made last for this URL; `nil` if that is not known any more.
    func manifest(of url: String, known: String?) throws(PluginError) -> SourceAnswer
}
