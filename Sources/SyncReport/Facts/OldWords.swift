import SyncModel

// Programs up to store version 4 kept what went wrong in words alone. This is all that still reads them: when no store
// of theirs is left, the file goes.
extension FailureCause {
    /// The cause that a message of an older program tells of: the first line of the table that has one of its words.
    ///
    /// - Parameter exitStatus: Of its run, for where the words say nothing.
    package init(ofOldWords message: String, exitStatus: Int32? = nil) {
        // A URL, a path or a digest is a name: digits in it are no status.
        let text = message.lowercased().split(separator: " ").filter { !Self.isName($0) }.joined(separator: " ")
        let row = Self.table.first { row in row.words.contains { text.contains($0) } }
        let status = exitStatus.flatMap(ExitStatus.init(rawValue:))
        self = row?.kind ?? status.map { $0 == .refused ? .refusedRedirect : FailureCause($0) } ?? .other
    }

    private static func isName(_ word: Substring) -> Bool {
        word.contains("://") || word.hasPrefix("/") || word.contains("/") && word.contains(where: \.isNumber)
            || word.filter(\.isHexDigit).count >= 16
    }

    /// In the words of transports, of the engine, of the system (strerror(3)) and of libcurl (curl_easy_strerror(3)).
    private static let table: [(kind: FailureCause, words: [String])] = [
        (.loginPage, ["network log-in", "network login", "a web page in place"]),
        (.pruneRefused, ["--prune would remove"]), (.olderRevision, ["is older than revision"]),
        (.diskFull, ["no space left", "are free; nothing was fetched", "disk quota"]),
        (.noPermission, ["permission denied", "read-only file system", "operation not permitted"]),
        (.diskTrouble, ["input/output error", "structure needs cleaning"]), (.rejected, ["verifier"]),
        (.badManifest, ["another manifest by now", "no manifest there", "manifest's numbers", "in the manifest"]),
        (.notThere, ["status 404", "status 410"]),
        (.access, ["status 401", "status 403", "(407)", "response 407", "asks for credentials"]),
        (.serverTrouble, ["status 429", "status 5", "status 408", "status 425"]),
        (.refusedRedirect, ["redirect", "private address"]),
        (
            .wrongBytes,
            [
                "sha-256", "bytes, where the object has", "more than the object's", "ended early", "end too early",
                "other bytes", "more bytes", "206", "416", "content-encoding", "content-length", "ignores ranges",
                "multipart", "wrong bytes",
            ]
        ), (.late, ["deadline"]), (.trust, ["certificate", "ssl", "tls"]),
        (
            .unreachable,
            [
                "resolve", "connect", "timed out", "timeout", "unreachable", "no route", "connection", "reset",
                "recv failure", "no byte",
            ]
        ),
        (.inTheWay, ["is a directory", "not a directory", "file exists", "in the way", "symbolic link", "too long"]),
        (.busy, ["another syncagent", "is busy"]), (.configuration, ["config", "unknown key", "credentials file"]),
    ]
}
