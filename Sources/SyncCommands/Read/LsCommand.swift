import ArgumentParser
import Foundation
import SyncAssembly
import SyncEngine
import SyncManifest
import SyncModel
import SyncSystem

struct LsCommand: AsyncParsableCommand, ReadingOptions {
    static let configuration = CommandConfiguration(
        commandName: "ls", abstract: "List the files of a manifest.",
        discussion: """
            Prints one line per file, ordered by path: its size in bytes; - for a file, x for an executable, l for a \
            link, d for a directory that is empty or has its own mode or time; and its groups. With PATH, only that file, or \
            what is below that directory. Fetches only the manifest.

            Examples:

              syncagent ls https://cdn.example.com/tower/manifest.json --group maps
              syncagent ls https://cdn.example.com/tower/manifest.json sheets/north
            """)

    @Argument(help: "The manifest: a path or an http(s) URL.", completion: .manifests) var manifest: String

    @Argument(help: "Only these files and what is below these directories, as in the manifest.".taking("path"))
    var paths: [String] = []

    @Option(name: .customLong("group"), help: "Only the files of this group; repeatable.".taking("name"))
    var groups: [String] = []

    @OptionGroup(title: "Release and trust") var release: ReleaseOptions

    @OptionGroup(title: "Release and trust") var trust: TrustOptions

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @OptionGroup var listing: ListingOptions

    @OptionGroup var bucket: BucketOptions

    @OptionGroup(title: "Output") var reporting: ReportingOptions

    func validate() throws {
        try requireLocation(manifest, "MANIFEST")
        if paths.contains(where: { $0.isEmpty || $0.hasPrefix("/") }) {
            throw ValidationError("PATH is as in the manifest, without a slash at its beginning.")
        }
    }

    func run() async throws {
        let output = reporting.output()
        let (recipe, groups, paths) = (try recipe(manifest), groups, paths)
        let (hand, rows, directories) = try await transfer.reading(
            [recipe], trusting: trust, reporting, output
        ) { engine, found in
            let hand = try engine.read(found[0])
            let rows = try hand.rows(of: groups)
            let directories = hand.directories(of: groups, with: rows)
            guard !paths.isEmpty else { return (hand, rows, directories) }
            let below = try paths.map { path throws(EngineError) in try hand.rows(below: path) }
            return (
                hand, rows.filter { row in below.contains { $0.files.contains(row) } },
                directories.filter { row in below.contains { $0.directories.contains(row) } }
            )
        }
        let files = Listing(hand.manifest, \.files)
        let folders = Listing(hand.manifest, \.directories)
        let time = SystemTime.milliseconds()
        let width = rows.map { "\(hand.manifest.files.size($0))".utf8.count }.max() ?? 1
        func write(_ row: Int, _ listing: Listing) {
            if reporting.json {
                output.event(SyncEvent(.lsFile, time: time) { listing.write(row, to: &$0) }.json)
            } else {
                output.line(listing.line(row, width: width), flushing: false)
            }
        }
        var waiting = directories[...]
        for row in rows {
            while let directory = waiting.first, folders.precedes(directory, files, row) {
                write(directory, folders)
                waiting.removeFirst()
            }
            write(row, files)
        }
        for directory in waiting { write(directory, folders) }
        output.flush()
    }
}

/// The entries of a manifest as lines.
private struct Listing: Sendable {
    private let files: FileTable
    private let groups: [(name: String, rows: RowSelection)]

    /// - Parameter table: Of files, or of directories.
    init(_ manifest: Manifest, _ table: KeyPath<Manifest, FileTable>) {
        let files = manifest[keyPath: table]
        self.files = files
        groups = manifest.groups.map { ($0.name, files.rows(of: $0)) }
    }

    func precedes(_ row: Int, _ other: Listing, _ otherRow: Int) -> Bool {
        files.withPath(row) { path in other.files.withPath(otherRow) { PathOrder.precedes(path, $0) } }
    }

    /// The declared groups of an entry, and the group that the entry names.
    private func groups(_ row: Int) -> [String] {
        var names = groups.filter { $0.rows.contains(row) }.map(\.name)
        if let own = files.groupName(row), !names.contains(own) { names.append(own) }
        return names
    }

    func line(_ row: Int, width: Int) -> String {
        let size = files.checks[row].map(\.isSizeKnown) ?? true ? "\(files.size(row))" : "?"
        let sign =
            switch files.kind(row) {
            case .file: "-"
            case .executable: "x"
            case .link: "l"
            case .directory: "d"
            }
        var line = String(repeating: " ", count: max(0, width - size.utf8.count)) + size
        line += " \(sign) \(escaped(files.path(row)))\(files.kind(row) == .directory ? "/" : "")"
        if let target = files.linkTarget(row) { line += " -> \(escaped(target))" }
        let groups = groups(row)
        return groups.isEmpty ? line : line + "  (\(groups.map { escaped($0) }.joined(separator: ", ")))"
    }

    func write(_ row: Int, to line: inout JSONLine) {
        line.field("path", files.path(row))
        if let target = files.linkTarget(row) {
            line.field("kind", "link")
            line.field("link", target)
        } else if files.kind(row) == .directory {
            line.field("kind", "directory")
        } else {
            line.field("kind", files.kind(row) == .executable ? "executable" : "file")
            // Size and digest are unknown if the listing does not give them.
            let check = files.checks[row]
            if check?.isSizeKnown ?? true { line.field("size", files.size(row)) }
            if check == nil { line.field("sha256", files.digest(row).hex) }
        }
        let traits = files.traits(row)
        line.field("mode", optional: traits.mode.map(FileTraits.text(mode:)))
        line.field("mtime", optional: traits.modified.map(FileTraits.text(time:)))
        line.field("groups", groups(row))
    }
}

/// The options of every verb that reads a set's manifest: which release, which trust, how to fetch.
///
/// Each command has these groups itself. A group inside another group is built, and checked in a debug build, many
/// times over.
protocol ReadingOptions {
    var release: ReleaseOptions { get }
    var trust: TrustOptions { get }
    var transfer: TransferOptions { get }
    var listing: ListingOptions { get }
    var bucket: BucketOptions { get }
}

extension ReadingOptions {
    /// Applies the release and the bucket's service to a recipe.
    func apply(to recipe: inout RunRecipe) throws(CommandFailure) {
        release.apply(to: &recipe)
        try listing.apply(to: &recipe, bucket)
    }

    /// A recipe for reading the manifest of the release that the options name.
    func recipe(_ location: String) throws(CommandFailure) -> RunRecipe {
        var recipe = RunRecipe(manifest: location)
        try apply(to: &recipe)
        return recipe
    }
}
