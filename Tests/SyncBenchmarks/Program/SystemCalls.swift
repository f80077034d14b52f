import Foundation
import SyncSystem

/// Counts the system calls of a process, with strace where that is installed and may trace.
enum SystemCalls {
    /// Waiting and memory depend on the moment and the allocator; all others on the code.
    private static let unsteady: Set<String> = [
        "futex", "sched_yield", "restart_syscall", "mmap", "munmap", "madvise", "mprotect", "brk", "rt_sigreturn",
        "clock_nanosleep", "mremap",
    ]

    /// Where strace is, if it works here.
    static let strace: String? = {
        let places = ["/usr/bin/strace", "/usr/local/bin/strace"]
        guard let path = places.first(where: FileManager.default.isExecutableFile(atPath:)) else { return nil }
        let works = (try? status(of: path, ["-o", "/dev/null", "/bin/true"], in: nil)) == 0
        return works ? path : nil
    }()

    /// What a program and its children call, by name, ``unsteady`` calls left out.
    ///
    /// - Returns: `nil` without strace.
    static func count(_ program: String, _ arguments: [String], in environment: [String: String]? = nil) throws
        -> [String: Int]?
    {
        guard let strace else { return nil }
        let place = try ScratchDirectory()
        let table = place.path + "/calls"
        let code = try status(of: strace, ["-f", "-qq", "-c", "-o", table, program] + arguments, in: environment)
        guard code == 0 else { throw WrongResult("\(program) \(arguments.joined(separator: " ")) ends with \(code)") }
        var counts: [String: Int] = [:]
        for line in try String(contentsOfFile: table, encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ")
            guard words.count >= 5, let calls = Int(words[3]), let name = words.last, name != "total" else { continue }
            if !unsteady.contains(String(name)) { counts[String(name)] = calls }
        }
        return counts
    }

    /// Runs a program to its end, silently; returns its exit status.
    static func status(of program: String, _ arguments: [String], in environment: [String: String]?) throws -> Int32 {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        if let environment { process.environment = environment }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus
    }
}
