import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncReport

// The messages of `publish` for people.
extension PublishReport {
    /// The result, or the forecast of a dry run, in two lines.
    func summary(isDryRun: Bool = false, milliseconds: Int64) -> String {
        if isDryRun { return preview(milliseconds) }
        if case .shard(let shard) = shards { return piece(shard, milliseconds) }
        let first =
            "\(escaped(project)) revision \(revision)\(channelWords): \(contentWords) "
            + (isLoose ? "as they are" : "stored in \(ByteCount(storedBytes))")
        let time = Figures.period(milliseconds)
        if unchanged { return first + "; nothing changed, \(time)" }
        if isLoose {
            return "\(first)\nno packs; manifest \(ByteCount(compressedManifestBytes)), \(time)"
        }
        var second = "\(Figures.count(packsWritten, "pack")) written, \(ByteCount(newBytes))"
        if movedBytes > 0 {
            second += ", of which \(ByteCount(movedBytes)) moved from mostly unused packs"
        }
        if packsReused > 0 { second += "; \(Figures.grouped(packsReused)) reused" }
        if deltaBytes > 0 {
            second += "; \(Figures.count(deltas, "delta")), \(ByteCount(deltaBytes))"
        }
        if parts > 0 {
            second += "; \(Figures.grouped(partsWritten)) of "
            second += "\(Figures.count(parts, "manifest part")) written, "
            second += "\(ByteCount(partBytes))"
        }
        if savedBytes > 0 {
            second += "; dictionary saves \(ByteCount(savedBytes))"
            if dictionaryBytes > 0 { second += ", costs \(ByteCount(dictionaryBytes))" }
        }
        if deadBytes > 0 { second += "; \(ByteCount(deadBytes)) in them no longer used" }
        if packsDropped > 0 {
            second += "; \(Figures.count(packsDropped, "old pack")) no longer referenced"
        }
        return "\(first)\n\(second); manifest \(ByteCount(compressedManifestBytes)), \(time)"
    }

    /// The result of one shard.
    private func piece(_ shard: Shard, _ milliseconds: Int64) -> String {
        let time = Figures.period(milliseconds)
        let first = "\(escaped(project)) shard \(shard.text): \(contentWords)"
        if unchanged { return "\(first); done before, \(time)" }
        return "\(first) stored in \(ByteCount(storedBytes))\n"
            + "\(Figures.count(packsWritten, "pack")) written, \(ByteCount(newBytes)); "
            + "\(Figures.count(parts, "manifest part")); --join \(shard.count) publishes it, \(time)"
    }

    private func preview(_ milliseconds: Int64) -> String {
        let first = "\(escaped(project)): \(contentWords)"
        let time = Figures.period(milliseconds)
        if unchanged { return "\(first); nothing would change, revision \(revision) stays, \(time)" }
        var second = "revision \(revision)\(channelWords) would be published: "
        second += Change.Kind.allCases.map {
            "\(Figures.grouped(counts[$0] ?? 0)) \($0.rawValue)"
        }.joined(separator: ", ")
        second += isLoose ? "; no packs" : "; \(ByteCount(encodedBytes)) to compress and store"
        return "\(first)\n\(second); nothing was written, \(time)"
    }

    private var channelWords: String { channel.map { " of channel \($0)" } ?? "" }

    private var contentWords: String {
        var parts = [Figures.count(files, "file")]
        if links > 0 { parts.append(Figures.count(links, "link")) }
        if directories > 0 { parts.append(Figures.count(directories, "directory", "directories")) }
        return (parts + ["\(ByteCount(rawBytes))"]).joined(separator: ", ")
    }

    /// A line on entries that were left out by default; `nil` for none.
    var leftOutWords: String? {
        guard !usuallyLeftOut.isEmpty else { return nil }
        let isWanted = usuallyLeftOut.contains { $0 != ".syncagent" }
        let names = usuallyLeftOut.joined(separator: ", ")
        return "Left out: \(names)\(isWanted ? " (--include-vcs for version control's)" : "")."
    }

    /// The choices carried over from the base.
    var keptWords: String {
        "As published before: \(kept.map { escaped($0) }.joined(separator: ", "))."
    }
}

extension PublishReport.Change {
    /// The line for one file of a dry run.
    ///
    /// - Parameter isAmongAll: Whether there are lines of unchanged files, too.
    func line(amongAll isAmongAll: Bool) -> String {
        "\(kind.rawValue.padded(to: isAmongAll ? 11 : 9))\(escaped(path))"
    }
}
