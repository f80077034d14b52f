import Foundation
import SyncManifest
import SyncModel
import Testing

/// The folder `Manifests` of the project.
private let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Manifests")

private func names(_ path: String, ending: String = ".json") -> [String] {
    let found = (try? FileManager.default.contentsOfDirectory(atPath: folder.appending(path: path).path)) ?? []
    return found.filter { $0.hasSuffix(ending) }.sorted()
}

private func read(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: folder.appending(path: path))) }

@Suite(.timeLimit(.minutes(10)))
struct SampleTests {
    @Test("The samples are where they are looked for")
    func present() {
        #expect(names("samples").count >= 9)
        #expect(names("samples/invalid").count >= 50)
        #expect(names("samples/invalid", ending: ".txt").count == names("samples/invalid").count)
    }

    @Test(
        "Every sample is read",
        arguments: names("samples").map { "samples/" + $0 } + ["samples/published/manifest.json"])
    func valid(
        _ path: String
    ) throws {
        let manifest = try ManifestAssembly(try read(path), digest: .zero).finish()
        #expect(!manifest.project.isEmpty)
        #expect(manifest.files.count > 0 || path.hasSuffix("empty.json"))
    }

    @Test(
        "Every invalid sample is refused with the message that stands beside it [F105, F106, F107, F108, F109]",
        arguments: names("samples/invalid"))
    func invalid(_ name: String) throws {
        let message = String(decoding: try read("samples/invalid/" + name.dropLast(5) + ".txt"), as: UTF8.self)
        let bytes = try read("samples/invalid/" + name)
        let error = #expect(throws: ManifestError.self) { try ManifestAssembly(bytes, digest: .zero).finish() }
        #expect(error.map { "\($0)\n" } == message)
    }

    @Test("The manifest in the format text is one")
    func formatText() throws {
        let text = String(decoding: try read("FORMAT.md"), as: UTF8.self)
        let example = try #require(text.split(separator: "```json").last?.split(separator: "```").first)
        let manifest = try ManifestFixture.load(String(example))
        #expect(manifest.files.urls(0) == ["sheets/A-101.pdf"])
    }

    @Test("The limits in the format text are the defaults")
    func formatLimits() throws {
        let text = String(decoding: try read("FORMAT.md"), as: UTF8.self).replacing("\n", with: " ")
        let limits = ManifestLimits.standard
        func grouped(_ number: Int) -> String {
            let digits = String(number)
            return digits.enumerated().map { index, digit in
                (index > 0 && (digits.count - index) % 3 == 0 ? "," : "") + String(digit)
            }.joined()
        }
        for sentence in [
            "\(grouped(limits.entries)) entries", "\(grouped(limits.packs)) packs", "\(grouped(limits.blobs)) blobs",
            "\(grouped(limits.groups)) groups", "\(grouped(limits.patternsPerGroup)) patterns",
            "\(grouped(limits.patternMatches)) paths", "\(limits.urlsPerFile) URLs", "\(limits.depth) levels",
            "\(grouped(limits.urlBytes)) bytes", "\(grouped(limits.extensionMembers)) keys",
            "\(limits.manifestBytes >> 30) GiB of text", "\(limits.textBytes >> 30) GiB of paths",
            "\(limits.ownTextBytes >> 20) MiB in the manifest itself", "\(limits.partBytes >> 20) MiB in one part",
            "\(limits.memoryBytes >> 20) MiB of memory", "\(grouped(limits.patternBytes)) bytes of these paths",
        ] { #expect(text.contains(sentence), "\(sentence)") }
    }

    @Test("Groups, links, mirrors and chunks of the samples come out as they are meant")
    func meaning() throws {
        let groups = try ManifestAssembly(try read("samples/groups.json"), digest: .zero).finish()
        #expect(groups.groups.map(\.name) == ["maps", "pictures", "models", "indexes"])
        let pictures = try groups.selection(groups: ["pictures"])?.rows.map(groups.files.path)
        #expect(pictures == ["maps/0/0.png", "maps/1/1.png"])
        #expect(try groups.selection(groups: ["maps", "models"])?.count == 4)

        let links = try ManifestAssembly(try read("samples/links.json"), digest: .zero).finish()
        #expect(links.files.indices.count { links.files.kind($0) == .link } == 6)

        let mirrors = try ManifestAssembly(try read("samples/mirrors.json"), digest: .zero).finish()
        #expect(mirrors.packs[0].urls.count == 3)
        #expect(mirrors.files.urls(0).count == 6)

        let chunked = try ManifestAssembly(try read("samples/chunked.json"), digest: .zero).finish()
        #expect(chunked.files.indices.map { chunked.files.blobs($0).count } == [3, 4, 1, 1])
        let shared = Set(chunked.files.blobs(0).map { chunked.files.digest(of: $0, in: 0) }).intersection(
            chunked.files.blobs(1).map { chunked.files.digest(of: $0, in: 1) })
        #expect(shared.count == 3)

        let tower = try ManifestAssembly(try read("samples/tower.json"), digest: .zero).finish()
        #expect(tower.revision == 42)
        #expect(tower.files.totalSize == 171_072 + 70_000 + 131_072 + 512 + 8_123_456)
        #expect(
            try ManifestAssembly(try read("samples/names.json"), digest: .zero).finish().caseCollisions().count == 1)
    }
}
