/// Everything that a run needs, in one value: what is pulled and to where, with which hooks, how, when and for whom.
///
/// One function makes it from the command line, the configuration file and the environment; the manifest adds its
/// hooks. Commands pass it to the engine, clients to the agent (`POST /v1/runs`), schedules store it, and the store
/// records it with the run. A new property is in all of them at once.
public struct RunRecipe: Sendable, Equatable, Codable {
    /// The requester: runs that a hook requests are delayed by the launch limiter.
    public enum Origin: String, Sendable, Codable, HasDefault {
        case interactive
        case hook
        case schedule

        /// A person.
        public init() { self = .interactive }
    }

    /// The group that every run has, with all files. No manifest may declare it.
    public static let groupOfAll = "all"

    /// An absolute path, or a URL: of a manifest, or of a listing from which one can be made.
    @Omittable public var manifest = ""
    /// The URL to which the names of a checksum list are relative; `nil` for the list's own location.
    public var base: String?
    /// The destination; `nil` for `./<project>`. Absolute if another process does the work.
    public var destination: String?
    /// The session's name; `nil` for the manifest's project.
    public var session: String?
    /// Only these groups; empty for all.
    @Omittable public var groups: [String] = []
    /// Of those, only files that match one of these patterns, by their path or a directory above it; empty for all.
    @Omittable public var include: [String] = []
    /// Excludes files that match one of these patterns.
    @Omittable public var exclude: [String] = []
    /// Programs to run when groups are complete.
    @Omittable public var hooks: [RunHook] = []
    /// Programs to which every file is shown before it is installed: each as argv with an absolute path first. They
    /// answer by their exit status.
    @Omittable public var verifiers: [[String]] = []
    /// The shard of the set that is wanted, such as `3/16`, while other machines fetch theirs; `nil` for all of it.
    public var shard: String?
    /// The number of shards that must be here; the run completes them. `nil` for a set without shards.
    public var join: Int?
    /// The wanted channel; `nil` for the default one.
    public var channel: String?
    /// The wanted revision; `nil` for the newest of the channel.
    public var revision: UInt64?
    /// Whether to remove files that an earlier pull installed and this manifest no longer has.
    @Omittable public var prune = false
    /// Whether to prune even if more than half of the installed files are removed.
    @Omittable public var force = false
    /// Largest number of files to prune, even with ``force``; `nil` for no such limit.
    public var maxDelete: Int?
    /// How the set becomes visible as a whole; `nil` for file by file, or for the destination's recorded setting.
    public var atomic: AtomicSwitch?
    /// Whether it shows an earlier tree again, the one with ``manifest``'s recorded digest: hooks are informed.
    @Omittable public var rollback = false
    /// Directory for backups of removed and replaced files, absolute; `nil` for none.
    public var backupDir: String?
    /// The umask for files and directories, unless the manifest records their modes; `nil` for that of the process that
    /// does the work.
    public var umask: Umask?
    /// Whether to install a manifest whose revision is older than the installed one.
    @Omittable public var allowOlder = false
    /// The trust anchor of the project: the absolute path of a root's file, `SHA256:HEX` of one, or `first`; `nil` to
    /// use the existing pins. The resulting pin is stored, so that the anchor is not needed again; a schedule, which
    /// may outlive the pin, names the root itself.
    public var trust: String?
    /// How many **seconds** after its expiry a signed statement is still accepted; `nil` for 0.
    public var staleSeconds: Int64?
    /// Earliest start.
    public var notBefore: WallTime?
    /// Longest time in **seconds** from when the run may start to its end; `nil` for 7 days.
    public var deadlineSeconds: Int64?
    /// Whether to enqueue it only; `resume` starts it.
    @Omittable public var paused = false
    /// The requester.
    @Omittable public var origin = Origin.interactive
    /// The run whose hook requested this one, if any: its session's hooks are delayed, too.
    public var originRun: String?
    /// The client's transfer settings. If another process does the work, the tighter of these and its own limits apply.
    @Omittable public var settings = TransferSettings()
    /// Replaces the configuration of the process that does the work, if the client named a file, or none.
    public var configuration: RunConfiguration?
    /// Free text for people, at most 4 KiB.
    public var label: String?
    /// Passed unchanged to hooks, observers and reports; at most ``longestUserData`` **bytes** as text.
    public var userData: JSONValue?
    /// The **bytes** that the client expects, for display; `nil` for those in the plan.
    public var expectedBytes: UInt64?
    /// The conditions under which it proceeds.
    @Omittable public var conditions = RunConditions()

