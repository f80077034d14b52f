import ArgumentParser
import SyncAssembly
import SyncEngine
import SyncFiles
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncRemotes
import SyncSystem
import SyncTransfer

/// The options for a run: the same for `pull` and for what a schedule pulls every night.
///
/// Each command has the groups itself: in a debug build the parser checks a group once for every check of every group
/// around it, so that one more level is five times the work.
protocol RunOptions: ParsableArguments, ReadingOptions {
    var target: TargetOptions { get }
    var placement: DestinationOptions { get }
    var downgrade: DowngradeOption { get }
    var metadata: MetadataOptions { get }
    var limits: LimitOptions { get }
    var hookOptions: HookOptions { get }
}

extension RunOptions {
    /// Checks rules that concern several groups. Called by each command's own validation.
    func checkHooks() throws {
        try hookOptions.check()
        // A missing working directory has an exit status of its own, which a parse cannot give.
        do { _ = try runHooks(.ofProcess) } catch is CommandFailure {}
    }

    /// Checks options that need `--atomic` or `--prune`. A destination that is already switched as a whole needs
    /// neither. Called by each command's own validation.
    func checkPlacement() throws {
        guard let lack = placement.lack, !changesAsAWhole else { return }
        throw ValidationError(lack)
    }

    /// Whether the named destination is already switched as a whole. If that cannot be found out, the run will.
    private var changesAsAWhole: Bool {
        guard let destination = target.destination, let path = try? EnvironmentPaths.absolute(destination) else {
            return false
        }
        do throws(FileError) { return try TreeHome.find(path) != nil } catch { return true }
    }

    /// Creates a run's recipe from the command line, the configuration file and the environment. Recipes are created
    /// only here; the engine adds what the manifest adds.
    func runRecipe(_ environment: EnvironmentPaths) throws -> (RunRecipe, RunSettings) {
        let said = limits.settings.over(try transfer.settings(environment.pathBase))
        let settings = try transfer.runSettings(said, environment)
        var recipe = try target.recipe(settings, self)
        recipe.hooks = try runHooks(environment)
        try refuseChangeable(recipe.hooks, .refused)
        try refuseChangeable(settings.hooks.values, .configuration)
        recipe.settings.limitRate = said.limitRate
        downgrade.apply(to: &recipe)
        recipe.verifiers = try absoluteCommands(placement.verifiers)
        try placement.apply(to: &recipe, settings.file, environment.pathBase)
        if let check = placement.check {
            let hook = RunHook(arguments: [try environment.absoluteProgram(check, option: "--check")])
            try refuseChangeable([hook], .refused)
            recipe.atomic?.check = hook.arguments
        }
        recipe.umask = recipe.umask ?? CurrentProcess.umask
        try trust.apply(to: &recipe, environment)
        metadata.apply(to: &recipe)
        return (recipe, settings)
    }

    private func runHooks(_ environment: EnvironmentPaths) throws -> [RunHook] {
        func hook(_ program: String, _ option: String, group: String = RunRecipe.groupOfAll, batch: Int? = nil) throws
            -> RunHook
        {
            RunHook(
                group: group, arguments: [try environment.absoluteProgram(program, option: option)],
                timeout: hookOptions.timeout, results: hookOptions.results, batch: batch)
        }
        let whole = try hookOptions.hooks.map { try hook($0, "--hook") }
        let files = try hookOptions.fileHooks.map { try hook($0, "--file-hook", batch: hookOptions.batch) }
        return try whole + files
            + hookOptions.groupHooks.map { text in
                let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2, !parts[0].isEmpty else {
                    throw ValidationError("--group-hook takes NAME=PROGRAM, not '\(escaped(text))'.")
                }
                let group = String(parts[0])
                if !(target.include + target.paths + target.exclude).isEmpty, group != RunRecipe.groupOfAll {
                    throw ValidationError(
                        "--group-hook runs for complete groups, but PATH, --include and --exclude select parts of groups. Use --hook."
                    )
                }
                guard target.groups.isEmpty || target.groups.contains(group) || group == RunRecipe.groupOfAll else {
                    throw ValidationError("--group-hook names '\(escaped(group))', a group that no --group selects.")
                }
                return try hook(String(parts[1]), "--group-hook", group: group)
            }
    }

