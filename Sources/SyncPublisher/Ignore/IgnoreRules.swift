import SyncFiles
import SyncModel
import SyncSystem

/// Everything excluded by ignore files, in git's order: the `.syncignore` of the entry's own directory decides first,
/// then those above it, then files named on the command line, the last one first. A directory is excluded with
/// everything in it.
struct IgnoreRules {
    private var named: [IgnoreFile] = []
    /// Of the directories on the current path, the deepest last.
    private var levels: [IgnoreFile?] = []

    /// Reads the files of `--exclude-from`.
    init(_ paths: [String]) throws(PublishError) {
        for path in paths {
            let bytes: [UInt8]
            do throws(FileError) {
                bytes = try readFile(path, trust: .input, limit: IgnoreFile.maximumSize)
            } catch {
                throw PublishError(
                    error.isMissing ? .notFound : .cannotRead,
                    "the pattern file \(shown(path)): \(error.reason)",
                    "name a text file with one pattern per line"
                )
            }
            named.append(try Self.parse(bytes, [], shown(path)))
        }
    }

    /// Descends into a directory; `file` is its `.syncignore`, open.
    mutating func enter(_ file: Int32?, _ path: [UInt8]) throws(PublishError) {
        guard let file else { return levels.append(nil) }
        let name = shown(
            path.isEmpty ? Array(IgnoreFile.name.utf8) : path + Array("/\(IgnoreFile.name)".utf8)
        )
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(file, limit: IgnoreFile.maximumSize, shown: name)
        } catch {
            throw .cannotRead("\(name): \(error.reason)", "correct it, or remove it")
        }
        levels.append(try Self.parse(bytes, path, name))
    }

    mutating func leave() { levels.removeLast() }

    /// Whether an entry of the deepest directory is excluded.
    func leavesOut(_ path: UnsafeBufferPointer<UInt8>, isDirectory: Bool) -> Bool {
        for level in levels.reversed() {
            if let verdict = level?.verdict(on: path, isDirectory: isDirectory) { return verdict }
        }
        for file in named.reversed() {
            if let verdict = file.verdict(on: path, isDirectory: isDirectory) { return verdict }
        }
        return false
    }

    private static func parse(_ bytes: [UInt8], _ directory: [UInt8], _ name: String) throws(PublishError)
        -> IgnoreFile
    {
        do throws(IgnoreFile.LongLine) {
            return try IgnoreFile(bytes, directory: directory)
        } catch {
            throw .refusedEntries(
                "\(name):\(error.number): the pattern is longer than 8,192 bytes",
                "shorten it; no path is that long"
            )
        }
    }
}