    /// Whether patterns decide which files are wanted: then no group of the manifest is complete but “all”, which
    /// consists of the requested files.
    package var hasPatterns: Bool { !include.isEmpty || !exclude.isEmpty }

    /// Why the name of a session is invalid; `nil` if it is valid. The rule is that of a manifest's `project`.
    package static func objection(toSession name: String) -> String? {
        if isIdentifier(name) { return nil }
        return
            "1 to 255 letters, digits, '.', '_', '-' and ':' are expected, not beginning with '.', '-' or ':'; not '\(escaped(name))'"
    }

    /// Whether text is 1 to 255 ASCII letters, digits, `.`, `_`, `-` and `:`, beginning with a letter, a digit or `_`.
    package static func isIdentifier(_ text: String) -> Bool {
        guard text.utf8.count <= 255, let first = text.utf8.first, isAlphanumeric(first) || first == 0x5F else {
            return false
        }
        return text.utf8.allSatisfy { isAlphanumeric($0) || $0 == 0x2E || $0 == 0x5F || $0 == 0x2D || $0 == 0x3A }
    }

    /// Longest ``userData`` as text, in **bytes**.
    package static let longestUserData = 64 << 10

    /// A request for all files of a manifest; see the properties.
    public init(manifest: String, destination: String? = nil) {
        (self.manifest, self.destination) = (manifest, destination)
    }
}

/// Replaces the agent's own configuration and environment; the transfer settings are then complete.
public struct RunConfiguration: Sendable, Equatable, Codable {
    /// The configuration file with the plugins, absolute; `nil` for none. Its text is not stored.
    public var file: String?
    /// The programs that hook names in manifests refer to.
    public var hooks: [String: RunHook]

    /// See the properties.
    public init(file: String?, hooks: [String: RunHook]) {
        self.file = file
        self.hooks = hooks
    }
}

/// A program to run when a group is complete.
public struct RunHook: Sendable, Hashable, Codable {
    /// The group whose completion starts it.
    public var group: String
    /// argv, an absolute path first; never a shell string.
    public var arguments: [String]
    /// Longest run time in **seconds**.
    public var timeout: Int
    /// The results for which it runs.
    public let results: [RunResult]
    /// Most files per call, 1...10,000, for a hook that receives the changed files; `nil` for one call per group.
    public var batch: Int?

    /// The valid range of ``batch``.
    package static let batches = 1...10_000
    /// The valid range of ``timeout``: up to 366 days. At 0 every hook would be ended at once.
    package static let timeouts = 1...366 * 86_400

    /// Makes a hook; by default, it runs for every result.
    public init(
        group: String = RunRecipe.groupOfAll, arguments: [String], timeout: Int = 600,
        results: some Sequence<RunResult> = RunResult.allCases, batch: Int? = nil
    ) {
        (self.group, self.arguments, self.timeout) = (group, arguments, timeout)
        let wanted = Set(results)
        self.results = RunResult.allCases.filter(wanted.contains)
        self.batch = batch
    }

    /// Decodes a hook; only `arguments` is required.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            group: try values.decodeIfPresent(String.self, forKey: .group) ?? RunRecipe.groupOfAll,
            arguments: try values.decode([String].self, forKey: .arguments),
            timeout: try values.decodeIfPresent(Int.self, forKey: .timeout) ?? 600,
            results: try values.decodeIfPresent([RunResult].self, forKey: .results) ?? RunResult.allCases,
            batch: try values.decodeIfPresent(Int.self, forKey: .batch))
    }
}

