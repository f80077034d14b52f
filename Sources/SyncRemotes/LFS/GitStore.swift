import SyncContent
import SyncManifest
import SyncModel
package import SyncPlugins
import SyncSystem

/// A bare, partial copy of a repository in the state directory: the newest tree that was asked for, and only the small
/// ones of its blobs. Each call locks the copy.
package struct GitStore: Sendable {
    let repository: String
    private let git: Git
    /// `git/` in the state directory.
    private let parent: String
    private let directory: String
    private let now: @Sendable () -> Int64

    /// Blobs below this many **bytes** come with the tree: all pointers, and files that would not be worth a request
    /// each.
    static let smallBlob = 32 << 10
    /// The most that the copy may take, in **bytes**; beyond it the copy is made anew, and beyond twice that the
    /// repository is refused.
    private static let most: UInt64 = 2 << 30
    /// The most files of packs, a few for each, that it may consist of; beyond them it is made anew.
    private static let mostPacks = 300

    /// - Parameters:
    ///   - repository: Its URL, as git takes it.
    ///   - stateDirectory: Absolute.
    ///   - now: **Milliseconds** since 1970.
    package init(
        _ repository: String, _ git: Git, stateDirectory: String, now: @escaping @Sendable () -> Int64
    ) throws(PluginError) {
        (self.repository, self.git, parent, self.now) = (repository, git, stateDirectory + "/git", now)
        do throws(DigestError) { directory = "\(parent)/\(try Self.name(of: repository))" } catch {
            throw .lfs(.unavailable, "\(error)")
        }
    }

    private static func name(of repository: String) throws(DigestError) -> String { "\(try sha256(repository)).git" }

    /// The commit of a reference, as the repository has it now, in two requests of its protocol.
    package func commit(_ reference: String?) throws(PluginError) -> String {
        let patterns = reference.map { ["refs/heads/\($0)", "refs/tags/\($0)", "refs/tags/\($0)^{}", $0] } ?? ["HEAD"]
        let text = try git.run(["ls-remote", "--quiet", "--", repository] + patterns, patience: .seconds(60))
        var found: [String: String] = [:]
        for line in String(decoding: text, as: UTF8.self).split(separator: "\n") {
            let words = line.split(separator: "\t", maxSplits: 1)
            if words.count == 2 { found[String(words[1])] = String(words[0]) }
        }
        let order =
            reference.map { ["refs/heads/\($0)", "refs/tags/\($0)^{}", "refs/tags/\($0)", $0] } ?? ["HEAD"]
        guard let commit = order.lazy.compactMap({ found[$0] }).first else {
            let what = reference.map { "no branch or tag \(quoted($0))" } ?? "no commit"
            throw .lfs(.notThere, "\(repository) has \(what)")
        }
        guard LFSAddress.isObject(commit) else {
            throw .lfs(.badAnswer, "\(repository) names its objects by SHA-256, which syncagent cannot read")
        }
        return commit
    }

    /// Fetches a commit, its tree, and the small blobs in it. Only within ``withCopy(beginsAgain:_:)``.
    func fetch(_ commit: String, reference: String?) throws(PluginError) {
        func fetch(_ what: String) throws(PluginError) {
            _ = try run([
                "fetch", "--quiet", "--no-tags", "--depth=1", "--no-write-fetch-head", "--no-recurse-submodules",
                "--filter=blob:limit=\(Self.smallBlob)", "origin", "+\(what):refs/syncagent/\(commit)",
            ])
        }
        do throws(PluginError) { try fetch(commit) } catch {
            // Some servers only give what references name.
            guard let reference, error.message.contains("unadvertised object") || error.message.contains("not our ref")
            else { throw error }
            try fetch(reference)
        }
        let got = try run(["rev-parse", "--verify", "--quiet", "refs/syncagent/\(commit)^{commit}"])
        guard String(decoding: got, as: UTF8.self).hasPrefix(commit) else {
            throw .lfs(.unavailable, "\(repository) has changed meanwhile; pull again")
        }
        // References to earlier commits are removed.
        let names = try run(["for-each-ref", "--format=delete %(refname)", "refs/syncagent/"])
        let old = String(decoding: names, as: UTF8.self).split(separator: "\n").filter { !$0.hasSuffix(commit) }
        if !old.isEmpty {
            _ = try run(["update-ref", "--stdin"], reading: Array(old.map { $0 + "\n" }.joined().utf8))
        }
    }

    /// Writes blobs to a directory, each to a file of its name; those that are missing here are fetched in one request.
    func take(_ blobs: Set<String>, into directory: String) throws(PluginError) {
        try withCopy { () throws(PluginError) in
            let have = names(of: try run(["cat-file", "--batch-check=%(objectname)", "--batch-all-objects"]))
            let missing = blobs.subtracting(have).sorted()
            if !missing.isEmpty {
                let text = Array(missing.map { $0 + "\n" }.joined().utf8)
                _ = try run(
                    [
                        "-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", "--no-tags",
                        "--no-write-fetch-head",
                        "--no-recurse-submodules", "--filter=blob:none", "--stdin", "origin",
                    ], reading: text)
            }
            for name in blobs.sorted() {
                let bytes = try run(["cat-file", "blob", name])
                do throws(FileError) { try replaceFile("\(directory)/\(name)", with: bytes, isDurable: false) } catch {
                    throw .lfs(.unavailable, "\(error)")
                }
            }
        }
    }

    private func names(of text: [UInt8]) -> Set<String> {
        Set(String(decoding: text, as: UTF8.self).split(separator: "\n").map { String($0.prefix(40)) })
    }

    /// Runs git in the copy.
    func run(_ arguments: [String], reading input: [UInt8]? = nil, variables: [String] = []) throws(PluginError)
        -> [UInt8]
    {
        try git.run(arguments, in: directory, reading: input, variables: variables) {
            Self.size(of: directory) > 2 * Self.most
        }
    }

    /// Does something while nobody else changes the copy, which is made if it is not there, and made again, and the
    /// same done once more, if it cannot be used.
    ///
    /// - Parameter beginsAgain: Whether a copy that has become large is made anew.
    func withCopy<Value>(beginsAgain: Bool = false, _ body: () throws(PluginError) -> Value) throws(PluginError)
        -> Value
    {
        let lock = try lock()
        defer { withExtendedLifetime(lock) {} }
        removeLeftovers()
        let isLarge = { Self.size(of: directory) > Self.most || Self.packs(of: directory).count > Self.mostPacks }
        if beginsAgain, isLarge() { remove() }
        removeLocks()
        let isMade = exists(directory + "/syncagent.made")
        if !isMade {
            remove()
            try make()
        }
        do throws(PluginError) { return try body() } catch {
            // A copy that a power cut has damaged would be of no use for ever: where the repository can be asked, it is
            // made again.
            guard isMade, Self.mayBeOfDamage(error), (try? commit(nil)) != nil else { throw error }
        }
        remove()
        try make()
        return try body()
    }

    /// Whether a damaged copy can be why git failed: not where the network broke off, or the disk was full. To bring
    /// all of the repository again would not mend those.
    private static func mayBeOfDamage(_ error: PluginError) -> Bool {
        if error.message.contains("'origin'") { return true }
        let others = [
            "RPC failed", "unable to access", "hung up", "early EOF", "protocol error", "remote error", "No space left",
            "quota exceeded",
        ]
        return error.code == .unavailable && error.message.hasPrefix("git ")
            && !others.contains(where: error.message.contains)
    }

    /// The path of an index that is only needed for a moment.
    var indexPath: String { directory + "/syncagent.index" }

    func removeIndex() { removeFile(indexPath) }

    private func make() throws(PluginError) {
        _ = try git.run(["init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--", directory])
        for (key, value) in [
            ("remote.origin.url", repository), ("remote.origin.promisor", "true"),
            ("remote.origin.partialclonefilter", "blob:limit=\(Self.smallBlob)"),
            ("core.repositoryformatversion", "1"), ("extensions.partialClone", "origin"),
        ] { _ = try git.run(["config", key, value], in: directory) }
        do throws(FileError) { try replaceFile(directory + "/syncagent.made", with: [], isDurable: false) } catch {
            throw .lfs(.unavailable, "\(error)")
        }
    }

    /// Locks a copy against changes by others.
    ///
    /// - Parameter wait: Most **milliseconds** to wait for the holder of the lock.
    /// - Returns: `nil` when another process holds the lock.
    static func lock(_ path: String, _ flags: OpenFlags, wait: Int) throws(FileError) -> FileLock? {
        while true {
            let file = try openFile(path, flags, trust: .state)
            let opened = status(file.raw)
            if wait > 0 { _ = touch(file.raw) }
            guard let lock = try FileLock.take(file, path: path, wait: wait) else { return nil }
            let present = status(following: path)
            if let opened, present?.inode == opened.inode, present?.device == opened.device { return lock }
            // The former holder has removed the file with the copy: a lock on a file without a path keeps nobody out.
            guard wait > 0 else { return nil }
        }
    }

    private func lock() throws(PluginError) -> FileLock {
        do throws(FileError) {
            _ = try openPrivateDirectory(parent, create: true)
            if let lock = try Self.lock(directory + ".lock", [.readWrite, .create], wait: 120_000) { return lock }
        } catch { throw .lfs(.unavailable, "\(error)") }
        throw .lfs(.unavailable, "another process works on \(directory)")
    }

    /// Removes what a killed git has left: no other process is at work here.
    private func removeLocks() {
        for name in ["shallow.lock", "config.lock", "packed-refs.lock", "HEAD.lock", "syncagent.index.lock"] {
            removeFile("\(directory)/\(name)")
        }
        let references = directory + "/refs/syncagent"
        for name in ((try? directoryEntries(references)) ?? nil) ?? [] where name.hasSuffix(".lock") {
            removeFile("\(references)/\(name)")
        }
        for name in Self.packs(of: directory) where name.hasPrefix("tmp_") {
            removeFile("\(directory)/objects/pack/\(name)")
        }
    }

    private func remove() {
        if let open = openDirectory(parent) {
            removeTree(String(directory.dropFirst(parent.utf8.count + 1)), in: open.raw)
        }
    }

    /// A directory for files that are taken out of a copy; the caller removes it.
    package static func makeDirectory(_ stateDirectory: String) throws(PluginError) -> String {
        do throws(FileError) { _ = try openPrivateDirectory(stateDirectory + "/git", create: true) } catch {
            throw .lfs(.unavailable, "\(error)")
        }
        guard let path = makeTemporaryDirectory("\(stateDirectory)/git/\(taken)") else {
            throw .lfs(.unavailable, "\(stateDirectory)/git: \(errnoText)")
        }
        return path
    }

    private static let taken = "take-"

    /// Removes such directories of killed processes after a day, and copies that were not used for a month.
    private func removeLeftovers() {
        guard let open = openDirectory(parent) else { return }
        let day: Int64 = 86_400_000
        for name in (try? directoryEntries(open.raw)) ?? [] where name.hasPrefix(Self.taken) {
            let found = status(following: "\(parent)/\(name)")
            if let found, found.modified / 1_000_000 < now() - day { removeTree(name, in: open.raw) }
        }
        _ = Self.removeCopies(in: parent, open.raw, unusedSince: now() - 30 * day, keeping: [], isDryRun: false)
    }

    /// Removes copies that are not of any of some sources, and were not used in the last hour.
    ///
    /// - Parameters:
    ///   - locations: The sources of the sets that were pulled; not all are repositories.
    ///   - now: **Milliseconds** since 1970.
    ///   - isDryRun: Whether they are only counted.
    /// - Returns: The number of copies, and their **bytes** in packs.
    package static func collect(
        in stateDirectory: String, keeping locations: [String], now: Int64, isDryRun: Bool
    ) -> (copies: Int, bytes: UInt64) {
        let parent = stateDirectory + "/git"
        guard let open = openDirectory(parent) else { return (0, 0) }
        let needed = Set(
            locations.compactMap { location in (try? LFSAddress(location)).flatMap { try? name(of: $0.repository) } })
        return removeCopies(in: parent, open.raw, unusedSince: now - 3_600_000, keeping: needed, isDryRun: isDryRun)
    }

    /// Removes copies, with their locks, that were not used since a time, in **milliseconds** since 1970, and are not
    /// in use now.
    private static func removeCopies(
        in parent: String, _ open: Int32, unusedSince time: Int64, keeping needed: Set<String>, isDryRun: Bool
    ) -> (copies: Int, bytes: UInt64) {
        var (copies, bytes) = (0, UInt64(0))
        for file in (try? directoryEntries(open)) ?? [] where file.hasSuffix(".git.lock") {
            let name = String(file.dropLast(".lock".utf8.count))
            guard !needed.contains(name), let found = status(following: "\(parent)/\(file)"),
                found.modified / 1_000_000 < time, let lock = try? lock("\(parent)/\(file)", .readWrite, wait: 0)
            else { continue }
            copies += 1
            bytes &+= size(of: "\(parent)/\(name)")
            if !isDryRun {
                removeTree(name, in: open)
                removeFile(file, in: open)
            }
            withExtendedLifetime(lock) {}
        }
        return (copies, bytes)
    }

    private static func packs(of directory: String) -> [String] {
        ((try? directoryEntries(directory + "/objects/pack")) ?? nil) ?? []
    }

    /// **Bytes** in packs, those that are being received included.
    private static func size(of directory: String) -> UInt64 {
        packs(of: directory).reduce(0) { $0 &+ (status(following: "\(directory)/objects/pack/\($1)")?.size ?? 0) }
    }
}
