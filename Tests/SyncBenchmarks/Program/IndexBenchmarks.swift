import CPosix
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What is known of the files that are here: read, looked up, compared with the file system.
enum IndexBenchmarks {
    static let all = [read, check]

    private static let files = 20_000
    private static let present = 2000

    private static let read = Benchmark(
        "index-read", unit: .things("records"), work: Double(files),
        limits: [.most("allocations", 10, debug: 60), .most("system calls", 8)]
    ) {
        let place = try ScratchDirectory()
        let destination = try Destination.open(path: place.path, create: true)
        guard let status = SyncSystem.status(destination.root) else { throw WrongResult("no status") }
        var writer = StatIndexWriter(in: destination)
        for index in 0..<files {
            let record = IndexRecord(status: status, digest: .zero, kind: .file, installed: true)
            Array(SmallSet.path(index).utf8).withUnsafeBufferPointer { _ = writer.append(record, path: $0) }
        }
        try writer.write(owner: "benchmark", completion: nil, durable: false)
        return {
            _ = place
            let index = StatIndex.read(from: destination)
            var installed = 0
            for row in 0..<index.count where index.record(row)?.installed == true { installed += 1 }
            guard installed == files else { throw WrongResult("\(installed) records read") }
            return [:]
        }
    }

    private static let check = Benchmark(
        "index-check", unit: .things("files"), work: Double(present),
        limits: [.most("allocations", 100, debug: 110_000), .most("system calls", Double(present) + 130)]
    ) {
        let place = try ScratchDirectory()
        let destination = try Destination.open(path: place.path, create: true)
        let paths = (0..<present).map { Array(SmallSet.path($0).utf8) }
        var records: [IndexRecord] = []
        let directories = Directories(destination)
        for path in paths {
            let cut = (path.lastIndex(of: 0x2F) ?? 0) + 1
            let parent = try path[..<(cut - 1)].withUnsafeBufferPointer { parent in
                try directories.descriptor(parent, create: true)
            }
            guard let parent else { throw WrongResult("no directory") }
            let descriptor = String(decoding: path[cut...], as: UTF8.self).withCString {
                sa_openat(parent, $0, O_WRONLY | O_CREAT, 0o644)
            }
            guard descriptor >= 0, let status = SyncSystem.status(descriptor) else { throw WrongResult("no file") }
            close(descriptor)
            records.append(IndexRecord(status: status, digest: .zero, kind: .file, installed: true))
        }
        let names = paths.map { $0 + [0] }
        return {
            _ = place
            let directories = Directories(destination)
            var same = 0
            for (row, path) in names.enumerated() {
                try path.withUnsafeBufferPointer { path in
                    let cut = (path.lastIndex(of: 0x2F) ?? 0) + 1
                    let parent = UnsafeBufferPointer(rebasing: path[..<(cut - 1)])
                    guard let directory = try directories.descriptor(parent, create: false), let base = path.baseAddress
                    else { return }
                    let found = (base + cut).withMemoryRebound(to: CChar.self, capacity: path.count - cut) {
                        status(directory, $0)
                    }
                    if case .success(let status?) = found, records[row].matches(status) { same += 1 }
                }
            }
            guard same == names.count else { throw WrongResult("\(same) files are as before") }
            return [:]
        }
    }
}
