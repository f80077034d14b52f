import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncReport

/// What `publish` says to people.
enum PublishText {
    /// What was done, or would be, in two lines.
    static func summary(_ report: PublishReport, isDryRun: Bool = false, milliseconds: Int64) -> String {
        if isDryRun { return preview(report, milliseconds) }
        if case .shard(let shard) = report.shards { return piece(report, shard, milliseconds) }
        let channel = report.channel.map { " of channel \($0)" } ?? ""
        let content = content(report)
        let first =
            "\(escaped(report.project)) revision \(report.revision)\(channel): \(content) "
            + (report.isLoose ? "as they are" : "stored in \(ByteCount(report.storedBytes))")
        let time = Figures.period(milliseconds)
        if report.unchanged { return first + "; nothing changed, \(time)" }
        if report.isLoose {
            return "\(first)\nno packs; manifest \(ByteCount(report.compressedManifestBytes)), \(time)"
        }
        var second = "\(Figures.count(report.packsWritten, "pack")) written, \(ByteCount(report.newBytes))"
        if report.movedBytes > 0 {
            second += ", of which \(ByteCount(report.movedBytes)) moved from packs mostly unused"
        }
        if report.packsReused > 0 { second += "; \(Figures.grouped(report.packsReused)) reused" }
        if report.deltaBytes > 0 {
            second += "; \(Figures.count(report.deltas, "delta")), \(ByteCount(report.deltaBytes))"
        }
        if report.parts > 0 {
            second += "; \(Figures.grouped(report.partsWritten)) of "
            second += "\(Figures.count(report.parts, "manifest part")) written, "
            second += "\(ByteCount(report.partBytes))"
        }
        if report.savedBytes > 0 {
            second += "; dictionary saves \(ByteCount(report.savedBytes))"
            if report.dictionaryBytes > 0 { second += ", costs \(ByteCount(report.dictionaryBytes))" }
        }
        if report.deadBytes > 0 { second += "; \(ByteCount(report.deadBytes)) in them no longer used" }
        if report.packsDropped > 0 {
            second += "; \(Figures.count(report.packsDropped, "old pack")) no longer referenced"
        }
        return "\(first)\n\(second); manifest \(ByteCount(report.compressedManifestBytes)), \(time)"
    }

    /// What one shard has done.
    private static func piece(_ report: PublishReport, _ shard: Shard, _ milliseconds: Int64) -> String {
        let time = Figures.period(milliseconds)
        let first = "\(escaped(report.project)) shard \(shard.text): \(content(report))"
        if report.unchanged { return "\(first); done before, \(time)" }
        return "\(first) stored in \(ByteCount(report.storedBytes))\n"
            + "\(Figures.count(report.packsWritten, "pack")) written, \(ByteCount(report.newBytes)); "
            + "\(Figures.count(report.parts, "manifest part")); --join \(shard.count) publishes it, \(time)"
    }

    private static func preview(_ report: PublishReport, _ milliseconds: Int64) -> String {
        let first = "\(escaped(report.project)): \(content(report))"
        let time = Figures.period(milliseconds)
        if report.unchanged { return "\(first); nothing would change, revision \(report.revision) stays, \(time)" }
        var second = "revision \(report.revision) would be published: "
        second += PublishReport.Change.Kind.allCases.map {
            "\(Figures.grouped(report.counts[$0] ?? 0)) \($0.rawValue)"
        }.joined(separator: ", ")
        second += report.isLoose ? "; no packs" : "; \(ByteCount(report.encodedBytes)) to compress and store"
        return "\(first)\n\(second); nothing was written, \(time)"
    }

    private static func content(_ report: PublishReport) -> String {
        var parts = [Figures.count(report.files, "file")]
        if report.links > 0 { parts.append(Figures.count(report.links, "link")) }
        if report.directories > 0 { parts.append(Figures.count(report.directories, "directory", "directories")) }
        return (parts + ["\(ByteCount(report.rawBytes))"]).joined(separator: ", ")
    }

    /// One file of a dry run.
    ///
    /// - Parameter isAmongAll: Whether there are lines of unchanged files, too.
    static func line(_ change: PublishReport.Change, amongAll isAmongAll: Bool = false) -> String {
        "\(change.kind.rawValue.padding(toLength: isAmongAll ? 11 : 9, withPad: " ", startingAt: 0))\(escaped(change.path))"
    }

    /// What was left out although nobody has said so; `nil` for nothing.
    static func leftOut(_ names: [String]) -> String? {
        guard !names.isEmpty else { return nil }
        let isWanted = names.contains { $0 != ".syncagent" }
        return "Left out: \(names.joined(separator: ", "))\(isWanted ? " (--include-vcs for version control's)" : "")."
    }

    /// Which choices are the base's.
    static func kept(_ choices: [String]) -> String {
        "As published before: \(choices.map { escaped($0) }.joined(separator: ", "))."
    }
}
