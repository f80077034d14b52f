import Foundation
import SyncManifest
import SyncModel
import Testing

/// Where the fuzzer of `Tests/SyncFuzz` leaves what failed.
private let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().appending(
    path: "SyncFuzz/FailCases/manifest")

private let names: [String] = { ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []).sorted() }()

@Suite(.timeLimit(.minutes(10)))
struct FailCaseTests {
    @Test("The inputs are where they are looked for")
    func present() { #expect(!names.isEmpty) }

    @Test("An input that once failed is read or refused, and nothing worse [V49, V65]", arguments: names)
    func replay(_ name: String) throws {
        let bytes = [UInt8](try Data(contentsOf: folder.appending(path: name)))
        do throws(ManifestError) {
            let manifest = try ManifestAssembly(bytes, digest: .zero).finish()
            #expect(manifest.files.totalSize != nil)
            #expect(name.hasPrefix("accept-") || !name.hasPrefix("refuse-"))
        } catch {
            #expect(error.path.hasPrefix("$"))
            #expect(!error.description.unicodeScalars.contains(where: isUnsafeOnTerminal))
            #expect(!name.hasPrefix("accept-"), "\(error)")
        }
    }
}
