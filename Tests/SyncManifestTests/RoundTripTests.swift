import Foundation
import SyncManifest
import SyncModel
import Testing

private let samples = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Manifests/samples")

private let names: [String] = {
    let found = (try? FileManager.default.contentsOfDirectory(atPath: samples.path)) ?? []
    return found.filter { $0.hasSuffix(".json") }.sorted() + ["published/manifest.json"]
}()

@Suite(.timeLimit(.minutes(10)))
struct RoundTripTests {
    @Test("A manifest that is written and read again is the same, and so is its text", arguments: names)
    func roundTrip(_ name: String) throws {
        let text = [UInt8](try Data(contentsOf: samples.appending(path: name)))
        let first = try ManifestAssembly(text, digest: .zero).finish()
        let written = write(first)
        let second = try ManifestAssembly(written, digest: .zero).finish()
        #expect(write(second) == written)
        #expect(second.project == first.project)
        #expect(second.revision == first.revision)
        #expect(second.created == first.created)
        #expect(second.packs == first.packs)
        #expect(second.groups == first.groups)
        try #require(second.files.count == first.files.count)
        for row in first.files.indices { #expect(facts(second, row) == facts(first, row)) }
    }

    /// All of a row, fit to be compared.
    private func facts(_ manifest: Manifest, _ row: Int) -> [String] {
        let files = manifest.files
        return [
            files.path(row), "\(files.kind(row))", "\(files.size(row))", files.digest(row).hex,
            files.linkTarget(row) ?? "no link", files.groupName(row) ?? "no group", "\(files.urls(row))",
        ]
            + files.blobs(row).map {
                "\($0.pack) \($0.range) \($0.rawLength) \($0.codec.name) \(files.digest(of: $0, in: row))"
            }
    }

    private func write(_ manifest: Manifest) -> [UInt8] {
        let files = manifest.files
        var writer = ManifestWriter(project: manifest.project, revision: manifest.revision, created: manifest.created)
        for pack in manifest.packs { writer.pack(pack) }
        for row in files.indices {
            files.withPath(row) { path in
                if let target = files.linkTarget(row) {
                    Array(target.utf8).withUnsafeBufferPointer {
                        writer.link(path: path, target: $0, group: files.groupName(row))
                    }
                } else {
                    writer.file(
                        path: path, size: files.size(row), digest: files.digest(row),
                        executable: files.kind(row) == .executable,
                        blobs: files.blobs(row).map { (blob: $0, digest: files.digest(of: $0, in: row)) },
                        urls: files.urls(row), group: files.groupName(row))
                }
            }
        }
        writer.finish(groups: manifest.groups)
        var text: [UInt8] = []
        writer.drain { text.append(contentsOf: $0) }
        return text
    }
}
