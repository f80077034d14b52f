/// How the deltas of files with a guessed former name have done, so that names that say nothing cost little.
///
/// A set whose files are all new, and called much like those that are gone, would else be compressed twice.
struct RenameTrials {
    /// Files after which no more are tried, when none of them had a delta that pays; and blobs, within a file.
    private static let most = (files: 64, blobs: 16)

    private var vain = (files: 0, blobs: 0)
    private var file: Int?

    /// Whether it is worth making; always, where the former name is no guess.
    func isWorthMaking(_ task: DeltaPlan.Task) -> Bool {
        guard task.former.isGuess else { return true }
        return task.file == file ? vain.blobs < Self.most.blobs : vain.files < Self.most.files
    }

    /// Takes what became of one.
    mutating func note(_ task: DeltaPlan.Task, pays: Bool) {
        guard task.former.isGuess else { return }
        if task.file != file {
            file = task.file
            vain = (vain.files + 1, 0)
        }
        if pays { vain = (0, 0) } else { vain.blobs += 1 }
    }
}
