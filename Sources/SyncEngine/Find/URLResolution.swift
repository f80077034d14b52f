import SyncModel

/// Whether a manifest's place is a URL of a web server; else it is a path.
func isWebURL(_ location: String) -> Bool {
    let scheme = location.prefix { $0 != ":" }.lowercased()
    return (scheme == "http" || scheme == "https") && location.dropFirst(scheme.count).hasPrefix("://")
}

/// What the relative URLs of a manifest resolve against, by its place.
func manifestURL(_ location: String) -> String {
    isWebURL(location) ? location : fileURL(path: absolute(location))
}

/// Resolves a manifest's URL reference against the manifest's own URL. RFC 3986 §5.2, without dot segments:
/// those are removed by the transport's URL parser.
///
/// - Parameters:
///   - reference: As written; ``ManifestLoader`` has let only http, https and relative ones through.
///   - base: An absolute URL, `http`, `https` or `file`.
func resolve(_ reference: String, against base: String) -> String {
    if isWebURL(reference) { return reference }
    let plain = base.prefix { $0 != "?" && $0 != "#" }
    guard let schemeEnd = plain.firstIndex(of: ":") else { return reference }
    let afterScheme = plain.index(after: schemeEnd)
    let rest = plain[afterScheme...].drop { $0 == "/" }
    let slashes = plain[afterScheme...].prefix { $0 == "/" }.count
    if reference.hasPrefix("//") { return plain[..<afterScheme] + reference }
    if reference.hasPrefix("/") {
        guard slashes < 3 else { return plain[..<afterScheme] + "//" + reference }
        let origin = plain[..<(rest.firstIndex(of: "/") ?? plain.endIndex)]
        return origin + reference
    }
    guard let lastSlash = rest.lastIndex(of: "/") else {
        return slashes < 3 ? plain + "/" + reference : plain[..<rest.startIndex] + reference
    }
    return plain[...lastSlash] + reference
}
