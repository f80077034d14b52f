import SyncEngine
import SyncModel

/// What a verification found, in plain words: one line a file that is not right, then the sum.
enum VerifyText {
    static func lines(_ report: VerifyReport) -> [String] {
        var lines = report.problems.map { "\(escaped($0.path)): \($0.reason)" }
        lines.append(
            report.isWhole
                ? "\(report.files) files, \(ByteCount(report.bytes)): all right"
                : "\(report.problems.count) of \(report.files) files are not right; pull again to mend them"
        )
        return lines
    }
}
