import SyncModel
package import SyncPlugins

/// Asks a plugin about staged files: method `verifier.verify`.
package struct PluginVerifier: FileVerifier {
    private let client: PluginClient

    /// Most files in one question, so that one deadline is for few files.
    private static let most = 64

    /// Asks the plugin of this client, which was made for ``PluginPoint/verifier``.
    package init(_ client: PluginClient) { self.client = client }

    package func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict] {
        var verdicts: [FileVerdict] = []
        for start in stride(from: 0, to: files.count, by: Self.most) {
            let batch = files[start..<min(start + Self.most, files.count)]
            let answer = try client.call("verifier.verify") { line in
                line.key("files")
                line.array { line in
                    for file in batch {
                        line.object { line in
                            line.field("path", file.path)
                            line.field("staged_path", file.stagedPath)
                            line.field("size", file.size)
                            line.field("sha256", file.sha256)
                        }
                    }
                }
            }
            guard let list = answer["verdicts"]?.array, list.count == batch.count else {
                throw client.failure(
                    .badAnswer,
                    "its answer has no list 'verdicts' with one entry for each file"
                )
            }
            for value in list { verdicts.append(try verdict(value)) }
        }
        return verdicts
    }

    private func verdict(_ value: JSONValue) throws(PluginError) -> FileVerdict {
        switch value["verdict"]?.string {
        case "accepted": return .accepted
        case "refused":
            return .refused(reason: reason(value["reason"]) ?? "the plugin \(client.name) says so")
        default: throw client.failure(.badAnswer, "a verdict that is none of accepted, refused")
        }
    }
}
