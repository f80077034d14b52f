import Foundation
import SyncKit

/// Lets only files in that are what their name says: a `.png` begins as PNG does.
struct PictureCheck: FileVerifier {
    private static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

    func verify(_ files: [StagedFile]) -> [FileVerdict] { files.map(verdict) }

    private func verdict(_ file: StagedFile) -> FileVerdict {
        guard file.path.hasSuffix(".png") else { return .accepted }
        guard let bytes = FileHandle(forReadingAtPath: file.stagedPath),
            let beginning = try? bytes.read(upToCount: Self.signature.count)
        else { return .unchecked(reason: "it cannot be read") }
        return [UInt8](beginning) == Self.signature ? .accepted : .refused(reason: "it is no PNG")
    }
}

/// `embedded-pull MANIFEST DIRECTORY`
@main
struct EmbeddedPull {
    static func main() async {
        let words = CommandLine.arguments.dropFirst()
        guard words.count == 2, let manifest = words.first, let destination = words.last else {
            FileHandle.standardError.write(Data("usage: embedded-pull MANIFEST DIRECTORY\n".utf8))
            exit(64)
        }
        var plugins = Sync.Plugins()
        plugins.verifiers = [PictureCheck()]
        do {
            for try await event in Sync.pull(manifest, into: destination, plugins: plugins) {
                switch event {
                case .planned(let plan): print("files to fetch: \(plan.wanted), requests: \(plan.requests)")
                case .installed(let file): print("+ \(file.path)")
                case .removed(let path): print("- \(path)")
                case .failed(let file): print("! \(file.path): \(file.reason)")
                case .finished(let summary):
                    print(
                        "\(summary.result.rawValue): \(summary.files.installed) new, \(summary.received) bytes received"
                    )
                    exit(summary.status.rawValue)
                default: break
                }
            }
        } catch let failure as Sync.Failure {
            FileHandle.standardError.write(Data("embedded-pull: \(failure)\n".utf8))
            exit(failure.status.rawValue)
        } catch {
            exit(1)
        }
    }
}