    /// Refuses programs that others could change, before anything is fetched for them. A missing program may still be
    /// installed; it is checked again before it runs.
    private func refuseChangeable(_ hooks: some Sequence<RunHook>, _ status: ExitStatus) throws(CommandFailure) {
        for program in hooks.compactMap(\.arguments.first) where program.hasPrefix("/") {
            do throws(ProgramError) { try physicalProgram(program, role: "hook", destination: nil) } catch {
                if error.code == .changeable { throw CommandFailure(status, error.message) }
            }
        }
    }
}

extension Output {
    /// Warns of hooks whose programs cannot be started at the moment. They may be installed in time, so this is not an
    /// error.
    ///
    /// - Parameter plugins: Also warns of hooks that name none of these plugins; `nil` if they are not known.
    func warn(ofHooks hooks: [RunHook], plugins: PluginSettings? = nil) {
        var told: Set<String> = []
        for program in hooks.compactMap(\.arguments.first)
        where program.hasPrefix("/") && !isPermitted(.execute, program) && told.insert(program).inserted {
            let lack = exists(program) ? "is not executable" : "does not exist"
            warning("\(escaped(program)) \(lack); the hook fails until that is fixed.")
        }
        guard let plugins else { return }
        let known = Set(plugins.uses(of: .hook).map(\.name))
        for word in hooks.compactMap(\.arguments.first) {
            guard let name = hookPlugin(word), !known.contains(name), told.insert(word).inserted else { continue }
            warning(
                "plugins.use in the configuration names no hook '\(escaped(name))'; \(escaped(word)) fails as long as that "
                    + "is so.")
        }
    }
}

/// Parses a command such as `clamdscan --fdpass -`, and finds its program in the user's environment.
@Sendable func smallProgram(_ text: String, option: String) throws -> [String] {
    guard var words = commandWords(text), let name = words.first, !name.contains("://"), !text.contains("\0") else {
        throw ValidationError("\(option): '\(escaped(text))' is not a command such as 'clamdscan --fdpass -'.")
    }
    if !name.hasPrefix("/") {
        do { words[0] = try EnvironmentPaths.ofProcess.absoluteProgram(name, option: option) } catch is CommandFailure {
            // The working directory has been removed: see ``absoluteCommands(_:)``.
            return words
        }
    }
    do throws(PluginError) { _ = try SmallProgram(words, destination: nil, limit: .seconds(1), environment: [:]) } catch
    { throw ValidationError(error.message) }
    return words
}

/// The parsed commands, with absolute programs.
///
/// - Throws: ``CommandFailure`` with status 73, which a parse cannot give, for a relative program if the working
///   directory has been removed.
func absoluteCommands(_ commands: [[String]]) throws(CommandFailure) -> [[String]] {
    try commands.map { words throws(CommandFailure) in
        try words.prefix(1).map { word throws(CommandFailure) in try EnvironmentPaths.absolute(word) }
            + words.dropFirst()
    }
}

extension TargetOptions {
    /// A recipe for the manifest and files named, with nothing else set.
    func recipe(_ settings: RunSettings, _ reading: some ReadingOptions) throws(CommandFailure) -> RunRecipe {
        var recipe = recipe(at: try settings.location(manifest))
        try reading.apply(to: &recipe)
        recipe.settings.connections = settings.transfer.plannedConnections
        return recipe
    }

    func recipe(at location: String) -> RunRecipe {
        var recipe = RunRecipe(manifest: location, destination: destination)
        (recipe.session, recipe.groups) = (session, groups)
        (recipe.include, recipe.exclude) = (include + paths, exclude)
        return recipe
    }
}

extension RunSettings {
    /// The manifest of a set in a bucket: the one named, or the usual one.
    private static func manifest(inBucket location: String) throws(CommandFailure) -> String {
        do throws(S3Fault) {
            let address = try S3Address(location)
            if address.prefix.hasSuffix(".json") || address.prefix.hasSuffix(".zst") { return address.text }
            return address.object("manifest.json").text
        } catch { throw CommandFailure(.usage, error.reason) }
    }

