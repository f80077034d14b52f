import SyncModel
import SyncStore

struct SessionSection {
    let session: SessionReport
    let clock: ReportClock
    let anchor: String

    init(_ session: SessionReport, number: Int, clock: ReportClock) {
        (self.session, self.clock) = (session, clock)
        anchor = "s\(number)"
    }

    static func badge(_ verdict: Verdict) -> HTML {
        let word: HTML =
            switch verdict {
            case .failed: "failed"
            case .attention: "needs attention"
            case .working: "under way"
            case .ok: "ok"
            case .quiet: "nothing new"
            }
        return "<span class=\"badge \(verdict.word)\">\(word)</span>"
    }

    var html: HTML {
        let label: HTML = session.label.map { "<span class=\"soft\"><bdi>\($0)</bdi></span>" } ?? ""
        return """
            <section id="\(anchor)" aria-labelledby="\(anchor)-h">
            <div class="head"><h2 id="\(anchor)-h"><bdi>\(session.session)</bdi></h2>\
            \(Self.badge(session.verdict))\(label)</div>
            <p class="line">\(Self.sentence(session.headline))</p>
            <p class="where soft small">into <code>\(session.destination)</code>\(next)</p>
            \(session.problems.prefix(8).map(problem))\(moreProblems)\(tiles)\(nightCharts)\(lists)
            </section>

            """
    }

    /// Capitalizes the first letter, and adds a full stop.
    private static func sentence(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() + "." }

    private var next: HTML { session.next.map { "; next run \(clock.moment($0))" } ?? "" }

    private func problem(_ problem: Problem) -> HTML {
        let kind: HTML = problem.isOver ? " over" : session.verdict == .failed ? " bad" : ""
        let files: HTML = problem.files > 0 ? "\(Figures.count(problem.files, "file")): " : ""
        guard !problem.isOver else {
            return """
                <div class="problem over small"><p>Earlier, resolved: \(files)\(problem.detail) \
                (\(clock.moment(problem.time)))</p></div>

                """
        }
        let more = problem.files - problem.examples.count
        let rest: HTML = more > 0 ? " and \(Figures.grouped(more)) more" : ""
        let paths = HTML(problem.examples.map { "<code>\($0)</code>" }, separator: ", ")
        let examples: HTML = problem.examples.isEmpty ? "" : "<p class=\"small\">\(paths)\(rest)</p>"
        return """
            <div class="problem\(kind)"><p><b>\(files)\(problem.detail)</b></p>\(examples)\
            <p class="small">\(problem.advice)</p></div>

            """
    }

    private var moreProblems: HTML {
        let more = session.problems.count - 8
        return more > 0 ? "<p class=\"small soft\">and \(Figures.count(more, "more problem"))</p>" : ""
    }

    // MARK: Numbers

    private var tiles: HTML {
        guard session.verdict != .quiet else { return "" }
        let amounts = session.amounts
        let last = session.runs.last { $0.result != nil }
        let here: String =
            if let last, last.counts.files.total > 0 {
                "of \(Figures.count(last.counts.files.total, "file"))"
                    + (session.filesHere > 0 ? "; \(Figures.grouped(session.filesHere)) were correct" : "")
            } else { "so far" }
        let pieces = session.runs.reduce(0) { $0 + $1.work.count }
        let reused = "\(Figures.count(amounts.reused, "file")) without a request"
        return """
            <dl class="tiles">\
            \(tile("Received", ByteCount(amounts.received).description, "in \(Figures.count(amounts.requests, "request"))"))\
            \(tile("Files put in place", Figures.grouped(amounts.placed), here))\
            \(tile("Time", Figures.period(amounts.elapsed), session.rate ?? "\(Figures.count(pieces, "piece")) of work"))\
            \(tile("Reused locally", ByteCount(amounts.reusedBytes).description, reused))\
            </dl>

            """
    }

    private func tile(_ name: HTML, _ value: String, _ note: String) -> HTML {
        """
        <div><dt>\(name)</dt><dd><div class="value">\(value)</div><div class="soft small">\(note)</div></dd></div>
        """
    }

    // MARK: Lists

    private var lists: HTML {
        let tables = [origins, directories, groups, waits, hooks, runs].compactMap { $0 }
        guard !tables.isEmpty else { return "" }
        return "<div class=\"lists\">\(tables.map { "<div>\($0)</div>" as HTML })</div>"
    }

