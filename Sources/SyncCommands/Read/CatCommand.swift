import ArgumentParser
import Foundation
import SyncAssembly
import SyncEngine
import SyncManifest
import SyncModel
import SyncReport
import SyncSystem

struct CatCommand: AsyncParsableCommand, ReadingOptions {
    static let configuration = CommandConfiguration(
        commandName: "cat", abstract: "Print one file of a manifest, verified.",
        discussion: """
            Fetches only the pack ranges that hold the file. Nothing is written before the whole file has matched its \
            SHA-256; until then it is kept in TMPDIR.

            Examples:

              syncagent cat https://cdn.example.com/tower/manifest.json sheets/notes.txt
            """)

    @Argument(help: "The manifest: a path or an http(s) URL.", completion: .manifests) var manifest: String

    @Argument(help: "The file's path in the manifest.") var path: String

    @OptionGroup(title: "Release and trust") var release: ReleaseOptions

    @OptionGroup(title: "Release and trust") var trust: TrustOptions

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @OptionGroup var listing: ListingOptions

    @OptionGroup var bucket: BucketOptions

    @Flag(name: .shortAndLong, help: "Print only warnings and errors.") var quiet = false

    func validate() throws {
        try requireLocation(manifest, "MANIFEST")
        if path.isEmpty { throw ValidationError("PATH needs the path of a file, not an empty string.") }
    }

    func run() async throws {
        var reporting = ReportingOptions()
        (reporting.json, reporting.quiet) = (false, quiet)
        let output = reporting.output()
        let (recipe, path) = (try recipe(manifest), path)
        let temporary = EnvironmentPaths.ofProcess.lookup("TMPDIR").flatMap { $0.isEmpty ? nil : $0 } ?? "/tmp"
        try await transfer.reading([recipe], trusting: trust, reporting, output) { engine, found in
            let hand = try engine.read(found[0], asksSizes: false)
            guard let row = hand.row(of: path) else { throw Self.unknown(path, hand) }
            try hand.fetch(row, in: temporary) { piece throws(EngineError) in
                output.clearProgress()
                guard let code = writeAll(Array(piece), to: STDOUT_FILENO) else { return }
                // The reader has closed the pipe.
                if code == .brokenPipe { throw EngineError(.done, "") }
                throw EngineError(.ioError, "cannot write to standard output: \(code)")
            }
        }
    }

    /// The error for a path that is not a file: 66.
    private static func unknown(_ path: String, _ hand: ManifestInHand) -> EngineError {
        if let target = hand.link(at: path) {
            return EngineError(
                .noInput, "\(escaped(path)) is a link to \(escaped(target)), which leads to no file of the manifest")
        }
        let below = hand.manifest.files.rows(below: Array(path.utf8))
        if !below.isEmpty {
            return EngineError(
                .noInput,
                "\(escaped(path)) is a directory with \(Figures.count(below.count, "file")); 'syncagent ls' lists them")
        }
        if hand.manifest.directories.rows(below: Array(path.utf8)).count > 0 {
            return EngineError(.noInput, "\(escaped(path)) is an empty directory")
        }
        return hand.unknown(path)
    }
}