    /// The location that an argument names: a URL, with its authority written out, if this machine has a transport for
    /// its scheme; otherwise a path.
    ///
    /// - Throws: ``CommandFailure`` with status 64 for a URL without a transport, 66 for text that may be a URL and is
    ///   not a file.
    func location(_ argument: String) throws(CommandFailure) -> String {
        let known = self.plugins.schemes.union(self.plugins.sourceSchemes).union(builtInSchemes)
        let location = withAuthority(argument, schemes: known)
        guard let scheme = leadingScheme(of: location) else { return location }
        let nobody =
            scheme == "file"
            ? URLScope.fileIsBuiltIn
            : "no transport plugin or source on this machine handles \(scheme): (plugins.use in the configuration)"
        if urlScheme(of: location) != nil {
            guard known.contains(scheme) else {
                throw CommandFailure(.usage, "MANIFEST is a path, or a URL that something here can read; \(nobody)")
            }
            if scheme == S3Address.scheme { return try Self.manifest(inBucket: location) }
            return location
        }
        // A directory such as `a:b` need not have the named file in every release.
        let directory = location.lastIndex(of: "/").map { String(location[..<$0]) }
        guard !exists(location), directory.map({ !exists($0) }) ?? true else { return location }
        if webSchemes.contains(scheme) {
            // The rest may be a password.
            throw CommandFailure(.noInput, "\(scheme):…: a URL needs two slashes: \(scheme)://host/path")
        }
        let reason = known.contains(scheme) ? "nothing follows the scheme" : nobody
        throw CommandFailure(.noInput, "\(redacted(url: argument)): there is no such file, and \(reason)")
    }
}

extension TransferOptions {
    /// The settings of the command line over those of the configuration files.
    func runSettings(_ said: TransferSettings, _ environment: EnvironmentPaths) throws -> RunSettings {
        let named = try configurationFile.map { RunSettings.Source.named(try environment.pathBase.absolute($0)) }
        return try RunSettings(
            said, named ?? (noConfigurationFile ? RunSettings.Source.none : .usual), environment.host)
    }
}

/// Whether the installed revision may be replaced by an older one.
struct DowngradeOption: ParsableArguments {
    @Flag(help: "Allow a revision older than the installed one.") var allowOlder = false

    func apply(to recipe: inout RunRecipe) { recipe.allowOlder = allowOlder }
}

/// Options for what a pull may install, replace and remove, and for the backup of replaced files.
struct DestinationOptions: ParsableArguments {
    @Flag(help: "Remove files that an earlier pull installed and the manifest no longer lists.") var prune = false

    @Flag(help: "Prune even if that removes more than half of the installed files.") var force = false

    @Option(help: "Refuse to prune more than this many files, even with --force.".taking("n")) var maxDelete: String?

    @Option(
        name: .customLong("atomic"),
        help:
            "Build the new revision beside the old one and show all of it in one step. Files that the manifest does not list are not in it. A destination keeps its layout; a new one gets the first that is possible, unless --atomic=exchange or --atomic=links says which."
            .taking("layout"), completion: .list(LayoutChoice.allCases.map(\.rawValue)), transform: LayoutChoice.named)
    var atomic: LayoutChoice?

    @Option(
        help: "With --atomic: how many former revisions to keep for 'syncagent rollback'.  (default: 1)"
            .taking("n"))
    var keep: String?

    @Option(
        help:
            "With --atomic: how long at least a former revision stays unchanged, for readers that still use it.  (default: 1h)"
            .taking("time"), transform: { try $0 == "0" ? .zero : duration($0) })
    var keepFor: Duration?

    @Option(
        help:
            "With --atomic: run this program in the new revision before readers see it; unless it exits with 0, they never do."
            .taking("program"), completion: .file())
    var check: String?

    @Flag(help: "With --atomic: keep files in the destination that no pull has put there.") var keepForeign = false

    @Option(
        help:
            "Move removed and replaced files to this directory, which must be on the same file system as the destination and outside it."
            .taking("dir"), completion: .directory)
    var backupDir: String?

    @Option(
        help:
            "Make files and directories without these permissions, as umask(1) does; a background run and a schedule remember it.  (default: the umask of this command)"
            .taking("mask"))
    var umask: String?

    @Option(
        name: .customLong("verify-program"),
        help: "Run this program on each file before it is installed; exit status 0 accepts the file; repeatable."
            .taking("command"), transform: { try smallProgram($0, option: "--verify-program") })
    var verifiers: [[String]] = []

