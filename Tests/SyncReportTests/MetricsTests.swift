import Foundation
import SyncModel
import SyncReport
import SyncStore
import Testing

/// A strict reader of Prometheus' text format 0.0.4, after its grammar: what it does not know is a complaint.
/// https://prometheus.io/docs/instrumenting/exposition_formats/#text-format-details
struct Exposition {
    private(set) var complaints: [String] = []
    private(set) var types: [String: String] = [:]
    private(set) var help: [String: String] = [:]
    /// By name and labels, in one text.
    private(set) var values: [String: Double] = [:]
    private(set) var labels: [String: Set<String>] = [:]

    init(_ text: String) {
        if !text.hasSuffix("\n") { complaints.append("no newline at the end") }
        var family = ""
        var closed: Set<String> = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            if line.hasPrefix("# HELP ") || line.hasPrefix("# TYPE ") {
                let words = line.dropFirst(7).split(separator: " ", maxSplits: 1).map(String.init)
                guard words.count == 2, Self.isName(words[0]) else {
                    complaints.append("\(line)");
                    continue
                }
                if words[0] != family {
                    closed.insert(family)
                    family = words[0]
                    if closed.contains(family) { complaints.append("\(family) is told in two places") }
                }
                if line.hasPrefix("# HELP ") {
                    if help.updateValue(words[1], forKey: family) != nil { complaints.append("two helps of \(family)") }
                } else {
                    if types.updateValue(words[1], forKey: family) != nil {
                        complaints.append("two types of \(family)")
                    }
                    if !["gauge", "counter"].contains(words[1]) { complaints.append("\(line)") }
                }
            } else {
                sample(String(line), family)
            }
        }
    }

    private static func isName(_ text: some StringProtocol) -> Bool {
        guard let first = text.unicodeScalars.first, !("0"..."9").contains(first), !text.isEmpty else { return false }
        return text.unicodeScalars.allSatisfy {
            $0 == "_" || ("a"..."z").contains($0) || ("A"..."Z").contains($0) || ("0"..."9").contains($0)
        }
    }

    private mutating func sample(_ line: String, _ family: String) {
        var rest = Substring(line)
        let name = String(rest.prefix { $0 != "{" && $0 != " " })
        rest = rest.dropFirst(name.count)
        guard Self.isName(name), name == family else { return complaints.append("\(line): not of \(family)") }
        var read: [String: String] = [:]
        if rest.first == "{" {
            rest = rest.dropFirst()
            while rest.first != "}" {
                let label = String(rest.prefix { $0 != "=" })
                rest = rest.dropFirst(label.count)
                guard Self.isName(label), rest.hasPrefix("=\"") else { return complaints.append(line) }
                rest = rest.dropFirst(2)
                var value = ""
                while let character = rest.first, character != "\"" {
                    rest = rest.dropFirst()
                    guard character == "\\" else {
                        value.append(character);
                        continue
                    }
                    switch rest.first {
                    case "\\": value.append("\\")
                    case "n": value.append("\n")
                    case "\"": value.append("\"")
                    default: return complaints.append("\(line): bad escape")
                    }
                    rest = rest.dropFirst()
                }
                guard rest.first == "\"" else { return complaints.append("\(line): no end of a label") }
                rest = rest.dropFirst()
                if read.updateValue(value, forKey: label) != nil { complaints.append("\(line): \(label) twice") }
                if rest.first == "," { rest = rest.dropFirst() }
            }
            rest = rest.dropFirst()
        }
        guard rest.first == " ", let value = Double(String(rest.dropFirst())) else {
            return complaints.append("\(line): no value")
        }
        labels[name, default: []].formUnion(read.keys)
        let key = ([name] + read.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }).joined(separator: " ")
        if values.updateValue(value, forKey: key) != nil { complaints.append("\(key) twice") }
    }
}

private let promtoolPath = ["/usr/bin/promtool", "/usr/local/bin/promtool"].first {
    FileManager.default.isExecutableFile(atPath: $0)
}

