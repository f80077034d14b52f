package import SyncModel

/// The two units of a schedule for systemd: systemd.service(5), systemd.timer(5).
package struct SystemdUnits: Sendable, Equatable {
    /// Whose manager starts them.
    package enum Scope: Sendable {
        /// The user's own: ends with the last session unless the user lingers.
        case user
        /// The machine's.
        case system
    }

    package let name: String
    package let timing: ScheduleTiming
    /// **Seconds** that this machine begins later.
    package let delay: Int
    package let program: ScheduledProgram
    package let scope: Scope
    /// Nights whose time summer time leaves out, see ``calendar``.
    package let gaps: [CivilDay]

    /// See the properties.
    ///
    /// - Parameters:
    ///   - zone: Whose summer time counts.
    ///   - today: From here on ten years are looked at for nights that need a line of their own.
    package init(
        name: String,
        timing: ScheduleTiming,
        delay: Int,
        program: ScheduledProgram,
        scope: Scope,
        zone: Zone,
        today: CivilDay
    ) {
        self.name = name
        self.timing = timing
        self.delay = delay
        self.program = program
        self.scope = scope
        let start = WallStart(timing, delay: delay)
        gaps = (0..<3_653).map { today.adding($0) }.filter { day in
            (start.days.isEmpty || start.days.contains(day.weekday)) && zone.has(day)
                && zone.local(zone.first(start.second, of: day)).second != start.second
        }
    }

    /// The service's file name.
    package var service: String { Self.stem(name) + ".service" }
    /// The timer's file name.
    package var timer: String { Self.stem(name) + ".timer" }

    /// What both units of a schedule are called, without suffix.
    package static func stem(_ name: String) -> String { "syncagent-schedule-\(name)" }

    /// The times, as systemd.time(7) writes them.
    ///
    /// systemd passes over a time that does not exist on the night when clocks are put forward: those nights get a line
    /// each, with the first minute that there is. A time that comes twice is taken once, the first.
    package var calendar: [String] {
        let start = WallStart(timing, delay: delay)
        let zone = timing.timeZone.map { " " + $0 } ?? ""
        let all = Weekday.allCases
        let days =
            start.days.isEmpty ? "" : all.filter(start.days.contains).map(Self.day).joined(separator: ",")
        let clock = Self.clock(start.second)
        let every = (days.isEmpty ? "" : days + " ") + "*-*-* \(clock)\(zone)"
        guard let place = try? Zone.of(timing.timeZone) else { return [every] }
        return [every]
            + gaps.map { day in
                let found = place.local(place.first(start.second, of: day))
                return "\(found.day) \(Self.clock(found.second))\(zone)"
            }
    }

    /// The service unit.
    package var serviceText: String {
        // systemd takes no program with quotes or backslashes in its path; env(1) does.
        let isPlain = program.path.utf8.allSatisfy { !"\"'\\".utf8.contains($0) }
        let words =
            isPlain
            ? [Self.quoted(program.path, isProgram: true)] : ["/usr/bin/env", Self.quoted(program.path)]
        let command = (words + program.arguments.map { Self.quoted($0) }).joined(separator: " ")
        var lines = [
            Self.mark,
            "[Unit]",
            "Description=Nightly pull \(name)",
            "Documentation=man:systemd.exec(5)",
        ]
        if scope == .system { lines += ["Wants=network-online.target", "After=network-online.target"] }
        lines += ["", "[Service]", "Type=oneshot"]
        lines += program.variables.map {
            "Environment=" + Self.quoted("\($0.name)=\($0.value)", isVariable: true)
        }
        lines += [
            "ExecStart=\(command)",
            "TimeoutStartSec=infinity",
            "TimeoutStopSec=30s",
            "# 75: the window is over and work is left for the next night; 143: stopped, the agent goes on.",
            "SuccessExitStatus=75 143",
            "# The agent that it may have started goes on with other work.",
            "KillMode=process",
            "",
            "UMask=0022",
            "NoNewPrivileges=yes",
            "RestrictRealtime=yes",
            "RestrictSUIDSGID=yes",
            "LockPersonality=yes",
            "SystemCallArchitectures=native",
            "# A guest on the machine: it leaves disk and processor to whoever needs them.",
            "Nice=10",
            "IOSchedulingClass=best-effort",
            "IOSchedulingPriority=7",
        ]
        return lines.joined(separator: "\n") + "\n"
    }

    /// The timer unit.
    package var timerText: String {
        let lines =
            [
                Self.mark,
                "[Unit]",
                "Description=Nightly pull \(name), \(ScheduleTiming.time(timing.nightly))",
                "Documentation=man:systemd.timer(5)",
                "",
                "[Timer]",
            ] + calendar.map { "OnCalendar=\($0)" } + [
                "# Machines that were off or asleep catch up; the program knows whether that still makes sense.",
                "Persistent=true",
                "# The machine's own delay is in the time above.",
                "AccuracySec=1s",
                "",
                "[Install]",
                "WantedBy=timers.target",
            ]
        return lines.joined(separator: "\n") + "\n"
    }

    /// The first line of both files: what is ours may be replaced and removed.
    static let mark =
        "# Written by 'syncagent schedule add'; it replaces this file, 'schedule remove' removes it."

    private static func day(_ day: Weekday) -> String {
        day.rawValue.prefix(1).uppercased() + day.rawValue.dropFirst()
    }

    private static func clock(_ second: Int64) -> String {
        "\(padded(second / 3_600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2))"
    }

    /// A word as systemd.syntax(7) and "COMMAND LINES" in systemd.service(5) read it back.
    ///
    /// - Parameters:
    ///   - text: Without control characters.
    ///   - isProgram: Of a program's path `$` is not expanded.
    ///   - isVariable: Nor is it in `Environment=`.
    static func quoted(_ text: String, isProgram: Bool = false, isVariable: Bool = false) -> String {
        var result = "\""
        for character in text.unicodeScalars {
            switch character {
            case "\\", "\"": result += "\\\(character)"
            case "%": result += "%%"
            case "$" where !isProgram && !isVariable: result += "$$"
            default: result.unicodeScalars.append(character)
            }
        }
        return result + "\""
    }
}

/// When a schedule begins on a machine, on the clock on the wall: the delay may lead into the next day.
struct WallStart {
    /// **Seconds** after midnight.
    let second: Int64
    /// The days on which it begins, empty for all.
    let days: Set<Weekday>

    init(_ timing: ScheduleTiming, delay: Int) {
        let total = Int64(timing.nightly) * 60 + Int64(delay)
        second = total % 86_400
        days = Set(timing.days.map { $0.adding(Int(total / 86_400)) })
    }
}
