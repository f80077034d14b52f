import ArgumentParser
import SyncEngine
import SyncModel
import SyncTrust

struct TrustCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "trust", abstract: "List, show and forget pinned projects, whose releases must be signed.",
        discussion: "'syncagent pull --trust' pins a project, and so does trust.pins in the configuration.",
        subcommands: [TrustListCommand.self, TrustShowCommand.self, TrustForgetCommand.self])

    /// The pins of this user.
    static func pins() throws -> PinStore { PinStore(stateDirectory: try EnvironmentPaths.ofProcess.stateDirectory()) }
}

struct TrustListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the pinned projects.")

    @OptionGroup(title: "Output") var format: JSONFlag

    func run() async throws {
        let output = Output()
        let (pins, damage) = try TrustCommand.pins().all()
        if format.json {
            for pin in pins { output.event(pin.json, flushing: true) }
        } else if !pins.isEmpty {
            let rows =
                [["PROJECT", "ROOT", "REVISION", "FRESH UNTIL", "PINNED BY"]] + pins.map(\.row)
            for line in tableLines(rows) { output.line(line) }
        } else if damage.isEmpty {
            output.message("No project is pinned.")
        }
        for error in damage.dropLast() { output.message(error.message) }
        if let last = damage.last { throw CommandFailure(last.status, last.message) }
    }
}

struct TrustShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show which keys a project trusts, and the last release accepted.")

    @Argument(help: "The project.") var project: String

    @OptionGroup(title: "Output") var format: JSONFlag

    func run() async throws {
        let output = Output()
        guard let pin = try TrustCommand.pins().pin(project) else {
            throw CommandFailure(.noInput, "\(escaped(project)) is not pinned")
        }
        if format.json { return output.event(pin.json, flushing: true) }
        for line in pin.lines { output.line(line) }
    }
}

struct TrustForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget", abstract: "Unpin a project.",
        discussion: """
            Unsigned releases of the project are then accepted until it is pinned again. Use this when too many root \
            keys are lost to sign a new root.
            """)

    @Argument(help: "The project.") var project: String

    func run() async throws {
        guard try TrustCommand.pins().forget(project) else {
            throw CommandFailure(.noInput, "\(escaped(project)) is not pinned")
        }
        Output().message("\(escaped(project)) is no longer pinned; pin it again with --trust.")
    }
}

/// A pin as text and as JSON.
extension TrustPin {
    private static func time(_ milliseconds: Int64) -> String { timestamp(milliseconds: milliseconds) }

    private var basisWords: String {
        switch basis {
        case .file: "file"
        case .fingerprint: "fingerprint"
        case .first: "first use"
        case .configuration: "configuration"
        }
    }

    fileprivate var row: [String] {
        [
            project, "\(root.content.number)", newest.revision == 0 ? "-" : "\(newest.revision)",
            newest.freshContent.map { Self.time($0.until) } ?? "-", basisWords,
        ]
    }

    /// The accepted releases, the default channel first.
    private var tracks: [(name: String?, track: TrustPin.Track)] {
        [(nil, newest)] + channels.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    private static func write(_ track: TrustPin.Track, to line: inout JSONLine) {
        line.field("serial", track.serial)
        line.field("revision", track.revision)
        line.field("manifest", optional: track.releaseContent?.manifest.hex)
        line.time("until", track.freshContent?.until)
        if track.freshContent?.isRemoved == true { line.field("removed", true) }
    }

    fileprivate var lines: [String] {
        var lines = StatementText(root: root).lines
        lines.append("pinned     \(Self.time(pinned)) by \(basisWords)")
        for (name, track) in tracks {
            let isRemoved = track.freshContent?.isRemoved == true
            if let name { lines.append("channel    \(name)\(isRemoved ? ", removed" : "")") }
            if let release = track.releaseContent {
                lines.append("revision   \(release.revision), signed \(Self.time(release.signed))")
                lines.append("manifest   \(release.manifest)")
            }
            if let fresh = track.freshContent {
                lines.append("fresh      serial \(fresh.serial), until \(Self.time(fresh.until))")
            }
        }
        lines += graces.map {
            "grace      used \(Self.time($0.used)), on a statement that expired \(Self.time($0.until))"
        }
        return lines
    }

    fileprivate var json: JSONLine {
        JSONLine.object { line in
            line.field("project", project)
            line.field("root", root.content.number)
            line.field("sha256", root.statement.digest.hex)
            line.time("root_until", root.content.until)
            line.time("pinned", pinned)
            line.field("origin", basis)
            Self.write(newest, to: &line)
            line.object("channels") { line in
                for (name, track) in tracks {
                    guard let name else { continue }
                    line.object(name) { Self.write(track, to: &$0) }
                }
            }
            line.list("graces", graces) { grace, line in
                line.time("used", grace.used)
                line.time("until", grace.until)
            }
        }
    }
}
