import SyncManifest
import SyncModel
package import SyncPlugins

/// Makes a manifest of a git repository with large files in LFS: the tree of a commit, with URLs for its files.
package struct LFSSource: SetSource {
    private let environment: [String: String]
    private let stateDirectory: String
    private let now: @Sendable () -> Int64
    private let isStopped: @Sendable () -> Bool

    /// - Parameters:
    ///   - environment: This process's variables.
    ///   - stateDirectory: Absolute; a partial copy of the repository is kept below.
    ///   - now: **Milliseconds** since 1970.
    ///   - isStopped: Called several times a second.
    package init(
        _ environment: [String: String], stateDirectory: String, now: @escaping @Sendable () -> Int64,
        isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.environment, self.stateDirectory, self.now) = (environment, stateDirectory, now)
        self.isStopped = isStopped
    }

    package func manifest(of url: String, known: String?) throws(PluginError) -> SourceAnswer {
        let address = try LFSAddress(url)
        let git = try Git(environment, isStopped: isStopped)
        let store = try GitStore(address.repository, git, stateDirectory: stateDirectory, now: now)
        let commit = try address.isCommit ? address.reference ?? "" : store.commit(address.reference)
        if commit == known { return .unchanged }
        let listing = try store.withCopy(beginsAgain: true) { () throws(PluginError) in
            try store.fetch(commit, reference: address.isCommit ? nil : address.reference ?? "HEAD")
            return try GitTree(store, commit).listing(address)
        }
        let source = SourceOrigin(kind: LFSAddress.name, url: url, at: commit)
        return .manifest(listing.manifest(project: address.project, source))
    }
}

/// The tree of a commit, as a partial copy of its repository has it.
private struct GitTree {
    private let store: GitStore
    private let commit: String

    private struct Entry {
        let mode: Substring
        let name: String
        let path: [UInt8]
    }

    /// Blobs that are read by one call of git: a pointer each.
    private static let group = 50_000

    init(_ store: GitStore, _ commit: String) { (self.store, self.commit) = (store, commit) }

    func listing(_ address: LFSAddress) throws(PluginError) -> SourceListing {
        let entries = try entries()
        let sizes = try sizes()
        let endpoint = try endpoint(address, entries)
        let pointers = try pointers(entries, sizes)
        var listing = SourceListing()
        do throws(ListingError) {
            for entry in entries {
                // Links follow below. A repository within the repository is left out: it is empty in a clone.
                guard entry.mode.hasPrefix("100") else { continue }
                let large = pointers[entry.path]
                var file = SourceListing.File(path: entry.path)
                if let large {
                    file.size = large.size
                    file.digest = (.sha256, large.sha256)
                    file.urls = [LFSObject.large(endpoint: endpoint, sha256: large.sha256, size: large.size).url]
                } else {
                    file.size = sizes[entry.name]
                    file.digest = (.gitSHA1, entry.name)
                    file.urls = [LFSObject.plain(repository: store.repository, name: entry.name).url]
                }
                // An empty file need not be fetched.
                if file.size == 0 { file.digest = (.sha256, SHA256Digest.ofNothing.hex) }
                file.isExecutable = entry.mode == "100755"
                try listing.add(file, at: "")
            }
        } catch { throw .lfs(.badAnswer, "\(error)") }
        let links = entries.filter { $0.mode == "120000" }
        let targets = try contents(links.map(\.name))
        do throws(ListingError) {
            for link in links {
                guard let target = targets[link.name] else {
                    throw ListingError("", "\(shown(link.path)) is a link that git does not give")
                }
                try listing.add(SourceListing.File(path: link.path, target: target), at: "")
            }
        } catch { throw .lfs(.badAnswer, "\(error)") }
        return listing
    }

    private func entries() throws(PluginError) -> [Entry] {
        let text = try store.run(["ls-tree", "-r", "-z", "--full-tree", commit])
        var entries: [Entry] = []
        for line in text.split(separator: 0) {
            guard let tab = line.firstIndex(of: 0x09) else { continue }
            let words = String(decoding: line[..<tab], as: UTF8.self).split(separator: " ")
            guard words.count == 3 else { continue }
            entries.append(Entry(mode: words[0], name: String(words[2]), path: Array(line[line.index(after: tab)...])))
        }
        return entries
    }

    /// The sizes of the blobs in the local copy, which has all the small ones.
    private func sizes() throws(PluginError) -> [String: UInt64] {
        let format = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
        let text = try store.run(["cat-file", format, "--batch-all-objects"])
        var sizes: [String: UInt64] = [:]
        for line in text.split(separator: 0x0A) {
            let words = String(decoding: line, as: UTF8.self).split(separator: " ")
            if words.count == 3, words[1] == "blob" { sizes[String(words[0])] = UInt64(words[2]) }
        }
        return sizes
    }

