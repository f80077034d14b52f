/// What a browser is shown at `/`: what is served here, and the command that brings it. There is no listing.
struct IndexPage: Sendable {
    /// As the request names this server; `nil` where it does not.
    let host: String?
    let hasManifest: Bool

    /// UTF-8.
    var html: [UInt8] {
        // The client's own word: only what can stand in a host and a port is shown.
        let isHost = host.map { host in
            !host.isEmpty && host.utf8.count < 300
                && host.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || ".-:[]".contains($0)) }
        }
        let url = "http://\(isHost == true ? host ?? "" : "HOST")/manifest.json"
        let body =
            hasManifest
            ? """
            <p>This server has a set of files for syncagent: <a href="/manifest.json">manifest.json</a></p>
            <pre>syncagent pull \(url) --into DIRECTORY</pre>
            """
            : "<p>This server has files for syncagent, and no <code>manifest.json</code> at its top.</p>"
        let page = """
            <!DOCTYPE html>
            <html lang="en">
            <head><meta charset="utf-8"><title>syncagent serve</title></head>
            <body>
            \(body)
            </body>
            </html>

            """
        return Array(page.utf8)
    }
}
