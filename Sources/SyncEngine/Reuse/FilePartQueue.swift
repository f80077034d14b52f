import SyncSystem

/// Hands out parts of files to threads, to each thread a file of its own while there are enough: parts taken in order
/// are hashed while still in memory. Threads without an untouched file help with the longest.
final class FilePartQueue: Sendable {
    private struct File {
        /// Positions of its parts that no thread has taken.
        var parts: Range<Int>
        var isTouched = false
    }
    private let files: Mutex<[File]>

    /// - Parameter rows: The file of each part; parts of one file stand together.
    init(_ rows: [Int]) {
        var files: [File] = []
        var start = 0
        for end in rows.indices.dropFirst() + [rows.count] where end > start {
            guard end == rows.count || rows[end] != rows[start] else { continue }
            files.append(File(parts: start..<end))
            start = end
        }
        self.files = Mutex(files)
    }

    /// The next part to work on; `nil` when all are taken.
    ///
    /// - Parameter own: The file that the thread is at; kept between its calls.
    func next(after own: inout Int?) -> Int? {
        let (position, file) = files.withLock { [own] files -> (Int?, Int?) in
            let chosen: Int?
            if let own, !files[own].parts.isEmpty {
                chosen = own
            } else {
                chosen =
                    files.indices.first { !files[$0].isTouched }
                    ?? files.indices.filter { !files[$0].parts.isEmpty }.max {
                        files[$0].parts.count < files[$1].parts.count
                    }
            }
            guard let chosen, let position = files[chosen].parts.first else { return (nil, nil) }
            files[chosen].parts.removeFirst()
            files[chosen].isTouched = true
            return (position, chosen)
        }
        own = file
        return position
    }
}
