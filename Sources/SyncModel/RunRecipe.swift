/// Everything a run needs, in one value: what is pulled and to where, with which hooks, how, when and for whom.
///
/// One function makes it from the command line, the configuration file and the environment; the manifest adds its hooks.
/// Commands hand it to the engine, clients to the agent (`POST /v1/runs`), schedules keep it for the night, and the store
/// keeps it with the run. A new property is in all of them at once: JSON leaves out what is not said, so that older
/// programs take what they know.
public struct RunRecipe: Sendable, Equatable, Codable {
    /// Who asks: work that a hook asks for is held back by the launch limiter.
    public enum Origin: String, Sendable, Codable, HasDefault {
        case interactive
        case hook
        case schedule

        /// A person.
        public init() { self = .interactive }
    }

    /// The group that every run has: all files. No manifest may declare it.
    public static let groupOfAll = "all"

    /// An absolute path, or a URL: of a manifest, or of a listing that one can be made of.
    @Omittable public var manifest = ""
    /// The URL that the names of a checksum list are relative to; `nil` for the list's own place.
    public var base: String?
    /// Where files go; `nil` for `./<project>`. Absolute, where somebody else works on it.
    public var destination: String?
    /// The session's name; `nil` for the manifest's project.
    public var session: String?
    /// Only these groups; empty for all.
    @Omittable public var groups: [String] = []
    /// Of those only files that one of these patterns matches, by their path or a directory above it; empty for all.
    @Omittable public var include: [String] = []
    /// And none that one of these matches.
    @Omittable public var exclude: [String] = []
    /// Programs to run when groups are complete.
    @Omittable public var hooks: [RunHook] = []
    /// Programs that every file is shown to before it takes its name: argv each, an absolute path first. They answer by
    /// their exit status.
    @Omittable public var verifiers: [[String]] = []
    /// The piece of the set that is wanted, such as `3/16`, while others bring theirs; `nil` for all of it.
    public var shard: String?
    /// So many pieces have to be here; the run completes them. `nil` for a set that comes as a whole.
    public var join: Int?
    /// The channel whose release is wanted; `nil` for the default one.
    public var channel: String?
    /// The revision that is wanted; `nil` for the newest of the channel.
    public var revision: UInt64?
    /// Remove files that an earlier pull installed and this manifest no longer has.
    @Omittable public var prune = false
    /// Prune even if more than half of the installed files go.
    @Omittable public var force = false
    /// Refuse to prune more files than this, ``force`` or not; `nil` without such a limit.
    public var maxDelete: Int?
    /// How the set becomes visible as a whole; `nil` for file by file, or for what the destination has on record.
    public var atomic: AtomicSwitch?
    /// Whether it shows an earlier tree again, the one of ``manifest``'s recorded digest: hooks are told.
    @Omittable public var rollback = false
    /// Where what is removed or replaced is kept, absolute; `nil` for nowhere.
    public var backupDir: String?
    /// The permissions that files and directories are made without, unless the manifest keeps their modes; `nil` for those
    /// of the process that works on it.
    public var umask: Umask?
    /// Install a manifest whose revision is older than what is installed.
    @Omittable public var allowOlder = false
    /// Where trust in the project begins: the absolute path of a root's file, `SHA256:HEX` of one, or `first`; `nil` to keep
    /// to the pins there are. The pin that comes of it is kept, so that it is not asked for again; a schedule, which may outlive
    /// the pin, names the root itself.
    public var trust: String?
    /// How many **seconds** after its end a signed statement is still believed; 0 where nothing is said.
    public var staleSeconds: Int64?
    /// Not to start earlier.
    public var notBefore: WallTime?
    /// Longest time in **seconds** from the moment the run may start to its end; `nil` for 7 days.
    public var deadlineSeconds: Int64?
    /// Enqueue only; `resume` starts it.
    @Omittable public var paused = false
    /// Who asks.
    @Omittable public var origin = Origin.interactive
    /// The run whose hook asks, where one does: its session's hooks are held back, too.
    public var originRun: String?
    /// How it transfers, as its client said. Where somebody else works on it, the tightest of these limits and of his own holds.
    @Omittable public var settings = TransferSettings()
    /// Counts in place of the configuration of whoever works on it, where the client named a file, or none.
    public var configuration: RunConfiguration?
    /// Free text for people, at most 4 KiB.
    public var label: String?
    /// Handed on to hooks, observers and reports as it is; at most ``longestUserData`` **bytes** as text.
    public var userData: JSONValue?
    /// How many **bytes** whoever asks expects to come, to be shown; `nil` for what the plan says.
    public var expectedBytes: UInt64?
    /// What must hold for it to be worked on.
    @Omittable public var conditions = RunConditions()

    /// Whether patterns decide which files are wanted: then no group of the manifest is whole but “all”, which is all that is
    /// asked for.
    package var hasPatterns: Bool { !include.isEmpty || !exclude.isEmpty }

    /// What is wrong with the name of a session; `nil` when nothing is. The rule is that of a manifest's `project`.
    package static func objection(toSession name: String) -> String? {
        if isIdentifier(name) { return nil }
        return
            "1 to 255 letters, digits, '.', '_', '-' and ':' are expected, not beginning with '.', '-' or ':'; not '\(escaped(name))'"
    }

