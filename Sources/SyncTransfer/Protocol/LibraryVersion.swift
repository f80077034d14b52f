import CCurl

/// The version of libcurl that is in use, such as `7.88.1`, and of its TLS library.
package func libcurlVersions() -> (libcurl: String, tls: String) {
    guard let version = sa_curl_version()?.pointee else { return ("?", "?") }
    return (String(cString: version.version), version.ssl_version.map { String(cString: $0) } ?? "none")
}
