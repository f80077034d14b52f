import SyncModel

/// The refused and doubtful entries of a walk. Bounded, with counts.
struct WalkNotes: Sendable {
    /// How many refused entries are named; more are only counted.
    static let named = 20

    /// How many pairs of names that differ only in case are shown; more are only counted.
    static let casePairs = 5

    /// Entries that a pattern excluded; a directory counts once.
    var excluded = 0
    /// Names that were left out although no pattern says so.
    var usuallyLeftOut: Set<String> = []
    /// Files whose set-id or sticky bits are left out, and directories whose sticky bit is, where modes are kept.
    var setIds = 0
    /// Entries whose times no manifest can keep, where times are kept.
    var strangeTimes = 0
    /// Links out of the tree that were left out.
    var unsafeLinks = 0
    private(set) var refused: [String] = []
    private var refusesLinks = false
    private var refusesIgnoreFiles = false
    private(set) var refusedCount = 0
    private(set) var caseWarnings: [String] = []
    private(set) var caseWarningCount = 0
    private var windowsNames: [String] = []
    private var windowsCount = 0

    mutating func refuse(_ path: [UInt8], _ reason: String) { refuse(shown(path), reason) }

    private mutating func refuse(_ path: String, _ reason: String) {
        refusedCount += 1
        if refused.count < Self.named { refused.append("\(path): \(reason)") }
    }

    /// Refuses a link whose target is not in the tree.
    mutating func refuseLink(_ path: [UInt8], _ reason: String) {
        refusesLinks = true
        refuse(path, reason)
    }

    /// Refuses a `.syncignore`, which no pattern can leave out.
    mutating func refuseIgnoreFile(_ path: [UInt8], _ reason: String) {
        refusesIgnoreFiles = true
        refuse(path, reason)
    }

    mutating func refuse(_ directory: [UInt8], inDirectory name: String, _ reason: String) {
        refuse(Self.place(directory) + name, reason)
    }

    mutating func warnCase(_ directory: [UInt8], _ a: String, _ b: String) {
        caseWarningCount += 1
        guard caseWarnings.count < Self.casePairs else { return }
        caseWarnings.append(
            "\(Self.place(directory))\(a) and \(b) differ only in case; a destination that ignores case cannot have both"
        )
    }

    mutating func warnWindows(_ directory: [UInt8], _ name: String, _ reason: String) {
        windowsCount += 1
        if windowsNames.count < 3 { windowsNames.append("\(Self.place(directory))\(name) (\(reason))") }
    }

    private static func place(_ directory: [UInt8]) -> String { directory.isEmpty ? "" : shown(directory) + "/" }

    /// The error that names the refused entries, if there are any.
    var error: PublishError? {
        guard refusedCount > 0 else { return nil }
        let more = refusedCount - refused.count
        let count = refusedCount == 1 ? "1 entry" : "\(refusedCount) entries"
        let forLinks = refusesLinks ? "--safe-links for links that leave the tree, " : ""
        return PublishError(
            .dataInvalid, "\(count) of the source cannot be published:",
            details: refused + (more > 0 ? ["and \(more) more"] : []),
            "rename, replace or remove them, or leave them out: \(forLinks)--exclude for any"
                + "\(refusesIgnoreFiles ? " but a \(IgnoreFile.name)" : ""); nothing was published")
    }

    /// Warnings for people.
    var warnings: [String] {
        let more = caseWarningCount - caseWarnings.count
        var lines = caseWarnings
        if more > 0 { lines.append("\(more) more pairs of names differ only in case") }
        if windowsCount > 0 {
            let more = windowsCount > windowsNames.count ? ", and \(windowsCount - windowsNames.count) more" : ""
            let what = windowsCount == 1 ? "1 name" : "\(windowsCount) names"
            lines.append("\(what) that Windows cannot hold: \(windowsNames.joined(separator: ", "))\(more)")
        }
        if unsafeLinks > 0 {
            let what =
                unsafeLinks == 1 ? "1 link that leaves the tree is" : "\(unsafeLinks) links that leave the tree are"
            lines.append("\(what) left out")
        }
        if setIds > 0 {
            let what = setIds == 1 ? "1 file or directory" : "\(setIds) files or directories"
            lines.append("the set-id and sticky bits of \(what) are not kept")
        }
        if strangeTimes > 0 {
            lines.append(
                "\(strangeTimes == 1 ? "1 time" : "\(strangeTimes) times") outside 1678 to 2261 cannot be kept")
        }
        return lines
    }
}

/// Path bytes, fit for a message; bytes that are not UTF-8 are shown as `\x…`.
func shown(_ path: some Collection<UInt8>) -> String {
    if let text = String(validating: path, as: UTF8.self) { return escaped(text) }
    return path.map { byte in
        let scalar = Unicode.Scalar(byte)
        return (0x20..<0x7F).contains(byte) ? String(scalar) : "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
}

/// Path text, fit for a message.
func shown(_ path: String) -> String { escaped(path) }
