import SyncManifest
import SyncModel

/// The base for the relative URLs of a manifest at this location.
func manifestURL(_ location: String) -> String {
    switch urlScheme(of: location) {
    case nil: return fileURL(path: absolute(location) ?? location)
    case RegistryAddress.scheme:
        guard let address = try? RegistryAddress(location), let endpoint = address.endpoints.first else {
            return location
        }
        return RegistryBase(address, at: endpoint).text
    default: return location
    }
}

/// Resolves a manifest's URL reference against the manifest's own URL. RFC 3986 §5.2, without dot segments:
/// those are removed by the transport's URL parser.
///
/// - Parameters:
///   - reference: The URL as written; ``ManifestAssembly`` has accepted only relative ones and those of served schemes.
///   - base: An absolute URL.
func resolve(_ reference: String, against base: String) -> String {
    if let scheme = leadingScheme(of: reference) { return withAuthority(reference, schemes: [scheme]) }
    if !reference.hasPrefix("/"), let base = RegistryBase(base) { return base.url(reference) }
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

/// Resolves references against each base in turn, each URL once.
func resolve(_ references: [String], against bases: [String]) -> [String] {
    var urls: [String] = []
    for base in bases {
        for reference in references {
            let url = resolve(reference, against: base)
            if !urls.contains(url) { urls.append(url) }
        }
    }
    return urls
}

/// A URL without userinfo, query and fragment, fit to be recorded. Relative URLs resolve against it as against the full
/// one.
func withoutSecrets(_ url: String) -> String {
    let plain = String(url.prefix { $0 != "?" && $0 != "#" })
    guard let scheme = plain.firstIndex(of: ":"), plain[scheme...].hasPrefix("://") else { return plain }
    let start = plain.index(scheme, offsetBy: 3)
    let end = plain[start...].firstIndex(of: "/") ?? plain.endIndex
    guard let at = plain[start..<end].lastIndex(of: "@") else { return plain }
    return String(plain[..<start] + plain[plain.index(after: at)...])
}
