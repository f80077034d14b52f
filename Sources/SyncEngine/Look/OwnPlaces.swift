import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

// With our own configuration and state, whoever publishes would choose the hooks that run and the keys that count.
extension EngineEnvironment {
    /// What decides about pulls in the state directory.
    private static let stateNames = ["syncagent.sqlite", "trust", "manifests"]

    /// Refuses a manifest that would place files in this program's configuration or state, or in the way to them.
    ///
    /// - Throws: ``EngineError`` with status 77.
    func refuseOwnPlaces(in manifest: Manifest, _ destination: Destination) throws(EngineError) {
        guard let root = realPath(destination.path) else { return }
        let state = realPath(stateDirectory) ?? stateDirectory
        let configuration = configurationDirectory.map { realPath($0) ?? $0 }
        for place in Self.stateNames.map({ "\(state)/\($0)" }) + [configuration].compactMap(\.self) {
            let prefix = root == "/" ? root : root + "/"
            let isInside = root == place || root.hasPrefix(place + "/")
            guard isInside || place.hasPrefix(prefix) && names(place.dropFirst(prefix.count), manifest.files) else {
                continue
            }
            throw EngineError(
                .refused,
                "\(escaped(place)) belongs to syncagent itself, and no manifest may put files there; choose another "
                    + "directory with --into")
        }
    }

    /// Whether a file has a path or one below it, or something that is no directory has one above it.
    private func names(_ path: Substring, _ files: FileTable) -> Bool {
        let path = Array(path.utf8)
        return files.indices.contains { row in
            files.withPath(row) { file in
                if file.count < path.count {
                    return files.kind(row) != .directory && path[file.count] == 0x2F && path.starts(with: file)
                }
                return file.starts(with: path) && (file.count == path.count || file[path.count] == 0x2F)
            }
        }
    }
}