    func validate() throws {
        if atomic != nil, backupDir != nil {
            throw ValidationError("--atomic keeps former revisions whole; it cannot be combined with --backup-dir.")
        }
        if let backupDir { try requireLocal(backupDir, "--backup-dir", "run the pull there") }
        var recipe = RunRecipe(manifest: "")
        try apply(to: &recipe, ConfigurationFile(), PathBase(directory: "/", home: nil))
    }

    /// The first option given that only a destination switched as a whole accepts.
    private var choice: String? {
        let given = [
            ("--keep", keep != nil), ("--keep-for", keepFor != nil), ("--check", check != nil),
            ("--keep-foreign", keepForeign),
        ]
        return given.first { $0.1 }?.0
    }

    /// The option that is missing if the destination is not switched as a whole already; `nil` if none is.
    fileprivate var lack: String? {
        guard atomic == nil else { return nil }
        if force, !prune { return "--force needs --prune; without it there is nothing to force." }
        if let choice { return "\(choice) needs --atomic." }
        return maxDelete != nil && !prune ? "--max-delete needs --prune; without it nothing is removed." : nil
    }

    /// Applies the options to a recipe; the configuration file supplies the rest.
    func apply(to recipe: inout RunRecipe, _ file: ConfigurationFile, _ base: PathBase) throws {
        (recipe.prune, recipe.force) = (prune, force)
        recipe.maxDelete =
            try maxDelete.map { try setting(of: "--max-delete", SettingValue.count($0)) } ?? file.maxDelete
        recipe.backupDir = try backupDir.map { try setting(of: "--backup-dir", base.absolute($0)) } ?? file.backupDir
        recipe.umask = try umask.map { try setting(of: "--umask", SettingValue.umask($0)) } ?? file.umask
        guard atomic != nil || choice != nil else { return }
        var wishes = AtomicSwitch()
        wishes.layout = atomic?.layout
        wishes.keep = try keep.map { text in
            guard let count = Int(text), AtomicSwitch.keeps.contains(count) else {
                throw ValidationError("--keep takes a number from 1 to 100, not '\(escaped(text))'.")
            }
            return count
        }
        wishes.keepSeconds = keepFor.map { $0.components.seconds }
        wishes.keepForeign = keepForeign
        recipe.atomic = wishes
        recipe.prune = true
    }
}

/// A requested layout, or any.
enum LayoutChoice: String, Sendable, CaseIterable {
    case auto, exchange, links

    var layout: AtomicSwitch.Layout? { AtomicSwitch.Layout(rawValue: rawValue) }

    /// The layout with a name.
    @Sendable static func named(_ name: String) throws -> LayoutChoice {
        if let choice = LayoutChoice(rawValue: name) { return choice }
        throw ValidationError(
            "--atomic takes 'exchange', 'links', or nothing for the first that is possible, not '\(escaped(name))'.")
    }

    /// The words of a command line, with a bare `--atomic` spelled out, since the word after it is not its value.
    static func named(_ words: [String]) -> [String] {
        let end = words.firstIndex(of: "--") ?? words.endIndex
        return words[..<end].map { $0 == "--atomic" ? "--atomic=\(auto.rawValue)" : $0 } + words[end...]
    }
}

/// What a pull passes on to hooks and reports; it changes nothing about what is fetched.
struct MetadataOptions: ParsableArguments {
    @Option(
        help: "JSON to pass unchanged to hooks, observers, status and report; at most 64 KiB.".taking("json"),
        transform: { text in
            guard let value = JSONValue(text: text) else {
                throw ValidationError("--user-data takes JSON, such as '{\"model\": 7}' or '\"text\"'.")
            }
            let size = value.text.utf8.count
            guard size <= RunRecipe.longestUserData else {
                throw ValidationError("--user-data has \(size) bytes, above the limit of \(RunRecipe.longestUserData).")
            }
            return value
        })
    var userData: JSONValue?

    @Option(
        help: "The size to expect in status and report, such as 20GB.  (default: the manifest's total)".taking("size"),
        transform: positiveByteCount)
    var expectedBytes: ByteCount?

    func apply(to recipe: inout RunRecipe) {
        recipe.userData = userData
        recipe.expectedBytes = expectedBytes?.bytes
    }
}