    /// Whether text is 1 to 255 letters, digits, `.`, `_`, `-` and `:` of ASCII that begin with one of the first two or `_`.
    package static func isIdentifier(_ text: String) -> Bool {
        guard text.utf8.count <= 255, let first = text.utf8.first, isAlphanumeric(first) || first == 0x5F else {
            return false
        }
        return text.utf8.allSatisfy { isAlphanumeric($0) || $0 == 0x2E || $0 == 0x5F || $0 == 0x2D || $0 == 0x3A }
    }

    /// What ``userData`` may have as text, in **bytes**.
    package static let longestUserData = 64 << 10

    /// Asks for all files of a manifest; see the properties.
    public init(manifest: String, destination: String? = nil) {
        (self.manifest, self.destination) = (manifest, destination)
    }
}

/// What counts in place of the agent's own configuration and environment; transfer settings are whole then.
public struct RunConfiguration: Sendable, Equatable, Codable {
    /// The configuration file that says which plugins are used, absolute; `nil` for none. Its text is not kept.
    public var file: String?
    /// What the names of hooks in manifests stand for.
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
    /// Most **seconds** it may run.
    public var timeout: Int
    /// The results it is wanted for.
    public let results: [RunResult]
    /// Most files a call, 1...10,000, for a hook that gets the files that changed; `nil` for one call a group.
    public var batch: Int?

    /// What ``batch`` may be.
    package static let batches = 1...10_000
    /// What ``timeout`` may be: up to 366 days.
    package static let timeouts = 0...366 * 86_400

    /// Makes a hook; by default it runs however the group ends.
    public init(
        group: String = RunRecipe.groupOfAll, arguments: [String], timeout: Int = 600,
        results: some Sequence<RunResult> = RunResult.allCases, batch: Int? = nil
    ) {
        (self.group, self.arguments, self.timeout) = (group, arguments, timeout)
        let wanted = Set(results)
        self.results = RunResult.allCases.filter(wanted.contains)
        self.batch = batch
    }

    /// Reads a hook; only `arguments` must be there.
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

/// A property that JSON leaves out while it is what its type starts with: `false`, `[]`, conditions that ask for nothing.
@propertyWrapper
public struct Omittable<Value: Codable & Equatable & Sendable & HasDefault>: Codable, Equatable, Sendable {
    /// The property.
    public var wrappedValue: Value

    /// Holds a value.
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    /// Reads the value alone.
    public init(from decoder: any Decoder) throws { wrappedValue = try Value(from: decoder) }

    /// Writes the value alone.
    public func encode(to encoder: any Encoder) throws { try wrappedValue.encode(to: encoder) }
}

/// A type whose values begin as something.
public protocol HasDefault {
    /// What is meant where nothing is said.
    init()
}

extension Bool: HasDefault {}
extension String: HasDefault {}
extension Array: HasDefault {}

// What is synthesized for a type with such properties calls these.
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

/// Where a set comes from that nobody published as a manifest: `source` of a manifest that was derived from somebody's
/// listing.
public struct SourceOrigin: Sendable, Equatable, Codable {
    /// What kind of listing it was, such as `sums`, `metalink` or `hf`; otherwise the scheme of a source plugin.
    public var kind: String
    /// The listing, as it was asked for, without secrets.
    public var url: String
    /// Which state of the listing: a commit, a digest.
    public var at: String

    /// See the properties.
    public init(kind: String, url: String, at: String) { (self.kind, self.url, self.at) = (kind, url, at) }

    /// On one line for people: `hf, hf://acme/site, at 5f0c…`.
    package var shown: String { "\(escaped(kind)), \(escaped(url)), at \(escaped(String(at.prefix(80))))" }
}

extension JSONLine {
    /// `"source": {"kind": …, "url": …, "at": …}`, where there is one.
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
    /// What readers have in front of them.
    public enum Layout: String, Sendable, Equatable, Codable, CaseIterable {
        /// The destination is a directory, and changes places with the new one. renameat2(2), RENAME_EXCHANGE
        case exchange
        /// Each name at the top of the destination is a symbolic link through one that leads to the tree; that one is replaced.
        /// rename(2)
        case links
    }

    /// `nil` for the first that the place allows.
    public var layout: Layout?
    /// How many former trees are kept, from 1 on; `nil` for 1.
    public var keep: Int?
    /// For how many **seconds** at least a former tree stays as it was; `nil` for an hour.
    public var keepSeconds: Int64?
    /// A program that sees the new tree before readers do: argv, an absolute path first. Only if it exits with 0, the tree is shown.
    @Omittable public var check: [String] = []
    /// Whether files that no pull has put there are carried over to the new tree.
    @Omittable public var keepForeign = false
    /// Not to be shown earlier; `nil` for as soon as it is whole.
    public var notBefore: WallTime?

    /// A switch as soon as the set is whole, in the layout that the place allows.
    public init() {}

    /// How many former trees are kept.
    package var kept: Int { max(1, keep ?? 1) }
    /// What ``keep`` may be.
    package static let keeps = 1...100
    /// For how many **milliseconds** a former tree stays as it was.
    package var leastAge: Int64 {
        let (all, isLong) = max(0, keepSeconds ?? 3_600).multipliedReportingOverflow(by: 1_000)
        return isLong ? .max : all
    }
}
