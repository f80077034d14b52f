import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The ignore files of a tree, in git's order: the `.syncignore` of the entry's own directory decides first, then those
/// above it, then files named on the command line, the last one first, then those that `publish.json` names. A
/// directory is excluded with everything in it.
struct IgnoreRules {
    private var named: [IgnoreFile] = []
    /// The ignore files of the directories on the current path, the deepest last.
    private var levels: [IgnoreFile?] = []
    /// ``IgnoreFile/memory`` of all files in use.
    private var memory = 0
    /// **Bytes**.
    private static let mostMemory = 64 << 20

    /// Reads the patterns that `publish.json` names, and the files of `--exclude-from`.
    init(_ options: PublishOptions) throws(PublishError) {
        for (name, text) in options.givenPatterns { named.append(try parse(text, [], shown(name))) }
        for path in options.excludeFrom {
            let bytes = try rethrowing(readFile(path, trust: .input, limit: IgnoreFile.maximumSize)) {
                (error: FileError) in
                PublishError(
                    error.isMissing ? .noInput : .ioError, "the pattern file \(shown(path)): \(error.reason)",
                    "name a text file with one pattern per line")
            }
            named.append(try parse(bytes, [], shown(path)))
        }
    }

    /// Descends into a directory; `file` is its `.syncignore`, open.
    mutating func enter(_ file: Int32?, _ path: [UInt8]) throws(PublishError) {
        guard let file else { return levels.append(nil) }
        let name = shown(path.isEmpty ? Array(IgnoreFile.name.utf8) : path + Array("/\(IgnoreFile.name)".utf8))
        let bytes = try rethrowing(readFile(file, limit: IgnoreFile.maximumSize, shown: name)) { (error: FileError) in
            PublishError.cannotRead("\(name): \(error.reason)", "correct it, or remove it")
        }
        levels.append(try parse(bytes, path, name))
    }

    mutating func leave() { if let level = levels.removeLast() { memory -= level.memory } }

    /// The verdict of the first file with a matching pattern, on an entry of the deepest directory: `true` to leave it
    /// out, `false` to keep it, `nil` where no pattern matches.
    func verdict(on path: UnsafeBufferPointer<UInt8>, isDirectory: Bool, _ budget: inout PatternBudget)
        throws(PublishError) -> Bool?
    {
        func verdict(_ file: IgnoreFile) throws(PublishError) -> Bool? {
            var work = 0
            let verdict = file.verdict(on: path, isDirectory: isDirectory, &work)
            if let reason = budget.spend(work) { throw .tooMuchMatching(reason) }
            return verdict
        }
        for level in levels.reversed() { if let level, let verdict = try verdict(level) { return verdict } }
        for file in named.reversed() { if let verdict = try verdict(file) { return verdict } }
        return nil
    }

    private mutating func parse(_ bytes: [UInt8], _ directory: [UInt8], _ name: String) throws(PublishError)
        -> IgnoreFile
    {
        let file = try IgnoreFile(bytes, name, directory: directory, mostMemory: Self.mostMemory - memory)
        memory += file.memory
        return file
    }
}

extension PublishError {
    /// The error of an exhausted ``PatternBudget``.
    static func tooMuchMatching(_ reason: String) -> Self {
        .invalid(
            "the patterns of what is left out take too long: \(reason)",
            "use fewer wildcards, or leave out whole directories by their names")
    }
}
