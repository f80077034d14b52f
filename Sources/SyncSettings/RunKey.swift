package import SyncModel

/// What the command line of a run and the configuration file can both say, besides how to transfer. A row is the option with its
/// help, the key, and the recipe's property; the option is the key with dashes.
package struct RunKey: Sendable {
    /// As the file has it.
    package let name: String
    /// What it does, for the option's help.
    package let help: String
    /// What the help calls its value.
    package let placeholder: String
    /// Whether it says nothing without `--prune`.
    package let needsPrune: Bool
    /// Reads the option's value.
    package let take: @Sendable (String, PathBase, inout RunRecipe) throws(SettingsError) -> Void
    /// Reads the key, where it is there.
    let read: @Sendable (StrictObject, PathBase, inout RunRecipe) throws(SettingsError) -> Void
    /// Puts what the file says where the command line says nothing.
    package let merge: @Sendable (inout RunRecipe, RunRecipe) -> Void

    package static let all = [
        RunKey(
            "max_delete", \.maxDelete, count, "Refuse to prune more than this many files, even with --force.",
            needsPrune: true),
        RunKey(
            "backup_dir", \.backupDir, directory,
            "Move removed and replaced files to this directory, which must be on the same file system as the destination and outside it."
        ),
        RunKey(
            "umask", \.umask, mask,
            "Make files and directories without these permissions, as umask(1) does; a background run and a schedule remember it.  (default: the umask of this command)"
        ),
    ]

    /// The option's name.
    package var option: String { "--" + name.replacing("_", with: "-") }

    // MARK: Kinds of values

    private struct Kind<Value: Sendable>: Sendable {
        let placeholder: String
        let text: @Sendable (String, PathBase) throws(SettingsError) -> Value
        let node: @Sendable (StrictObject, String, PathBase) throws(SettingsError) -> Value?
    }

    private static let count = Kind<Int>(placeholder: "n") { text, _ throws(SettingsError) in
        guard let count = Int(text), count >= 0 else {
            throw SettingsError("a number of 0 or more is expected, not '\(escaped(text))'")
        }
        return count
    } node: { object, key, _ throws(SettingsError) in
        try object.integer(key, in: 0...Int(Int32.max))
    }

    private static let directory = Kind<String>(placeholder: "dir") { text, base throws(SettingsError) in
        try base.absolute(text)
    } node: { object, key, base throws(SettingsError) in
        try object.path(key, base)
    }

    private static let mask = Kind<Umask>(placeholder: "mask") { text, _ throws(SettingsError) in
        try umask(text)
    } node: { object, key, _ throws(SettingsError) in
        guard let text = try object.text(key, "an octal number such as \"022\""), let node = object.node(key) else {
            return nil
        }
        return try object.reading(node, key, umask(text))
    }

    private static func umask(_ text: String) throws(SettingsError) -> Umask {
        guard let mask = Umask(text) else {
            throw SettingsError("an octal number from 000 to 777 is expected, not '\(escaped(text))'")
        }
        return mask
    }

    private init<Value: Sendable>(
        _ name: String, _ property: any WritableKeyPath<RunRecipe, Value?> & Sendable, _ kind: Kind<Value>,
        _ help: String, needsPrune: Bool = false
    ) {
        (self.name, self.help, placeholder, self.needsPrune) = (name, help, kind.placeholder, needsPrune)
        take = { text, base, recipe throws(SettingsError) in recipe[keyPath: property] = try kind.text(text, base) }
        read = { object, base, recipe throws(SettingsError) in
            recipe[keyPath: property] = try kind.node(object, name, base)
        }
        merge = { $0[keyPath: property] = $0[keyPath: property] ?? $1[keyPath: property] }
    }
}
