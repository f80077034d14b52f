import SyncManifest
import SyncModel

extension Manifest {
    /// A manifest of files that need not be anywhere: one byte each, all with the digest of zeros.
    static func ofRows(_ count: Int) throws -> Manifest {
        let digest = String(repeating: "00", count: 32)
        let rows = (0..<count).map { #"{"path":"f\#(1_000_000 + $0)","size":1,"sha256":"\#(digest)","urls":["x"]}"# }
        let head = #"{"format":"syncagent-manifest/1","project":"com.example.p","files":["#
        return try ManifestAssembly(Array("\(head)\(rows.joined(separator: ","))]}".utf8), digest: .zero).finish()
    }
}