@Suite("Metrics for Prometheus", .timeLimit(.minutes(10)))
struct MetricsTests {
    @Test("The text is as its grammar wants it; names and units follow the conventions")
    func conventions() throws {
        let agent = (started: november(21, 1), runs: 1, mostRuns: 2)
        let text = try metricsText(
            fortnight(), version: "0.1.0", agent: agent, next: ["com.example.tower": november(22, 2)])
        let read = Exposition(text)
        #expect(read.complaints == [])
        #expect(Set(read.types.keys) == Set(read.help.keys))
        for (name, type) in read.types {
            #expect(name.hasPrefix("syncagent_"))
            #expect((type == "counter") == name.hasSuffix("_total"), "\(name)")
            #expect(!name.contains("milliseconds") && !name.hasSuffix("_ms"), "base units: \(name)")
            #expect(!["_mib", "_kb", "_minutes", "_count"].contains { name.hasSuffix($0) }, "\(name)")
            let hasLabels: Set<String> = ["session", "result", "state", "outcome", "version"]
            #expect((read.labels[name] ?? []).isSubset(of: hasLabels), "\(name)")
        }
        #expect(read.help.values.allSatisfy { $0.hasSuffix(".") })
    }

    @Test("Every number is the store's")
    func values() throws {
        let read = Exposition(try metricsText(fortnight(), version: "0.1.0"))
        let film = "session=film.harbour-dailies"
        #expect(read.values["syncagent_sessions"] == 4)
        #expect(read.values["syncagent_build_info version=0.1.0"] == 1)
        #expect(read.values["syncagent_last_run_result result=partial \(film)"] == 1)
        #expect(read.values["syncagent_last_run_result result=ok \(film)"] == 0)
        #expect(read.values["syncagent_last_run_files outcome=failed \(film)"] == 13)
        #expect(read.values["syncagent_last_run_received_bytes \(film)"] == Double(301 * mebi))
        #expect(read.values["syncagent_last_run_requests \(film)"] == 22)
        #expect(read.values["syncagent_last_run_failed_hooks \(film)"] == 1)
        #expect(read.values["syncagent_last_success_timestamp_seconds \(film)"] == Double(november(20, 1, 20) / 1_000))
        #expect(read.values["syncagent_runs_total result=ok \(film)"] == 4)
        #expect(read.values["syncagent_runs_total result=partial \(film)"] == 1)
        #expect(read.values["syncagent_received_bytes_total session=lab-weights"] == Double(2_950 * mebi))
        #expect(read.values["syncagent_requests_total session=org.example.icons"] == 7)
        #expect(read.values["syncagent_work_seconds_total session=org.example.icons"] == 4.41)
        #expect(read.values["syncagent_session_state session=lab-weights state=waiting"] == 1)
        #expect(read.values["syncagent_session_state session=lab-weights state=idle"] == 0)
        // What it has not come to yet is not told.
        #expect(read.values["syncagent_last_run_requests session=lab-weights"] == nil)
        #expect(read.values.keys.allSatisfy { !$0.hasPrefix("syncagent_agent") })
    }

