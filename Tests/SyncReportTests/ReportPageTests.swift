import Foundation
import SyncModel
import SyncReport
import SyncStore
import Testing

private let morning = november(21, 7, 30)

private func page(_ store: SyncStore, since: Int64? = nil) throws -> String {
    try store.report(at: morning, since: since).page(clock(at: morning))
}

/// A page as a browser's tokenizer sees it: names of tags, attributes and their values, text.
private struct Tags {
    private(set) var complaints: [String] = []
    private(set) var names: Set<String> = []
    private(set) var attributes: Set<String> = []
    private(set) var identifiers: [String] = []
    private(set) var texts: [String] = []

    private static let void: Set<String> = ["meta", "rect", "circle", "line", "path", "br"]

    init(_ page: String) {
        var open: [String] = []
        var rest = Substring(page)
        while let start = rest.firstIndex(of: "<") {
            texts.append(String(rest[..<start]))
            guard let end = rest[start...].firstIndex(of: ">") else {
                complaints.append("a tag without an end")
                return
            }
            let tag = rest[rest.index(after: start)..<end]
            rest = rest[rest.index(after: end)...]
            if tag.hasPrefix("!") { continue }
            if tag.hasPrefix("/") {
                let name = String(tag.dropFirst())
                if open.popLast() != name { complaints.append("</\(name)> out of order") }
                continue
            }
            let name = String(tag.prefix { $0.isLetter || $0.isNumber })
            names.insert(name)
            read(tag.dropFirst(name.count))
            if !tag.hasSuffix("/"), !Self.void.contains(name) { open.append(name) }
        }
        if !open.isEmpty { complaints.append("open at the end: \(open)") }
    }

    private mutating func read(_ text: Substring) {
        // Every attribute is quoted, so that quotes part the text into names and values.
        let parts = text.split(separator: "\"", omittingEmptySubsequences: false)
        if parts.count % 2 == 0 { complaints.append("an odd quote in <…\(text)>") }
        for (place, part) in parts.enumerated() where place % 2 == 0 {
            let name = part.trimmingCharacters(in: .whitespaces.union(CharacterSet(charactersIn: "=/")))
            guard !name.isEmpty else { continue }
            attributes.insert(name)
            if name == "id", parts.indices.contains(place + 1) { identifiers.append(String(parts[place + 1])) }
        }
    }
}

