import SyncManifest
import SyncModel
import SyncTrust

/// Makes a set that any static web server can serve out of a directory.
///
/// 1. Walk the source; refuse what no manifest can carry, all of it by name. Make a dictionary, where one pays.
/// 2. Read in path order; large files are cut into chunks. Workers hash and compress.
/// 3. Collect in path order and write packs; content that has a place already is not written again.
/// 4. Count what of the base's packs is still needed; repack if asked to.
/// 5. Packs durable and named, then the manifest, then the statements that sign it.
///
/// Memory is bounded by the pipeline's window, about **16 MiB** and a few for each worker, besides about
/// **200 bytes** for each file and blob. Making a dictionary takes about **80 MiB** more.
package struct Publisher {
    private let options: PublishOptions

    package init(_ options: PublishOptions) { self.options = options }

    /// Publishes. `isCancelled` and `progress` are called on this thread, between pieces.
    ///
    /// - Throws: ``PublishError``; the old manifest is in place then, and nothing new, unless only the signing failed.
    package func run(isCancelled: () -> Bool = { false }, progress: (PublishProgress) -> Void = { _ in })
        throws(PublishError) -> PublishReport
    {
        try options.check()
        let root = try SourceRoot(options.directory)
        let placement = try OutputPlacement.find(source: root, output: options.output)
        let output = try OutputDirectory(options.output)
        if let objection = try output.objection(to: options.signing, options.permits) { throw objection }
        do throws(PublishError) {
            var run = try PublishRun(options, output, placement)
            var report = try run.run(root, isCancelled: isCancelled, progress: progress)
            report.channel = options.channel
            if options.signing == nil, let word = output.word(options.channel), word.fresh.revision != report.revision {
                report.warnings.append(
                    "revision \(word.fresh.revision) was signed, and revision \(report.revision) is not: machines that are "
                        + "pinned do not get it; publish again with --sign")
            }
            if let signing = options.signing {
                report.fresh = try sign(report, output, signing)
                if options.permits.contains(.otherKeys) { try output.removeOtherRoots(than: signing) }
            }
            return report
        } catch {
            output.clear()
            throw error
        }
    }

    private func sign(_ report: PublishReport, _ output: OutputDirectory, _ signing: Signing) throws(PublishError)
        -> FreshStatement?
    {
        guard let digest = report.manifestDigest else { return nil }
        do throws(PublishError) {
            return try SignedOutput(output: output, signing: signing).publish(
                project: report.project, revision: report.revision, digest: digest, size: report.manifestBytes,
                frame: options.channel == nil
                    ? (.top, "manifest.json.zst") : (.channels, "\(report.revision).json.zst"), channel: options.channel
            )
        } catch { throw error.unsigned("revision \(report.revision) is published", "publish again with --sign") }
    }

    /// Says what ``run(isCancelled:progress:)`` would do, and writes nothing at all: the source is read, and of the output
    /// what the base names.
    package func preview(isCancelled: () -> Bool = { false }, progress: (PublishProgress) -> Void = { _ in })
        throws(PublishError) -> PublishPreview
    {
        try options.check()
        let root = try SourceRoot(options.directory)
        let placement = try OutputPlacement.find(source: root, output: options.output)
        let output = try OutputDirectory(options.output, for: .reading)
        var run = try PublishRun(options, output, placement)
        if let objection = try output.objection(to: options.signing, options.permits) {
            run.report.warnings.append("publish would refuse this: \(objection.summary)")
        }
        return try run.preview(root, isCancelled: isCancelled, progress: progress)
    }

    /// Says once more that what an output directory has is the newest.
    package static func refresh(_ path: String, _ signing: Signing) throws(PublishError) -> Refreshed {
        let output = try OutputDirectory(path)
        return try SignedOutput(output: output, signing: signing).refresh()
    }
}
