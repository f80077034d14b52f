import SyncModel

extension MorningReport {
    /// The report, with nights, as one HTML page: no scripts, no requests, light and dark.
    ///
    /// - Parameter clock: The time and time zone of the report.
    package func page(_ clock: ReportClock) -> String {
        let host: HTML = self.host.map { ", \($0)" } ?? ""
        let counts: HTML = sessions.isEmpty ? "No sessions." : "\(summary)."
        let page: HTML = """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
            <meta name="color-scheme" content="light dark">
            <meta name="generator" content="syncagent \(version)">
            <title>Sync report\(host), \(clock.date(generated))</title>
            <style>
            \(HTML.css)
            </style>
            </head>
            <body>
            <main>
            <header>
            <h1>Sync report\(host)</h1>
            <p class="soft">\(clock.span(since, generated))</p>
            <p class="sum \(needingAttention == 0 ? "good" : "warn")">\(counts)</p>
            \(warnings.map { "<p class=\"sum warn\">\($0).</p>" })</header>
            \(overview)\(sessions.enumerated().map { SessionSection($1, number: $0 + 1, clock: clock).html })
            <footer>syncagent \(version). Bytes are those received, requests every one sent; a night goes from \
            noon to noon and bears the date of its morning.</footer>
            </main>
            </body>
            </html>

            """
        return page.text
    }

    /// A table of all sessions, if there are several.
    private var overview: HTML {
        guard sessions.count > 1 else { return "" }
        let rows: [HTML] = sessions.enumerated().map { index, session in
            """
            <tr><td><a href="#s\(index + 1)"><bdi>\(session.session)</bdi></a></td>\
            <td>\(SessionSection.badge(session.verdict))</td>\
            <td>\(session.headline)</td>\
            <td class="n">\(ByteCount(session.amounts.received).description)</td></tr>
            """
        }
        return """
            <section class="all"><div class="scroll"><table>\
            <caption>All sessions, those that need attention first</caption>\
            <thead><tr><th scope="col">Session</th><th scope="col">State</th><th scope="col">Outcome</th>\
            <th scope="col" class="n">Received</th></tr></thead><tbody>\(rows)</tbody></table></div></section>

            """
    }
}
