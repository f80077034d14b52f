import SyncEngine
import SyncModel
import SyncReport

/// What a verification found, in plain words: one line a file that is not right, then the sum.
enum VerifyText {
    static func lines(_ report: VerifyReport) -> [String] {
        if let place = report.missingPlace {
            return [
                "\(escaped(place)) is not there; 'syncagent pull' brings its \(Figures.count(report.files, "file"))"
            ]
        }
        var lines = report.problems.map { "\(escaped($0.path)): \($0.reason)" }
        lines += report.notes.map { "note: \(escaped($0.path)) \($0.reason)" }
        if let release = report.release {
            lines.append(
                "revision \(release.revision) is signed by \(release.signers.joined(separator: " and ")), under root "
                    + "\(release.root); counts until \(timestamp(milliseconds: release.until))"
            )
        }
        let files = Figures.count(report.files, "file")
        if report.isWhole {
            lines.append("\(files), \(ByteCount(report.bytes)): all right")
        } else {
            let wrong = Figures.grouped(report.problems.count)
            let verb = report.problems.count == 1 ? "is" : "are"
            lines.append("\(wrong) of \(files) \(verb) not right; pull again to mend them")
        }
        return lines
    }
}
