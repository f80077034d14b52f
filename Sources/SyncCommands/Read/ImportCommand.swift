import ArgumentParser
import SyncAssembly
import SyncEngine
import SyncManifest
import SyncModel
import SyncReport
import SyncSystem

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Convert somebody else's listing into a manifest.",
        discussion: """
            SOURCE is what pull takes in place of a manifest: a checksum list as sha256sum(1) writes it, a Metalink, a \
            repository on Hugging Face or in Git LFS, or an artifact in a registry. The manifest lists each file with \
            its size, SHA-256 and URLs, and records under "source" where the set comes from, and its state. If the \
            source gives no size, its server is asked; if it gives no SHA-256, the file is fetched once.

            Examples:

              syncagent import https://cdn.example.com/maps/SHA256SUMS --to manifest.json
              syncagent import hf://acme/site@v1.0 --to manifest.json
              syncagent import oci://registry.example.com/acme/maps:v1 --to manifest.json
              syncagent import SHA256SUMS --base https://example.com/maps/ --to maps.json
            """)

    @Argument(help: "The source: a path or a URL.", completion: .file()) var source: String

    @Option(
        name: .customLong("to"),
        help: "The file to write; for a symbolic link, its target.  (default: standard output)".taking("file"))
    var output: String?

    @OptionGroup var listing: ListingOptions

    @OptionGroup var bucket: BucketOptions

    @OptionGroup(title: "Release and trust") var trust: TrustOptions

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @Flag(name: .shortAndLong, help: "Print only warnings and errors.") var quiet = false

    func validate() throws {
        try requireLocation(source, "SOURCE")
        if let output {
            if output.isEmpty { throw ValidationError("--to needs a file, not an empty string.") }
            try requireLocal(output, "--to", "copy the file there")
        }
    }

    func run() async throws {
        var reporting = ReportingOptions()
        (reporting.json, reporting.quiet) = (false, quiet)
        let console = reporting.output()
        let request = try transfer.engine(trusting: trust) { settings in
            var recipe = RunRecipe(manifest: try settings.location(source))
            try listing.apply(to: &recipe, bucket)
            return recipe
        }
        // Listing may take long, so the output is checked first.
        if let output { try replaceable(EnvironmentPaths.absolute(output)) }
        let call = EngineCall(reporting, on: console, request)
        let imported = try await call.reading { engine in try engine.imported(call.recipe) }
        guard let output else {
            guard !imported.isRelative else { throw Self.isRelative(source) }
            console.clearProgress()
            guard let code = writeAll(imported.text, to: 1) else { return }
            throw CommandFailure(.ioError, "cannot write to standard output: \(code)")
        }
        if imported.isRelative, try Self.directory(output) != Self.directory(source) { throw Self.isRelative(source) }
        let place = try EnvironmentPaths.absolute(output)
        let listed = imported.manifest.files
        if let there = realPath(place) {
            let list = realPath(try EnvironmentPaths.absolute(source))
            let name = there.dropFirst(list.map(parent(of:))?.count ?? 0).drop { $0 == "/" }
            let isListed = imported.isRelative && listed.indices.contains { listed.path($0) == name }
            if isListed || there == list {
                let what = isListed ? "one of the files that \(escaped(source)) lists" : "the list itself"
                throw CommandFailure(.usage, "\(escaped(output)) is \(what): name another file with --to")
            }
        }
        try replaceFile(place, by: imported.text, mode: CurrentProcess.umask.less(0o666))
        let files = Figures.count(listed.count, "file")
        let size = ByteCount(listed.totalSize ?? 0)
        console.message("\(escaped(output)): \(files), \(size), from \(imported.source.shown)")
    }

    private static func directory(_ file: String) throws(CommandFailure) -> String {
        let path = try EnvironmentPaths.absolute(file)
        return parent(of: path)
    }

    private static func isRelative(_ source: String) -> CommandFailure {
        CommandFailure(
            .usage,
            "the files are beside \(escaped(source)): write the manifest there with --to, or give their URL with --base"
        )
    }
}

/// Options for a listing in place of a manifest.
struct ListingOptions: ParsableArguments {
    @Option(
        help: "The URL that the names in a checksum list are relative to.  (default: the list's own)".taking("url")
    )
    var base: String?

    func validate() throws {
        guard let base else { return }
        guard isWebURL(base), !base.contains(where: { $0 == "?" || $0 == "#" || $0 == "@" || $0.isWhitespace }) else {
            throw ValidationError("--base needs an http(s) URL without a query, such as https://cdn.example.com/maps/.")
        }
        try requireLocation(base, "--base")
    }

    func apply(to recipe: inout RunRecipe, _ bucket: BucketOptions) throws(CommandFailure) {
        recipe.base = base
        do throws(ValidationError) { recipe.manifest = try bucket.named(recipe.manifest) } catch {
            throw CommandFailure(.usage, error.message)
        }
    }
}