    private func table(_ caption: HTML, _ heads: [HTML], numbers: Int, _ rows: [[HTML]]) -> HTML? {
        guard !rows.isEmpty else { return nil }
        let first = heads.count - numbers
        func kind(_ column: Int) -> HTML { column >= first ? " class=\"n\"" : "" }
        let head: [HTML] = heads.enumerated().map { "<th scope=\"col\"\(kind($0))>\($1)</th>" }
        let body = rows.map { row -> HTML in
            let cells = row.enumerated().map { place, cell -> HTML in
                place == 0 ? "<th scope=\"row\">\(cell)</th>" : "<td\(kind(place))>\(cell)</td>"
            }
            return "<tr>\(cells)</tr>"
        }
        return """
            <div class="scroll"><table><caption>\(caption)</caption><thead><tr>\(head)</tr></thead>\
            <tbody>\(body)</tbody></table></div>
            """
    }

    private var origins: HTML? {
        var rows: [[HTML]] = session.origins.prefix(10).map { origin in
            let failed: HTML =
                origin.failed > 0
                ? "<br><span class=\"soft small\">\(Figures.count(origin.failed, "transfer")) failed</span>" : ""
            let names = HTML(origin.via.map { "\($0)" }, separator: ", ")
            let via: HTML = origin.via.isEmpty ? "" : "<br><span class=\"soft small\">redirected by \(names)</span>"
            return [
                "<code>\(origin.origin)</code>\(via)\(failed)", "\(Figures.grouped(origin.requests))",
                "\(ByteCount(origin.bytes).description)",
            ]
        }
        if session.otherBytes > 0 {
            rows.append(["transfers that were cut off", "", "\(ByteCount(session.otherBytes).description)"])
        }
        return table("Where it came from", ["Server", "Requests", "Bytes"], numbers: 2, rows)
    }

    private var directories: HTML? {
        let rows: [[HTML]] = session.directories.prefix(10).map { directory in
            let name: HTML = directory.path.map { $0 == "." ? "top level" : "<code>\($0)/</code>" } ?? "others"
            return [name, "\(Figures.grouped(directory.files))", "\(ByteCount(directory.bytes).description)"]
        }
        return table("Where files were put", ["Directory", "Files", "Size"], numbers: 2, rows)
    }

    private var groups: HTML? {
        let rows: [[HTML]] = session.groups.prefix(12).map {
            ["<bdi>\($0.name)</bdi>", "\($0.result?.rawValue ?? "not complete")", "\(Figures.grouped($0.changed))"]
        }
        return table("Groups", ["Group", "Result", "Files changed"], numbers: 1, rows)
    }

    private var waits: HTML? {
        let rows: [[HTML]] = session.waits.suffix(10).map { wait in
            let time: HTML =
                wait.to.map { span(wait.from, $0) }
                ?? "since <span class=\"t\">\(clock.moment(wait.from))</span>, still"
            let detail: HTML = wait.detail.isEmpty ? "" : "<br><span class=\"soft small\">\(wait.detail)</span>"
            let name: HTML =
                switch wait.cause {
                case .connectivity: "a server or the network"
                case .retry: "another try (\(wait.count))"
                default: "<bdi>\(wait.cause.rawValue)</bdi>"
                }
            return ["\(name)\(detail)", time, "\(Figures.period(wait.elapsed))"]
        }
        return table("What it waited for", ["For", "When", "How long"], numbers: 1, rows)
    }

    /// Can only break between date and time.
    private func span(_ from: Int64, _ to: Int64) -> HTML {
        let start: HTML = "<span class=\"t\">\(clock.moment(from))</span>"
        let end = clock.date(from) == clock.date(to) ? clock.timeOfDay(to) : clock.moment(to)
        return clock.moment(from) == clock.moment(to) ? start : "\(start) <span class=\"t\">to \(end)</span>"
    }

    private var hooks: HTML? {
        let rows: [[HTML]] = session.hooks.suffix(10).map { hook in
            let group: HTML =
                hook.group == RunRecipe.groupOfAll ? "" : "<br><span class=\"soft small\">group \(hook.group)</span>"
            let elapsed: HTML = hook.elapsed.map { "\(Figures.period($0))" } ?? ""
            return ["<code>\(hook.shownProgram)</code>\(group)", "\(hook.words())", elapsed]
        }
        return table("Hooks", ["Program", "End", "Time"], numbers: 1, rows)
    }

    private var runs: HTML? {
        let rows = session.entries.suffix(12).map { entry -> [HTML] in
            // How long a killed process worked is not known.
            let elapsed = entry.amounts?.elapsed ?? 0
            return [
                "<span class=\"t\">\(clock.moment(entry.time))</span>", "\(entry.end)",
                elapsed > 0 ? "\(Figures.period(elapsed))" : "",
                entry.amounts.map { "\(ByteCount($0.received).description)" } ?? "",
            ]
        }
        return table("Runs", ["Began", "End", "Time", "Received"], numbers: 2, rows)
    }
}
