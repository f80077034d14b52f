import SyncAssembly
import SyncModel
import SyncSchedule

/// One schedule of a file for `schedule apply`: JSON5, the same for every machine it is copied to.
///
/// The keys of an entry are the options of `schedule add`, without their dashes and with `_` in place of `-`, so that
/// every option is known here as soon as it is known there.
struct ScheduleEntry: Sendable {
    let name: String
    /// The entry's place in the file, for messages: `/etc/tower.json:7: tower`.
    let place: String
    /// Arguments for ``ScheduleAddCommand``.
    let arguments: [String]
    /// The keys that are options of that command.
    let keys: [String]
    /// Whether the schedule is paused; `nil` leaves that as it is on the machine.
    let isPaused: Bool?

    static let format = "syncagent-schedules/1"
    /// Options of `schedule add` that have no place in a file.
    private static let refused: Set<String> = ["dry_run", "quiet", "verbose", "help", "version"]

    /// Parses the text of a file.
    ///
    /// - Parameters:
    ///   - bytes: The text.
    ///   - shown: The file's name for messages.
    /// - Throws: ``CommandFailure`` with status 65 that names the line.
    static func all(in bytes: [UInt8], shown: String) throws(CommandFailure) -> [ScheduleEntry] {
        let root = try rethrowing(ConfigurationNode.read(bytes)) { (error: SettingsError) in
            CommandFailure(.dataInvalid, "\(shown):\(error.description)")
        }
        func fault(_ line: Int, _ text: String) -> CommandFailure { Self.fault(shown, line, text) }
        guard case .object(let members) = root.value else {
            throw fault(root.line, "an object { \"format\": …, \"schedules\": [ … ] } is expected.")
        }
        if let other = members.first(where: { !["format", "schedules"].contains($0.key) && !$0.key.hasPrefix("x-") }) {
            throw fault(other.line, "'\(escaped(other.key))': no such key; the keys are format and schedules.")
        }
        let format = members.first { $0.key == "format" }
        guard format?.node.value == .text(Self.format) else {
            throw fault(format?.line ?? root.line, "\"format\": \"\(Self.format)\" is expected.")
        }
        guard let list = members.first(where: { $0.key == "schedules" }), case .list(let nodes) = list.node.value else {
            throw fault(root.line, "\"schedules\": [ … ] is expected.")
        }
        var entries: [ScheduleEntry] = []
        for node in nodes {
            let entry = try Self.entry(node, shown: shown)
            if entries.contains(where: { $0.name == entry.name }) {
                throw fault(node.line, "there are two schedules '\(entry.name)'.")
            }
            entries.append(entry)
        }
        return entries
    }

    private static func fault(_ shown: String, _ line: Int, _ text: String) -> CommandFailure {
        CommandFailure(.dataInvalid, "\(shown):\(line): \(text)")
    }

    private static func entry(_ node: ConfigurationNode, shown: String) throws(CommandFailure) -> ScheduleEntry {
        guard case .object(let members) = node.value else {
            throw Self.fault(shown, node.line, "\(node.kind) was found; an object { … } is expected.")
        }
        func fault(_ member: ConfigurationNode.Member?, _ text: String) -> CommandFailure {
            let key = member.map { "\(escaped($0.key)): " } ?? ""
            return Self.fault(shown, member?.line ?? node.line, key + text)
        }
        func text(_ key: String, _ what: String) throws(CommandFailure) -> String {
            let member = members.first { $0.key == key }
            guard case .text(let text)? = member?.node.value else {
                throw fault(member, "\"\(key)\": \(what) is expected.")
            }
            return text
        }
        let name = try text("name", "the schedule's name")
        try rethrowing(ScheduleName.check(name)) { (error: ScheduleError) in
            fault(members.first { $0.key == "name" }, "\(error)")
        }
        let manifest = try text("manifest", "a URL or an absolute path")
        guard manifest.contains("://") || manifest.hasPrefix("/") else {
            throw fault(members.first { $0.key == "manifest" }, "a URL or an absolute path is expected.")
        }
        guard try text("into", "an absolute path").hasPrefix("/") else {
            throw fault(
                members.first { $0.key == "into" },
                "an absolute path is expected, so that the file means the same wherever it is applied.")
        }
        var isPaused: Bool?
        var arguments: [String] = []
        var keys: [String] = []
        for member in members {
            switch member.key {
            case "manifest": break
            case "paused":
                guard case .boolean(let value) = member.node.value else {
                    throw fault(member, "true or false is expected.")
                }
                isPaused = value
            case _ where refused.contains(member.key): throw fault(member, "it cannot be set in a file.")
            case _ where member.key.hasPrefix("x-"): break
            default:
                guard let words = words(member) else {
                    throw fault(
                        member, "\(member.node.kind) was found; a string, a number, true, false or a list is expected.")
                }
                arguments += words
                keys.append(member.key)
            }
        }
        return ScheduleEntry(
            name: name, place: "\(shown):\(node.line): \(name)",
            // `true` becomes a bare `--atomic`, which has a meaning of its own.
            arguments: LayoutChoice.named(arguments + ["--", manifest]), keys: keys, isPaused: isPaused)
    }

    /// A key and its value as on a command line; `nil` for a value that no option takes.
    private static func words(_ member: ConfigurationNode.Member) -> [String]? {
        let option = "--" + member.key.replacing("_", with: "-")
        // Its value is a word, so it is not a flag.
        if member.key == "catch_up", case .boolean(let isWanted) = member.node.value {
            return ["\(option)=\(isWanted ? "yes" : "no")"]
        }
        func value(_ node: ConfigurationNode) -> String? {
            switch node.value {
            case .text(let text): text
            case .integer(let number): "\(number)"
            case .number(let number): "\(number)"
            case .null, .boolean, .list, .object: nil
            }
        }
        switch member.node.value {
        case .boolean(let isSet): return isSet ? [option] : []
        case .list(let nodes):
            let values = nodes.map(value)
            guard !values.contains(nil) else { return nil }
            // Days are joined to one word; other lists repeat the option.
            if member.key == "on" { return ["\(option)=\(values.compactMap(\.self).joined(separator: ","))"] }
            return values.compactMap(\.self).map { "\(option)=\($0)" }
        default: return value(member.node).map { ["\(option)=\($0)"] }
        }
    }
}