@Suite("The report as a page", .timeLimit(.minutes(10)))
struct ReportPageTests {
    @Test("Tags are closed in order, only known ones are there, and names are unique")
    func structure() throws {
        let tags = Tags(try page(fortnight()))
        #expect(tags.complaints == [])
        #expect(
            tags.names == [
                "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "p", "section", "div",
                "span", "bdi", "b", "code", "br", "table", "caption", "thead", "tbody", "tr", "th", "td", "a", "dl",
                "dt", "dd", "figure", "figcaption", "svg", "desc", "g", "rect", "circle", "line", "path", "text",
                "details", "summary", "footer",
            ])
        #expect(
            tags.attributes.isSubset(of: [
                "lang", "charset", "name", "content", "http-equiv", "class", "id", "href", "scope", "role",
                "aria-labelledby", "aria-hidden", "viewBox", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx",
                "width", "height", "d", "text-anchor", "colspan",
            ]))
        #expect(Set(tags.identifiers).count == tags.identifiers.count)
    }

    @Test("It asks nobody for anything: no script, no address to load from")
    func selfContained() throws {
        let text = try page(fortnight())
        for word in ["<script", "javascript:", "src=", "url(", "@import", "<link", "<img", "http-equiv=\"refresh"] {
            #expect(!text.contains(word), "\(word)")
        }
        let targets = text.split(separator: "href=\"").dropFirst().map { $0.prefix { $0 != "\"" } }
        #expect(!targets.isEmpty && targets.allSatisfy { $0.hasPrefix("#s") })
        #expect(text.contains("content=\"default-src &#39;none&#39;") || text.contains("content=\"default-src 'none'"))
        #expect(text.utf8.count < 100_000)
    }

    @Test("Hostile names are shown, never obeyed [V63]")
    func hostile() throws {
        let store = try SyncStore.inMemory()
        let name = "a\"b'<img src=x onerror=alert(1)>\u{1B}[2J\u{202E}\n&amp;"
        let story = StoreStory(name, in: store, destination: "/srv/\(name)")
        let hook = RunHook(group: "all", arguments: ["/opt/\(name)"])
        try story.begin("1", at: november(21, 1), groups: ["all", name], hooks: [hook])
        try story.event("task.failed", "1", at: november(21, 1)) {
            $0.field("path", name)
            $0.field("reason", name)
        }
        try story.event("condition.blocked", "1", at: november(21, 1)) {
            $0.field("condition", name)
            $0.field("detail", name)
        }
        try story.hooks("1", at: november(21, 1), took: 5, ended: name, output: name, groups: ["all", name])
        var work = StoreStory.Work(installed: 1, failed: 1, received: 7, requests: 1)
        work.origins = [("https://\(name)", 1, 7, 1)]
        work.directories = [(name, 1, 7)]
        try story.finish(work, "1", at: november(21, 2), total: 2, result: .partial, error: name)

        let text = try page(store)
        let tags = Tags(text)
        #expect(tags.complaints == [])
        #expect(!tags.names.contains("img") && !tags.attributes.contains("onerror"))
        #expect(text.contains("&lt;img src=x onerror=alert(1)&gt;\\u{1b}[2J\\u{202e}\\u{a}&amp;amp;"))
        let harmless = text.unicodeScalars.allSatisfy { $0 == "\n" || !isUnsafeOnTerminal($0) }
        #expect(harmless)
        let terminal = try store.text(at: morning)
        #expect(terminal.unicodeScalars.allSatisfy { $0 == "\n" || !isUnsafeOnTerminal($0) })
        // A session's name cannot begin a line of its own.
        #expect(
            terminal.split(separator: "\n").allSatisfy {
                $0.hasPrefix("render-07") || $0.hasPrefix("ATTENTION") || $0.hasPrefix("    ")
            })
    }

    @Test("Every chart has a name and says in words what it shows; every bar and its table have the numbers")
    func accessible() throws {
        let text = try page(threeNights(), since: november(18, 12))
        #expect(text.split(separator: "<svg ").count == 4)
        #expect(text.split(separator: "role=\"img\" aria-labelledby=\"s1").count == 4)
        #expect(text.contains("<title id=\"s1b-t\">Received per night of com.example.tower</title>"))
        #expect(
            text.contains(
                "<desc id=\"s1b-d\">3 nights; Nov 21: 118 MiB; most 412 MiB on Nov 19. The table below has them all.</desc>"
            ))
        #expect(text.contains("<title>Nov 19: 412 MiB, stopped, continues</title>"))
        let rows = ["2026-11-21", "2026-11-20", "2026-11-19"].map { "<tr><th scope=\"row\" class=\"t\">\($0)</th>" }
        for row in rows { #expect(text.contains(row)) }
        #expect(text.contains("<td class=\"n\">294 MiB</td><td class=\"n\">25</td><td class=\"n\">1 h 10 min</td>"))
    }

    @Test("Nights without a run between others are drawn as such; there are never more than thirty")
    func nights() throws {
        let report = try fortnight().report(at: morning)
        let tower = try #require(report.sessions.first { $0.session == "com.example.tower" })
        #expect(tower.nights.count == 14)
        #expect(tower.nights.filter { $0.runs == 0 }.map(\.date) == ["2026-11-13"])
        #expect(tower.nights.last?.amounts.received == 356 * mebi + 400_000)

        let store = try SyncStore.inMemory()
        let story = StoreStory("long", in: store)
        for day in -40...21 {
            try story.begin("\(day)", at: november(day, 2))
            try story.finish(StoreStory.Work(received: 5), "\(day)", at: november(day, 3), total: 1)
        }
        let long = try #require(try store.report(at: morning).sessions.first)
        #expect(long.nights.count == 30 && long.nights.first?.date == "2026-10-23")
        #expect(long.nights.allSatisfy { $0.amounts.received == 5 && $0.result == .ok })
        // Those since the last run are there in the morning and in the afternoon; the coming one is not yet.
        for hour in [8, 15] {
            let late = try #require(try store.report(at: november(24, hour)).sessions.first)
            #expect(late.nights.suffix(4).map(\.date) == (21...24).map { "2026-11-\($0)" })
            #expect(late.nights.suffix(4).map(\.runs) == [1, 0, 0, 0])
        }
    }
}

@Suite("Secrets in reports", .timeLimit(.minutes(10)))
struct ReportSecretTests {
    @Test("No secret of a URL or of a hook's arguments is in any form of a report [V64]")
    func canaries() throws {
        for store in [try threeNights(), try fortnight()] {
            let report = try store.report(at: morning, since: november(1))
            let forms = [
                report.page(clock(at: morning)), report.json.text,
                try metricsText(store, version: "0.1.0"),
            ]
            for form in forms { #expect(!form.contains("CANARY")) }
            // What a failed hook wrote is shown on its own machine's terminal only.
            let terminal = try store.text(at: morning, since: november(1))
            #expect(!terminal.replacingOccurrences(of: "CANARY-OUTPUT", with: "").contains("CANARY"))
        }
    }
}