    /// The contents of short blobs, by name.
    private func contents(_ names: [String]) throws(PluginError) -> [String: [UInt8]] {
        var found: [String: [UInt8]] = [:]
        let unique = Array(Set(names)).sorted()
        var rest = unique[...]
        while !rest.isEmpty {
            let part = rest.prefix(Self.group)
            rest = rest.dropFirst(part.count)
            let text = try store.run(
                ["cat-file", "--batch"], reading: Array(part.map { $0 + "\n" }.joined().utf8))[...]
            var place = text.startIndex
            while place < text.endIndex {
                guard let end = text[place...].firstIndex(of: 0x0A) else { break }
                let words = String(decoding: text[place..<end], as: UTF8.self).split(separator: " ")
                place = end + 1
                guard words.count == 3, let size = Int(words[2]), size >= 0, size < text.endIndex - place else {
                    // `NAME missing`
                    continue
                }
                found[String(words[0])] = Array(text[place..<(place + size)])
                place += size + 1
            }
        }
        return found
    }

    /// Files in LFS, by path: pointers whose attributes in the tree say so.
    private func pointers(_ entries: [Entry], _ sizes: [String: UInt64]) throws(PluginError) -> [[UInt8]: LFSPointer] {
        let short = entries.filter { entry in
            entry.mode.hasPrefix("100") && sizes[entry.name].map { $0 > 0 && $0 < UInt64(LFSPointer.limit) } ?? false
        }
        guard !short.isEmpty else { return [:] }
        let texts = try contents(short.map(\.name))
        var found: [[UInt8]: LFSPointer] = [:]
        for entry in short { found[entry.path] = texts[entry.name].flatMap { LFSPointer($0) } }
        guard !found.isEmpty else { return [:] }
        let filtered = try filtered(Array(found.keys))
        found = found.filter { filtered.contains($0.key) }
        if let path = found.first(where: \.value.isExtended)?.key {
            throw .lfs(.badAnswer, "\(shown(path)) is in LFS with an extension, which syncagent cannot undo")
        }
        return found
    }

    /// Those of some paths whose attribute `filter` is `lfs`.
    private func filtered(_ paths: [[UInt8]]) throws(PluginError) -> Set<[UInt8]> {
        // Attributes are read from an index, since a bare repository has no files.
        let index = ["GIT_INDEX_FILE=\(store.indexPath)"]
        defer { store.removeIndex() }
        _ = try store.run(["read-tree", commit], variables: index)
        let input = Array(paths.map { $0 + [0] }.joined())
        let text = try store.run(
            ["check-attr", "--cached", "--stdin", "-z", "filter"], reading: input, variables: index)
        let fields = text.split(separator: 0, omittingEmptySubsequences: false)
        var found: Set<[UInt8]> = []
        for place in stride(from: 0, to: fields.count - 2, by: 3) where fields[place + 2].elementsEqual("lfs".utf8) {
            found.insert(Array(fields[place]))
        }
        return found
    }

    /// The server of large files: the one that `.lfsconfig` names, or else the usual one.
    private func endpoint(_ address: LFSAddress, _ entries: [Entry]) throws(PluginError) -> String {
        guard entries.contains(where: { $0.path.elementsEqual(".lfsconfig".utf8) && $0.mode.hasPrefix("100") }) else {
            return address.endpoint
        }
        let text: [UInt8]
        do throws(PluginError) {
            // What it includes would be files of this machine.
            text = try store.run(["config", "--no-includes", "--blob", "\(commit):.lfsconfig", "-z", "--list"])
        } catch {
            guard error.message.contains("bad config") else { throw error }
            throw .lfs(.badAnswer, "its .lfsconfig cannot be read: \(error.message)")
        }
        let url = text.split(separator: 0).lazy.map { String(decoding: $0, as: UTF8.self) }.last {
            $0.hasPrefix("lfs.url\n")
        }?.dropFirst("lfs.url\n".count)
        guard let url else { return address.endpoint }
        let named = urlScheme(of: String(url))
        let isSame = named == urlScheme(of: address.repository) || named == "https"
        guard let scheme = named, webSchemes.contains(scheme), isSame, !address.repository.hasPrefix("file:"),
            !url.contains(where: { "?#@ ".contains($0) })
        else {
            throw .lfs(
                .badAnswer,
                "its .lfsconfig names the LFS server \(redacted(url: String(url))), which syncagent does not ask")
        }
        return String(url.reversed().drop { $0 == "/" }.reversed())
    }

    private func shown(_ path: [UInt8]) -> String { quoted(String(decoding: path, as: UTF8.self)) }
}
