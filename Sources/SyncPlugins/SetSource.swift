/// The answer of a source about a URL.
public enum SourceAnswer: Sendable, Equatable {
    /// The manifest that the source made last is still current.
    case unchanged
    /// A manifest, as JSON: `Manifests/FORMAT.md`, sections *Sources* and *What a listing does not say*. URLs are
    /// absolute; `source.at` names the state of the set, and may be left out.
    case manifest([UInt8])
}

/// Makes a manifest of a set that nobody published: from a listing, a directory, a database, whatever its URL names.
///
/// If it fails, the pull ends before anything is changed.
public protocol SetSource: Sendable {
    /// Makes a manifest; may take minutes, on a thread of its own.
    ///
    /// - Parameters:
    ///   - url: The URL as it was given; it may contain secrets.
    ///   - known: `source.at` of the last manifest that was made for this URL; `nil` if that is no longer known.
    func manifest(of url: String, known: String?) throws(PluginError) -> SourceAnswer
}
