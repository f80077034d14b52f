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
            for pin in pins { output.event(PinText(pin: pin).json, flushing: true) }
        } else if !pins.isEmpty {
            let rows =
                [["PROJECT", "ROOT", "REVISION", "FRESH UNTIL", "PINNED BY"]] + pins.map { PinText(pin: $0).row }
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
        let text = PinText(pin: pin)
        if format.json { return output.event(text.json, flushing: true) }
        for line in text.lines { output.line(line) }
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
struct PinText {
    let pin: TrustPin

    private static func time(_ milliseconds: Int64) -> String { timestamp(milliseconds: milliseconds) }

    private var basis: String {
        switch pin.basis {
        case .file: "file"
        case .fingerprint: "fingerprint"
        case .first: "first use"
        case .configuration: "configuration"
        }
    }

    var row: [String] {
        [
            pin.project, "\(pin.root.content.number)", pin.newest.revision == 0 ? "-" : "\(pin.newest.revision)",
            pin.newest.freshContent.map { Self.time($0.until) } ?? "-", basis,
        ]
    }

    /// The accepted releases, the default channel first.
    private var tracks: [(name: String?, track: TrustPin.Track)] {
        [(nil, pin.newest)] + pin.channels.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    private static func write(_ track: TrustPin.Track, to line: inout JSONLine) {
        line.field("serial", track.serial)
        line.field("revision", track.revision)
        line.field("manifest", optional: track.releaseContent?.manifest.hex)
        line.time("until", track.freshContent?.until)
        if track.freshContent?.isRemoved == true { line.field("removed", true) }
    }

    var lines: [String] {
        var lines = StatementText(root: pin.root).lines
        lines.append("pinned     \(Self.time(pin.pinned)) by \(basis)")
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
        lines += pin.graces.map {
            "grace      used \(Self.time($0.used)), on a statement that expired \(Self.time($0.until))"
        }
        return lines
    }

    var json: JSONLine {
        JSONLine.object { line in
            line.field("project", pin.project)
            line.field("root", pin.root.content.number)
            line.field("sha256", pin.root.statement.digest.hex)
            line.time("root_until", pin.root.content.until)
            line.time("pinned", pin.pinned)
            line.field("origin", pin.basis)
            Self.write(pin.newest, to: &line)
            line.object("channels") { line in
                for (name, track) in tracks {
                    guard let name else { continue }
                    line.object(name) { Self.write(track, to: &$0) }
                }
            }
            line.list("graces", pin.graces) { grace, line in
                line.time("used", grace.used)
                line.time("until", grace.until)
            }
        }
    }
}
