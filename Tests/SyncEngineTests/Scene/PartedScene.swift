import Foundation
import SyncContent
import SyncModel
import SyncTestKit
import Testing

extension Scene {
    static let partPack = base + "packs/parts.pack"

    /// Serves a set with its manifest in parts of so many entries, in one pack of their own.
    ///
    /// - Parameters:
    ///   - tree: The files.
    ///   - entries: Entries of one part.
    ///   - damage: Changes the texts of the parts before they are counted and hashed: lies of the publisher.
    ///   - amend: Changes the root's list of parts.
    /// - Returns: The place of each part in the pack.
    @discardableResult func publishInParts(
        _ tree: AssetTree, of entries: Int, from former: [Int: [String]] = [:],
        damage: (inout [String]) -> Void = { _ in },
        amend: (inout [[String: Any]]) -> Void = { _ in }
    ) throws -> [Range<UInt64>] {
        let set = try publish(tree)
        var root = try #require(try JSONSerialization.jsonObject(with: Data(set.manifest)) as? [String: Any])
        let files = try #require(root["files"] as? [[String: Any]])
        let packs = (root["packs"] as? [[String: Any]]) ?? []
        let digests = packs.compactMap { $0["sha256"] as? String }
        var texts: [String] = []
        for start in stride(from: 0, to: files.count, by: entries) {
            let part: [String: Any] = [
                "packs": digests, "files": Array(files[start..<min(files.count, start + entries)]),
            ]
            texts.append(
                String(
                    decoding: try JSONSerialization.data(withJSONObject: part, options: [.sortedKeys]), as: UTF8.self))
        }
        damage(&texts)
        var bytes: [UInt8] = []
        var parts: [[String: Any]] = []
        var places: [Range<UInt64>] = []
        for (index, text) in texts.enumerated() {
            var chain: [[Any]] = []
            var prefix: [UInt8]?
            for text in (former[index] ?? []) + [text] {
                let raw = Array(text.utf8)
                var compressor = try ZstdCompressor(level: 3)
                let stored =
                    try prefix.map { try #require(try compressor.encode(raw, behind: $0, most: 1 << 20)) } ?? raw
                let codec = prefix == nil ? "none" : "zstd"
                chain.append([packs.count, bytes.count, stored.count, raw.count, codec, "\(try Self.digest(raw))"])
                places.append(UInt64(bytes.count)..<UInt64(bytes.count + stored.count))
                bytes += stored
                prefix = raw
            }
            var part: [String: Any] = [
                "blob": chain.removeLast(), "files": min(entries, files.count - index * entries),
            ]
            if !chain.isEmpty { part["from"] = chain }
            parts.append(part)
        }
        amend(&parts)
        root["format"] = "syncagent-manifest/1"
        root["files"] = nil
        root["parts"] = parts
        let digest = try Self.digest(bytes)
        root["packs"] = packs + [["url": "packs/parts.pack", "size": bytes.count, "sha256": "\(digest)"]]
        transport.serve(bytes, at: Self.partPack)
        transport.serve(
            Array(try JSONSerialization.data(withJSONObject: root, options: [.sortedKeys])),
            at: Self.base + "manifest.json")
        return places
    }

    /// Names of cached parts.
    var cachedParts: [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: root.path("state/manifests"))) ?? []
        return names.filter { $0.hasSuffix(".part") }.sorted()
    }
}
