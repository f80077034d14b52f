import ArgumentParser
import SyncModel
import SyncSettings

/// What a pull may remove, and where that is kept.
struct PruneOptions: ParsableArguments {
    @Flag(help: "Remove files that an earlier pull installed and the manifest no longer names.")
    var prune = false

    @Flag(help: "Prune even if more than half of the installed files go.")
    var force = false

    @Option(
        name: .customLong("max-delete"),
        help: ArgumentHelp(
            "Refuse to prune more than this many files; --force does not lift it.",
            valueName: "n"
        )
    )
    var maximumRemovals: Int?

    @Option(
        name: .customLong("backup-dir"),
        help: ArgumentHelp(
            "Keep what is removed or replaced below this directory, on the destination's file system and outside of it.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var backupDirectory: String?

    func validate() throws {
        if force, !prune {
            throw ValidationError("--force is for --prune; without it there is nothing to force.")
        }
        if maximumRemovals != nil, !prune {
            throw ValidationError("--max-delete is for --prune; without it nothing is removed.")
        }
        if let maximumRemovals, maximumRemovals < 0 {
            throw ValidationError("--max-delete takes 0 or more, not \(maximumRemovals).")
        }
        if let backupDirectory, backupDirectory.isEmpty {
            throw ValidationError("--backup-dir wants a directory, not an empty string.")
        }
    }

    /// Puts them into a recipe; the configuration file has the rest.
    func apply(
        to recipe: inout RunRecipe,
        _ settings: RunSettings,
        _ environment: EnvironmentPaths
    ) throws {
        recipe.prune = prune
        recipe.force = force
        recipe.maxDelete = maximumRemovals ?? settings.maximumRemovals
        recipe.backupDir =
            try backupDirectory.map { try environment.pathBase.absolute($0) } ?? settings.backupDirectory
    }
}
