import SyncModel

/// The names of schedules; each also names a file, a systemd unit and a line of a crontab.
package enum ScheduleName {
    /// Checks a name: 1 to 100 ASCII letters, digits, `.`, `_` and `-`; no `.` or `-` first.
    ///
    /// - Throws: ``ScheduleError`` with code `invalid`.
    package static func check(_ name: String) throws(ScheduleError) {
        guard isValid(name) else {
            throw ScheduleError(
                .invalid,
                "'\(escaped(name))' cannot name a schedule: 1 to 100 letters, digits, '.', '_' and '-', not beginning with '.' or '-'."
            )
        }
    }

    /// Whether ``check(_:)`` would accept a name.
    package static func isValid(_ name: String) -> Bool {
        guard (1...100).contains(name.utf8.count), let first = name.utf8.first, first != 0x2D, first != 0x2E else {
            return false
        }
        return name.utf8.allSatisfy { isAlphanumeric($0) || $0 == 0x2E || $0 == 0x5F || $0 == 0x2D }
    }

    /// A name derived from a text, such as the name of a project or a destination; `nil` if nothing is left of it.
    package static func derived(from text: String) -> String? {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            let isKept = isAlphanumeric(byte) || byte == 0x2E || byte == 0x5F
            if isKept { bytes.append(byte) } else if bytes.last != 0x2D { bytes.append(0x2D) }
        }
        let first = bytes.firstIndex { $0 != 0x2D && $0 != 0x2E } ?? bytes.endIndex
        var name = String(decoding: bytes[first...].prefix(100), as: UTF8.self)
        while name.hasSuffix("-") { name.removeLast() }
        return isValid(name) ? name : nil
    }

    /// The name as a file of cron.d(5), which allows no dots: `_` becomes `__`, `.` becomes `_-`.
    package static func cronFile(_ name: String) -> String {
        "syncagent-" + name.map { $0 == "_" ? "__" : $0 == "." ? "_-" : String($0) }.joined()
    }
}
