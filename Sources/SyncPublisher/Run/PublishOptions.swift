package import SyncManifest
import SyncModel

/// What to publish, where to, and how.
///
/// Equal options and an equal source tree give equal bytes, whatever ``jobs`` is.
package struct PublishOptions: Sendable {
    /// The directory whose files are published.
    package var directory: String

    /// The directory that receives `manifest.json`, `manifest.json.zst` and `packs/`. Made when missing.
    package var output: String

    /// The store that receives them in place of a directory; ``output`` is its URL then.
    package var home: HomePlace?

    /// Reverse-DNS name of the project; `nil` takes the base's, then that of the set in the output, then the
    /// directory's own.
    package var project: String?

    /// The publisher's counter; `nil` is the highest known one plus one. Must be above those of the base and the
    /// output.
    package var revision: UInt64?

    /// When this is published, RFC 3339; `nil` leaves the member out. When nothing changed since the base,
    /// the base's own time and revision stay, so that the manifest is the same byte for byte.
    package var created: String?

    /// A pack is closed before it would grow past this many **bytes**.
    package var packSize: UInt64 = 32 << 20

    /// zstd's level, 1...19.
    package var level: Int32 = 3

    /// Files of more **bytes** than this are cut into chunks; others are one blob.
    package var chunkThreshold: Int = 1 << 20

    /// Where chunks end.
    package var chunks = ChunkParameters()

    /// The manifest whose packs are reused.
    package var base = Base.inOutput

    /// Whether packs of which more than a fifth is dead are rewritten, and small ones joined.
    package var repack = false

    /// How many of the newest releases are kept once this one is complete, as by ``Prune``; `nil` keeps all.
    package var retain: Int?

    /// Whether deltas are made for readers that have the base: changed blobs a second time, against the file's former
    /// version.
    package var deltas = true

    /// Whether blobs are made with a dictionary.
    package var dictionary = DictionaryUse.automatic

    /// Whether the manifest names parts in place of its entries; `nil` decides by ``mostEntriesOfOneText``, or for a
    /// store by ``mostEntriesOfOneTextAway``.
    package var isInParts: Bool?

    /// Workers that hash and compress.
    package var jobs = 1

    /// Groups to declare, in this order; `nil` for those of the base.
    package var groups: [Manifest.Group]?

    /// Further URLs of the output directory; `nil` for those of the base.
    package var mirrors: [String]?

    /// The URL of the files as they are, to which their paths are appended: absolute, or relative to the manifest.
    /// Empty for none; `nil` for that of the base.
    package var filesURL: String?

    /// Whether files stay as they are: no packs, and a URL for each file. `nil` for what the base does.
    package var isLoose: Bool?

    /// Patterns of paths that are left out, as in groups; a directory goes with all that is in it.
    package var exclude: [String] = []

    /// Files of patterns as in gitignore(5); every `.syncignore` in the tree takes precedence over them.
    package var excludeFrom: [String] = []

    /// The texts of such files that were read already, with their names; ``excludeFrom`` takes precedence over them.
    package var givenPatterns: [(name: String, text: [UInt8])] = []

    /// The limits that readers have for groups' patterns; they also apply to exclusion patterns.
    package var limits = ManifestLimits.standard

    /// Probable mistakes that are permitted.
    package var permits: Permits = []

    /// The traits of files and directories that are kept besides their content; `nil` for the same traits as in the
    /// base.
    package var preserve: KeptTraits?

    /// Whether ``preview(isCancelled:progress:)`` also lists files that are as in the base.
    package var listsUnchanged = false

    /// Paths in the source that are not published, since they say how to publish it.
    package var ownNames: Set<String> = []

    /// Whether links that leave the tree are left out, instead of refusing the set.
    package var leavesOutUnsafeLinks = false

    /// The file that keeps the stamps of files, so that unchanged files are not read again; `nil` reads all.
    ///
    /// A file counts as untouched when size, inode, mtime and ctime are those of the last time, and it was old
    /// enough then.
    package var stampCache: String?

    /// Whether to trust ``stampCache``; if not, every file is read, and it is written anew.
    package var trustsStamps = true

    /// When the run begins, **nanoseconds** since 1970; without it nothing is written to ``stampCache``.
    package var now: Int64?

    /// The keys that sign the release; `nil` for an unsigned one.
    package var signing: Signing?

    /// The channel that points at the release from now on; `nil` for the default one, `manifest.json`.
    package var channel: String?

    /// Whether every release is kept, so that channels can point at it. Once on, it stays on.
    package var keepsReleases = false

    /// The piece of the work that this process does; `nil` for all of it.
    package var shards: ShardWork?

    /// The prefix of `<sha256>.pack` in a pack's URL; relative to the manifest's own.
    package var packURLPrefix = "packs/"

    /// What a manifest can keep of files and directories besides their content.
    package struct KeptTraits: OptionSet, Sendable {
        package let rawValue: UInt8
        package static let times = KeptTraits(rawValue: 1)
        package static let modes = KeptTraits(rawValue: 2)

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The words for users, in one order.
        package static let words: [(word: String, trait: KeptTraits)] = [("times", .times), ("modes", .modes)]

        /// Reads words; `nil` when one is none of ``words``.
        package init?(words: some Sequence<some StringProtocol>) {
            var traits: KeptTraits = []
            for word in words {
                guard let known = Self.words.first(where: { $0.word == word }) else { return nil }
                traits.insert(known.trait)
            }
            self = traits
        }

        /// `times,modes`
        package var text: String { Self.words.filter { contains($0.trait) }.map(\.word).joined(separator: ",") }
    }

    /// What is refused, or left out, unless an option permits it.
    package struct Permits: OptionSet, Sendable {
        package let rawValue: UInt16
        /// Files that are private keys.
        package static let privateKeys = Permits(rawValue: 1)
        /// What version control keeps: `.git`, `.hg`, `.svn`.
        package static let versionControl = Permits(rawValue: 2)
        /// An unsigned release over a signed one.
        package static let unsigned = Permits(rawValue: 4)
        /// Keys that the published chain of roots does not lead to.
        package static let otherKeys = Permits(rawValue: 8)
        /// A source without files, or with less than half of the base's.
        package static let fewerFiles = Permits(rawValue: 16)
        /// Another project's name for the set in the output.
        package static let otherProject = Permits(rawValue: 32)
        /// To sign a release whose base this machine has neither signed itself nor can check.
        package static let foreignBase = Permits(rawValue: 64)
        /// To sign packs of the base that are not on this machine, so that nobody has read them.
        package static let unreadPacks = Permits(rawValue: 128)
        /// To sign what shards have put into a store, where others could have changed it.
        package static let storedShards = Permits(rawValue: 256)

        package init(rawValue: UInt16) { self.rawValue = rawValue }
    }

    /// When blobs are made with a dictionary.
    package enum DictionaryUse: String, Sendable, Equatable, CaseIterable {
        /// The base's; a new one where it saves 4 MiB and 4 %.
        case automatic = "auto"
        /// Wherever one can be made.
        case always
        /// For no new blob.
        case never
    }

    /// Up to this many entries the manifest is one text: about **10 MB** at most, **3 MB** compressed, which every
    /// update reads again.
    package static let mostEntriesOfOneText = 50_000

    /// The same for a manifest that goes to a store: each publish sends it and reads it again.
    package static let mostEntriesOfOneTextAway = 500

    /// The manifest whose packs are reused.
    package enum Base: Sendable, Equatable {
        /// None: every blob is written.
        case none
        /// `manifest.json` of the output directory when there is one; packs missing there are made again.
        case inOutput
        /// A file. Packs that are neither beside it nor in the output are assumed to be on the server, or, where the
        /// output is a store, made again.
        case manifest(String)
        /// A manifest on a server. Packs that are not in the output stay there, or, where the output is a store that
        /// cannot take them, or the server a registry and the output a directory, are made again.
        case served(ServedBase)
    }

    /// Options with defaults for one directory.
    package init(directory: String, output: String) {
        (self.directory, self.output) = (directory, output)
    }

    /// The largest revision: a signed 64-bit number, as every JSON reader that keeps integers has it.
    static let lastRevision = UInt64(Int64.max)

    /// How many releases can be kept.
    package static let retained = 1...1_000_000

    /// How far a base's revision may be above the last one that this machine has signed, unless the next one is given.
    static let mostRevisionsAtOnce: UInt64 = 1_000_000

    /// Throws an error for people about the first option that makes no sense.
    package func check() throws(PublishError) {
        guard (1...19).contains(level) else { throw .usage("the compression level is \(level)", "choose 1 to 19") }
        guard (1...256).contains(jobs) else { throw .usage("the number of jobs is \(jobs)", "choose 1 to 256") }
        guard (1...(1 << 40)).contains(packSize) else {
            throw .usage("the pack size is \(packSize)", "choose 1 byte to 1 TiB")
        }
        guard (1...(64 << 20)).contains(chunkThreshold) else {
            throw .usage("the chunk threshold is \(chunkThreshold)", "choose 1 byte to 64 MiB")
        }
        guard chunks.isValid else {
            throw .usage(
                "chunks of \(chunks.minimum)/\(chunks.average)/\(chunks.maximum) bytes are not possible",
                "choose minimum ≤ average ≤ maximum, from 64 bytes to 16 MiB")
        }
        guard retain.map({ Self.retained.contains($0) }) ?? true else {
            throw .usage(
                "the number of releases to retain is \(retain ?? 0)", "choose 1 to \(Self.retained.upperBound)")
        }
        guard revision.map({ (1...Self.lastRevision).contains($0) }) ?? true else {
            throw .usage("the revision is out of range", "choose 1 to \(Self.lastRevision)")
        }
        if permits.contains(.otherProject), signing != nil {
            throw .usage(
                "keys are of one project, and a signed set keeps its name",
                "leave --rename out, name another output directory, and sign with keys of the new project; there, --base with the "
                    + "manifest of the old one and --accept-base reuse its packs")
        }
        if let created, let reason = ManifestRules.objection(time: created) { throw .usage(reason, "correct the time") }
        if let reason = ManifestRules.objection(url: packURLPrefix + "x.pack") {
            throw .usage(reason, "correct the packs' URL prefix")
        }
        for pattern in exclude {
            let components = pattern.split(separator: "/", omittingEmptySubsequences: false)
            guard !components.contains(where: { ["", ".", ".."].contains($0) }) else {
                throw .usage(
                    "the pattern \(shown(pattern)) matches no path",
                    "write it relative to the directory, without “.” and “..” and without a “/” at either end")
            }
        }
        for url in mirrors ?? [] { _ = try Self.prefix(url, option: "the mirror", mayBeRelative: false) }
        if let filesURL, !filesURL.isEmpty {
            _ = try Self.prefix(filesURL, option: "the files' URL", mayBeRelative: true)
        }
        try checkGroups()
    }

    private func checkGroups() throws(PublishError) {
        var names: Set<String> = []
        guard groups?.count ?? 0 <= limits.groups else {
            throw .usage("there are \(groups?.count ?? 0) groups", "a manifest has at most \(limits.groups)")
        }
        for group in groups ?? [] {
            guard group.include.count <= limits.patternsPerGroup else {
                throw .usage(
                    "the group \(shown(group.name)) has \(group.include.count) patterns",
                    "a manifest has at most \(limits.patternsPerGroup) for a group")
            }
            var reason = ManifestRules.objection(identifier: group.name, what: "group name")
            if group.name == RunRecipe.groupOfAll { reason = "the group name “all” is taken: every run has it" }
            if !names.insert(group.name).inserted { reason = "the group \(shown(group.name)) is declared twice" }
            for pattern in group.include {
                let fault = Array(pattern.utf8).withUnsafeBufferPointer { ManifestRules.objection(path: $0) }
                reason = reason ?? fault.map { "group \(shown(group.name)): \($0)" }
            }
            for hook in group.hooks { reason = reason ?? ManifestRules.objection(identifier: hook, what: "hook name") }
            if let reason { throw .usage(reason, "correct the group") }
        }
    }

    /// Checks a user's URL for the place of files, and adds a final `/`. A relative URL resolves against the
    /// manifest's.
    static func prefix(_ url: String, option: String, mayBeRelative: Bool) throws(PublishError) -> String {
        func refusal(_ reason: String, _ remedy: String) -> PublishError {
            .usage("\(option) \(redacted(url: url)): \(reason)", remedy)
        }
        let example = "https://mirror.example.net/tower/"
        guard !url.isEmpty else { throw refusal("the URL is empty", "write one such as \(example)") }
        if url.contains("?") {
            throw refusal(
                "a query cannot be followed by the path of a file",
                "leave it out; machines that pull can add one with --rewrite")
        }
        let prefix = url.hasSuffix("/") ? url : url + "/"
        if let reason = ManifestRules.objection(url: url) ?? ManifestRules.objection(url: prefix + "x") {
            throw refusal(reason, "write one such as \(example)")
        }
        let isAbsolute = ["//", "http://", "https://"].contains { prefix.lowercased().hasPrefix($0) }
        guard mayBeRelative || isAbsolute else {
            throw refusal("a mirror is on another server, and this URL has no host", "write one such as \(example)")
        }
        return prefix
    }
}