    @Test("Counters do not go down when history is pruned")
    func pruning() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        for number in 0..<5 {
            try story.begin("\(number)", at: november(21, number))
            try story.finish(StoreStory.Work(received: 7), "\(number)", at: november(21, number, 1), total: 1)
        }
        try store.prune(runs: 1, eventBytes: 0)
        let read = Exposition(try metricsText(store, version: "0.1.0"))
        #expect(read.values["syncagent_runs_total result=ok session=tower"] == 5)
        #expect(read.values["syncagent_received_bytes_total session=tower"] == 35)
    }

    @Test("When everything was last in place is told however many runs have failed since, pruned or not")
    func longFailure() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        for number in 0...SyncStore.keptRuns + 200 {
            let time = november(21, 1) + Int64(number) * 60_000
            try story.begin("\(number)", at: time)
            try story.finish(
                StoreStory.Work(failed: number == 0 ? 0 : 1), "\(number)", at: time + 1_000, total: 1,
                result: number == 0 ? .ok : .partial)
        }
        for _ in 0..<2 {
            let read = Exposition(try metricsText(store, version: "0.1.0"))
            let success = Double(november(21, 1) / 1_000 + 1)
            #expect(read.values["syncagent_last_success_timestamp_seconds session=tower"] == success)
            let clock = ReportClock(now: november(22, 1)) { _ in 0 }
            let report = try ReportReader(store: store, clock: clock, version: "1").report(
                since: november(21, 2), hasNights: false)
            #expect(report.sessions.first?.lastSuccess == november(21, 1) + 1_000)
            let prunable = try store.prunable().runs
            let before = try store.runs(limit: .max).count
            try store.prune()
            #expect(try before - store.runs(limit: .max).count == prunable)
        }
    }

    @Test("Names of sessions are escaped: backslash, quote, newline, and what a terminal would obey [V63]")
    func escaping() throws {
        let store = try SyncStore.inMemory()
        _ = try StoreStory("a\\b\"c\nd\u{1B}[2J\u{202E}é{},=", in: store).begin("1", at: november(21, 1))
        let text = try metricsText(store, version: "0.1.0")
        let read = Exposition(text)
        #expect(read.complaints == [])
        #expect(text.contains("session=\"a\\\\b\\\"c\\nd\\\\u{1b}[2J\\\\u{202e}é{},=\""))
        #expect(read.values["syncagent_session_state session=a\\b\"c\nd\\u{1b}[2J\\u{202e}é{},= state=running"] == 1)
    }

    @Test("The number of series is bounded; sessions beyond the bound are counted")
    func cardinality() throws {
        let store = try SyncStore.inMemory()
        for number in 0..<(sessionLimit + 7) {
            try StoreStory("s\(number)", in: store).begin("\(number)", at: november(21, 1))
        }
        let read = Exposition(try metricsText(store, version: "0.1.0"))
        #expect(read.complaints == [])
        #expect(read.values["syncagent_sessions_omitted"] == 7)
        #expect(read.values.keys.filter { $0.hasPrefix("syncagent_session_state ") }.count == sessionLimit * 4)
    }

    @Test("An empty store has metrics, too")
    func empty() throws {
        let read = Exposition(try metricsText(SyncStore.inMemory(), version: "0.1.0"))
        #expect(read.complaints == [] && read.values["syncagent_sessions"] == 0)
        #expect(read.values["syncagent_failing_schedules"] == 0)
    }

    @Test(
        "promtool finds nothing to say about them",
        .enabled(
            if: promtoolPath != nil,
            "SKIPPED: no promtool (Debian package prometheus); the grammar is checked without it"))
    func promtool()
        throws
    {
        let agent = (started: november(21, 1), runs: 1, mostRuns: 2)
        let text = try metricsText(fortnight(), version: "0.1.0", agent: agent)
        let (status, said) = try runPromtool(["check", "metrics"], input: text)
        #expect(status == 0 && said.isEmpty, "\(said)")
    }

    private static let rules = repository.appendingPathComponent("Examples/prometheus/syncagent.rules.yml")

    @Test("Every metric that the example's alerts ask for is told")
    func rules() throws {
        let rules = try String(contentsOf: Self.rules, encoding: .utf8)
        let asked = Set(rules.matches(of: /syncagent_[a-z_]+/).map { String($0.0) })
        let told = Exposition(try metricsText(fortnight(), version: "0.1.0")).types.keys
        #expect(asked.count > 3 && asked.subtracting(told) == [])
    }

    @Test("promtool reads the example's alerts", .enabled(if: promtoolPath != nil, "SKIPPED: no promtool"))
    func checkedRules() throws {
        let (status, said) = try runPromtool(["check", "rules", Self.rules.path], input: "")
        #expect(status == 0, "\(said)")
    }
}

/// Where the files of the project are.
let repository = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

private func runPromtool(_ arguments: [String], input text: String) throws -> (status: Int32, said: String) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: try #require(promtoolPath))
    process.arguments = arguments
    let (input, output) = (Pipe(), Pipe())
    process.standardInput = input
    process.standardOutput = output
    process.standardError = output
    try process.run()
    try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
    try input.fileHandleForWriting.close()
    let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return (process.terminationStatus, said)
}