/// A property that JSON omits while it has its default: `false`, `[]`, empty conditions.
@propertyWrapper
public struct Omittable<Value: Codable & Equatable & Sendable & HasDefault>: Codable, Equatable, Sendable {
    /// The property.
    public var wrappedValue: Value

    /// Wraps a value.
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    /// Decodes the value alone.
    public init(from decoder: any Decoder) throws { wrappedValue = try Value(from: decoder) }

    /// Encodes the value alone.
    public func encode(to encoder: any Encoder) throws { try wrappedValue.encode(to: encoder) }
}

/// A type with a default value.
public protocol HasDefault {
    /// Makes the default value.
    init()
}

extension Bool: HasDefault {}
extension String: HasDefault {}
extension Array: HasDefault {}

// Called by the synthesized code of types with such properties.
extension KeyedDecodingContainer {
    package func decode<Value>(_: Omittable<Value>.Type, forKey key: Key) throws -> Omittable<Value> {
        Omittable(wrappedValue: try decodeIfPresent(Value.self, forKey: key) ?? Value())
    }
}

extension KeyedEncodingContainer {
    package mutating func encode<Value>(_ value: Omittable<Value>, forKey key: Key) throws {
        if value.wrappedValue != Value() { try encode(value.wrappedValue, forKey: key) }
    }
}

/// The origin of a set that was not published as a manifest: `source` of a manifest that was derived from a listing.
public struct SourceOrigin: Sendable, Equatable, Codable {
    /// The kind of listing, such as `sums`, `metalink` or `hf`; otherwise the scheme of a source plugin.
    public var kind: String
    /// The URL of the listing as requested, without secrets.
    public var url: String
    /// The state of the listing: a commit, a digest.
    public var at: String

    /// See the properties.
    public init(kind: String, url: String, at: String) { (self.kind, self.url, self.at) = (kind, url, at) }

    /// On one line for people: `hf, hf://acme/site, at 5f0c…`.
    package var shown: String { "\(escaped(kind)), \(escaped(url)), at \(escaped(String(at.prefix(80))))" }
}

extension JSONLine {
    /// `"source": {"kind": …, "url": …, "at": …}`, if there is one.
    package mutating func field(_ source: SourceOrigin?) {
        guard let source else { return }
        object("source") {
            $0.field("kind", source.kind)
            $0.field("url", source.url)
            $0.field("at", source.at)
        }
    }
}

/// How a destination changes from one whole set to the next.
public struct AtomicSwitch: Sendable, Equatable, Codable {
    /// What the destination is for readers.
    public enum Layout: String, Sendable, Equatable, Codable, CaseIterable {
        /// The destination is a directory, and is exchanged with the new one. renameat2(2), RENAME_EXCHANGE
        case exchange
        /// Each name at the top of the destination is a symbolic link through a link to the tree; the latter is
        /// replaced. rename(2)
        case links
    }

    /// `nil` for the first that the destination allows.
    public var layout: Layout?
    /// Number of former trees that are kept, at least 1; `nil` for 1.
    public var keep: Int?
    /// Shortest time in **seconds** for which a former tree is kept; `nil` for an hour.
    public var keepSeconds: Int64?
    /// A program that checks the new tree before readers see it: argv, an absolute path first. The tree is shown only
    /// if it exits with 0.
    @Omittable public var check: [String] = []
    /// Whether files that no pull has installed are carried over to the new tree.
    @Omittable public var keepForeign = false
    /// Earliest time to show it; `nil` for as soon as it is complete.
    public var notBefore: WallTime?

    /// A switch as soon as the set is complete, in the layout that the destination allows.
    public init() {}

    /// Number of former trees that are kept.
    package var kept: Int { max(1, keep ?? 1) }
    /// The valid range of ``keep``.
    package static let keeps = 1...100
    /// Shortest time in **milliseconds** for which a former tree is kept.
    package var leastAge: Int64 {
        let (all, isLong) = max(0, keepSeconds ?? 3_600).multipliedReportingOverflow(by: 1_000)
        return isLong ? .max : all
    }
}
