import ArgumentParser
import SyncAssembly
import SyncEngine
import SyncModel
import SyncReport

struct VerifyCommand: AsyncParsableCommand, ReadingOptions {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Hash the installed files again and list those that differ from the manifest.",
        discussion: """
            Reads every byte again and trusts no recorded state. Prints one line for each file that is missing or \
            differs, and counts files that the manifest does not name. Exit status: 0 all files match the manifest, \
            2 some do not.
            """)

    @OptionGroup var target: TargetOptions

    @OptionGroup(title: "Release and trust") var release: ReleaseOptions

    @OptionGroup var listing: ListingOptions

    @OptionGroup var bucket: BucketOptions

    @OptionGroup(title: "Release and trust") var trust: TrustOptions

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @OptionGroup(title: "Output") var reporting: ReportingOptions

    func run() async throws {
        let output = reporting.output()
        let request = try transfer.engine(trusting: trust) { try target.recipe($0, self) }
        try await EngineCall(reporting, on: output, request).verify()
    }
}

extension VerifyReport {
    /// The result for people: one line for each wrong file, then the sum.
    var lines: [String] {
        if let place = missingPlace {
            return [
                "\(escaped(place)) does not exist; 'syncagent pull' creates it with its \(Figures.count(files, "file"))"
            ]
        }
        var lines = problems.map { "\(escaped($0.path)): \($0.reason)" }
        lines += notes.map { "note: \(escaped($0.path)) \($0.reason)" }
        if let release {
            lines.append(
                "revision \(release.revision) is signed by \(release.signers.joined(separator: " and ")), under root "
                    + "\(release.root); valid until \(timestamp(milliseconds: release.until))")
        }
        if extra > 0 {
            let shown = extraPaths.prefix(3).map { escaped($0) }.joined(separator: ", ")
            let rest = extra > 3 ? ", …" : ""
            lines.append("\(Figures.count(extra, "file")) here that the manifest does not list: \(shown)\(rest)")
        }
        var looked = Figures.count(files, "file")
        if directories > 0 { looked += " and " + Figures.count(directories, "directory", "directories") }
        if isWhole {
            lines.append("\(looked), \(ByteCount(bytes)): all correct")
        } else {
            let wrong = Figures.grouped(problems.count)
            let (verb, object) = problems.count == 1 ? ("is", "it") : ("are", "them")
            lines.append("\(wrong) of \(looked) \(verb) wrong; pull again to repair \(object)")
        }
        return lines
    }
}
