import Foundation
import SyncModel
import Testing

/// `Documentation/reference/Events.md` explains what the program writes.
@Suite("Fields of events", .timeLimit(.minutes(10)))
struct EventFieldsTests {
    @Test(
        "Fields are right if all that are required are there, and none that is unknown",
        arguments: [
            ("condition detail", nil), ("condition detail until", nil),
            ("event time seq session run condition detail", nil), ("condition", "the field 'detail' is missing"),
            ("", "the field 'condition' is missing"), ("condition detail d", "the field 'd' is unknown"),
            ("condition until e d", "the field 'detail' is missing"),
            ("condition detail until e d", "the field 'd' is unknown"),
        ] as [(String, String?)])
    func problems(fields: String, problem: String?) {
        let names = fields.split(separator: " ").map(String.init)
        #expect(EventName.conditionBlocked.problem(in: names) == problem)
    }

    @Test("No field is required and optional, and none is one of every event", arguments: EventName.allCases)
    func lists(name: EventName) {
        let fields = name.fields
        #expect(fields.required.isDisjoint(with: fields.optional))
        #expect(fields.required.union(fields.optional).isDisjoint(with: EventName.commonFields))
    }

    @Test("Every event has one section in Events.md, and every section is of an event")
    func sections() throws {
        let names = try EventsPage().sections.map(\.name)
        #expect(names.sorted() == EventName.allCases.map(\.rawValue).sorted())
    }

    @Test("A section explains its event's fields, and its examples have them", arguments: EventName.allCases)
    func page(name: EventName) throws {
        let sections = try EventsPage().sections
        let section = try #require(sections.first { $0.name == name.rawValue })
        let (found, listed) = (section.fields, name.fields.required.union(name.fields.optional))
        #expect(listed.subtracting(found).sorted() == [], "not explained")
        #expect(found.subtracting(listed).sorted() == [], "explained, but never written")
        #expect(!section.examples.isEmpty)
        for example in section.examples {
            let event = try #require(JSONValue(text: example)?.object, "\(example)")
            #expect(event["event"]?.string == name.rawValue)
            #expect(name.problem(in: event.keys) == nil, "\(example)")
        }
    }
}

/// The sections of `Documentation/reference/Events.md`, one for each event.
private struct EventsPage {
    struct Section {
        let name: String
        /// Explained in its table.
        var fields: Set<String> = []
        /// JSON, one event on each line.
        var examples: [String] = []
    }

    private(set) var sections: [Section] = []

    init() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = root.appendingPathComponent("Documentation/reference/Events.md")
        var isInSection = false
        var isExample = false
        for line in try String(contentsOf: page, encoding: .utf8).split(separator: "\n") {
            if let heading = line.wholeMatch(of: /### `([a-z_.]+)`/) {
                sections.append(Section(name: String(heading.1)))
                isInSection = true
            } else if line.hasPrefix("#") {
                isInSection = false
            } else if line.hasPrefix("```") {
                isExample = line == "```json"
            } else if isInSection, isExample {
                sections[sections.count - 1].examples.append(String(line))
            } else if isInSection, line.hasPrefix("| `"), let cell = line.split(separator: "|").first {
                let names = cell.matches(of: /`([a-z0-9_]+)`/).map { String($0.1) }
                sections[sections.count - 1].fields.formUnion(names)
            }
        }
    }
}
