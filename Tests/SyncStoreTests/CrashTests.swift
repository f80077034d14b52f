import Foundation
import SyncModel
import SyncStore
import Testing

/// What a killed helper had been promised.
private struct Promises {
    var begun: Set<String> = []
    var told: Set<String> = []
    var finished: Set<String> = []
    var owed: Set<Int64> = []
    var attempts: [Int64: Int] = [:]
    var done: Set<Int64> = []

    mutating func read(_ output: String) {
        // The last piece may be a line that was cut.
        for line in output.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            let words = line.split(separator: " ").map(String.init)
            guard words.count >= 2 else { continue }
            let identifier = Int64(words[1]) ?? 0
            switch words[0] {
            case "begun": begun.insert(words[1])
            case "events": told.insert(words[1])
            case "finished": finished.insert(words[1])
            case "owed": owed.insert(identifier)
            case "attempt": attempts[identifier] = Int(words.last ?? "")
            case "done": done.insert(identifier)
            default: Issue.record("unexpected line: \(line)")
            }
        }
    }
}

@Suite("Killed in the middle", .timeLimit(.minutes(10)))
struct CrashTests {
    /// Where the test products are: the directory of this test bundle's executable.
    private static var helper: String {
        let here = CommandLine.arguments.first.map { URL(fileURLWithPath: $0).deletingLastPathComponent().path } ?? "."
        let candidates = [here, Bundle.main.bundlePath, FileManager.default.currentDirectoryPath + "/.build/debug"]
        return candidates.map { $0 + "/store-crash-helper" }.first { FileManager.default.isExecutableFile(atPath: $0) }
            ?? "store-crash-helper (not built)"
    }

    /// Runs a helper, kills it once it has said so much, wherever it is by then, and returns what it said.
    private static func live(_ state: StateDirectory, session: String, killAfter bytes: Int) async throws -> String {
        let process = Process()
        // A mask that takes nothing away, and not in this process, where others make directories at the same time.
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "umask 0; exec \"$0\" \"$@\"", helper, state.path, session]
        let output = URL(fileURLWithPath: (state.path as NSString).deletingLastPathComponent + "/" + session + ".out")
        try Data().write(to: output)
        process.standardOutput = try FileHandle(forWritingTo: output)
        try process.run()
        while try FileManager.default.attributesOfItem(atPath: output.path)[.size] as? Int ?? 0 < bytes,
            process.isRunning
        { try await Task.sleep(for: .milliseconds(1)) }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        #expect(process.terminationReason == .uncaughtSignal, "it ran until it was killed")
        return String(decoding: try Data(contentsOf: output), as: UTF8.self)
    }

    @Test("Whatever the mask, the directory is 0700, and what is in it is for its owner alone [S11]")
    func modes() async throws {
        let state = StateDirectory()
        let above = (state.path as NSString).deletingLastPathComponent
        try FileManager.default.createDirectory(atPath: above, withIntermediateDirectories: true)
        _ = try await Self.live(state, session: "modes", killAfter: 1)
        #expect(try state.mode(state.path) == 0o700)
        for name in try state.names() {
            let mode = try #require(try state.mode(state.path + "/" + name))
            #expect(mode & 0o077 == 0, "\(name)")
        }
        #expect(try state.names().isSuperset(of: ["syncagent.sqlite", "syncagent.sqlite-wal"]))
    }

    @Test("Killed at 30 moments, every promise is kept and nothing is half there [S64 S69 S155 F083 G1 G3]")
    func killed() async throws {
        let state = StateDirectory()
        _ = try state.open()
        var promises = Promises()
        for round in 0..<30 {
            let output = try await Self.live(state, session: "crash", killAfter: 1 + round * 577 % 1_500)
            promises.read(output)
            let store = try state.open()
            #expect(store.opening == .opened)
            try check(promises, store, round)
        }
        #expect(promises.finished.count > 20, "the helper got somewhere between kills")
        #expect(promises.done.count > 40)
    }

    @Test("Four processes at once share one store; kills disturb only their own session [S152 F083]")
    func sharing() async throws {
        let state = StateDirectory()
        _ = try state.open()
        for round in 0..<5 {
            let outputs = try await withThrowingTaskGroup(of: (String, String).self) { group in
                for session in ["a", "b", "c", "d"] {
                    group.addTask {
                        let bytes = 300 + round * 311 + Int(session.utf8.first ?? 0) % 4 * 170
                        return (session, try await Self.live(state, session: session, killAfter: bytes))
                    }
                }
                return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
            }
            let store = try state.open()
            for output in outputs.values {
                var promises = Promises()
                promises.read(output)
                try check(promises, store, round)
            }
        }
    }

    @Test("Of 12 processes one takes the session, the others exit with 75; killed, it frees the session at once [S3]")
    func race() async throws {
        let state = StateDirectory()
        _ = try state.open()
        for _ in 0..<3 {
            let processes = try (0..<12).map { _ in
                let process = Process()
                process.executableURL = URL(fileURLWithPath: Self.helper)
                process.arguments = [state.path, "raced"]
                process.standardOutput = FileHandle.nullDevice
                try process.run()
                return process
            }
            while processes.count(where: \.isRunning) > 1 { try await Task.sleep(for: .milliseconds(2)) }
            let running = processes.first { $0.isRunning }
            let holder = try #require(running)
            for process in processes where process !== holder { #expect(process.terminationStatus == 75) }
            kill(holder.processIdentifier, SIGKILL)
            holder.waitUntilExit()
            _ = try state.open().lease(of: "raced", process: 1, now: 1)
        }
        #expect(try state.open().findings() == [])
    }

    private func check(_ promises: Promises, _ store: SyncStore, _ round: Int) throws {
        #expect(try store.findings() == [], "round \(round)")
        // Pruning may have taken old ended runs; what is there must be whole.
        let runs = try store.runs(limit: 1_000)
        let names = Set(runs.map(\.identifier))
        for run in promises.begun.subtracting(promises.finished) where !names.contains(run) {
            // An unfinished run is superseded by the next helper and may be pruned after 50 more.
            #expect(runs.count >= 50, "round \(round): run \(run) was acknowledged and is gone")
        }
        for run in runs {
            let hooks = try store.hooks(run: run.identifier)
            #expect(hooks.count == 2, "round \(round): run \(run.identifier) is half there")
            if promises.finished.contains(run.identifier) { #expect(run.state == .finished) }
            for hook in hooks {
                if promises.done.contains(hook.identifier) { #expect(hook.state == .done) }
                if let attempt = promises.attempts[hook.identifier] { #expect(hook.attempt >= attempt) }
                if promises.owed.contains(hook.identifier) {
                    #expect([.pending, .running, .done].contains(hook.state), "round \(round): a hook was missed")
                }
            }
        }
        for session in try store.sessions() {
            let page = try store.events(of: session.identifier, after: 0, limit: .max)
            let told = promises.told.filter { $0.hasPrefix(session.identifier + "-") }
            let seen = Set(page.events.map { $0.text.split(separator: " ").first.map(String.init) ?? "" })
            #expect(told.isSubset(of: seen) || page.prunedSequence > 0, "round \(round): events are gone")
            #expect(page.events.compactMap(\.sequence) == Array(page.prunedSequence + 1..<page.lastSequence + 1))
        }
    }
}
