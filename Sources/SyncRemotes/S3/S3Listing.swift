import SyncManifest
import SyncModel
import SyncPublisher

/// Reads one page of a bucket's list: ListObjectsV2 with encoded names.
///
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html>
///
/// - Parameter take: Gets each object with its key.
/// - Returns: The token of the next page; `nil` on the last one.
func readPage(_ body: [UInt8], _ take: (_ key: String, StoredObject) -> Void) throws(ListingError) -> String? {
    var text = try XMLText(body)
    var path: [String] = []
    var fields: [String: String] = [:]
    var isWhole = true
    var token = ""
    while let piece = try text.next() {
        switch piece {
        case .start(let name, _):
            path.append(name)
            if name == "Contents" { fields = [:] }
        case .text(let bytes):
            let value = String(decoding: bytes, as: UTF8.self)
            if path.count == 3, path[1] == "Contents" { fields[path[2], default: ""] += value }
            if path.count == 2, path[1] == "IsTruncated" { isWhole = value[...].trimmed != "true" }
            if path.count == 2, path[1] == "NextContinuationToken" { token += value }
        case .end(let name):
            path.removeLast()
            guard name == "Contents", path.count == 1 else { continue }
            guard let key = fields["Key"].flatMap({ percentDecoded($0.utf8.map { $0 == 0x2B ? 0x20 : $0 }) }),
                let size = fields["Size"].flatMap({ UInt64($0[...].trimmed) }), let tag = fields["ETag"]
            else { throw ListingError("line \(text.line)", "not that of a bucket") }
            take(String(decoding: key, as: UTF8.self), StoredObject(size: size, tag: tag))
        }
    }
    guard isWhole || !token.isEmpty else { throw ListingError("", "without its next page") }
    return isWhole ? nil : token
}
