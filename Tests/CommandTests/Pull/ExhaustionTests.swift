import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// Inputs that ask for more than anybody has: the built program refuses them, or does its work, in a bounded piece of
/// memory, and ends at once when it is asked to (V46, V53).
@Suite("Exhaustion", .serialized, .timeLimit(.minutes(10)))
struct ExhaustionTests {
    /// **KiB** that no input makes the program take.
    private static let mostMemory = 300 << 10
    private static let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    private let scratch: Scratch

    init() throws { scratch = try Scratch() }

    /// A zstd frame with a window of 2^27 bytes and no word of its length: `count` times 128 KiB of one byte. RFC 8878.
    private static func bomb(_ count: Int, of byte: UInt8) -> [UInt8] {
        var frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0x00, (27 - 10) << 3]
        for number in 1...count {
            // Block_Size << 3 | RLE << 1 | Last_Block, little endian.
            let header = 131_072 << 3 | 1 << 1 | (number == count ? 1 : 0)
            frame += [UInt8(header & 255), UInt8(header >> 8 & 255), UInt8(header >> 16 & 255), byte]
        }
        return frame
    }

    private func document(_ members: String) -> Data {
        Data("{\"format\":\"syncagent-manifest/1\",\"project\":\"p\",\"revision\":1,\(members)}".utf8)
    }

    /// Runs a command to its end, and tells the most memory it took, in **KiB**.
    private func run(_ arguments: [String]) throws -> (status: Int32, error: String, peak: Int) {
        let process = Tool(scratch).process(arguments)
        let errors = try scratch.file()
        process.standardOutput = FileHandle.nullDevice
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
        var peak = 0
        while process.isRunning {
            let status = try? String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)
            let line = status?.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
            peak = max(peak, line.flatMap { Int($0.filter(\.isNumber)) } ?? 0)
            usleep(3_000)
        }
        return (process.terminationStatus, try String(contentsOf: errors, encoding: .utf8), peak)
    }

    @Test("A manifest of 32 KB that would be a gigabyte is refused, and takes no more than its limit [V46]")
    func bomb() throws {
        let path = try scratch.write(Data(Self.bomb(8_192, of: 0x20)), to: "m.json.zst").path
        let end = try run(["pull", path, "--into", "out"])
        #expect(end.status == 65)
        #expect(end.peak < Self.mostMemory)
    }

    @Test("A manifest that says it is short and is sparse and long is refused unread [V46]")
    func sparse() throws {
        let path = try scratch.write(Data(), to: "m.json").path
        #expect(truncate(path, 8 << 30) == 0)
        let end = try run(["pull", path, "--into", "out"])
        #expect(end.status == 65)
        #expect(end.error.contains("longer than") && end.error.contains("--max-manifest"))
        #expect(end.peak < 100 << 10)
        // Told to, it reads more.
        #expect(truncate(path, 200 << 20) == 0)
        #expect(try !run(["pull", path, "--into", "out", "--max-manifest", "300M"]).error.contains("longer than"))
    }

    @Test("A part takes what comes of it, not what the manifest says of it [V46]")
    func part() throws {
        let pack = Data(Self.bomb(40, of: 0x20))
        let digest = String(repeating: "a", count: 64)
        try scratch.write(pack, to: "packs/a.pack")
        for (claim, most) in [(1_048_576_000, 100 << 10), (60 << 20, 150 << 10)] {
            let root = document(
                """
                "packs":[{"url":"packs/a.pack","size":\(pack.count + 40_000),"sha256":"\(digest)"}],\
                "parts":[{"blob":[0,0,\(claim > 100 << 20 ? 40_000 : pack.count),\(claim),"zstd","\(digest)"],"files":5000000}]
                """)
            let path = try scratch.write(root, to: "m.json").path
            let end = try run(["pull", path, "--into", "out"])
            #expect(end.status == 65, "\(end.error)")
            #expect(end.peak < most)
        }
    }

    @Test("Packs whose frames want windows of 128 MiB each are decoded within the bound, one after the other")
    func windows() throws {
        var (packs, files): ([String], [String]) = ([], [])
        for number in 0..<12 {
            // More raw bytes than its window; their digest is wrong, which shows when all have been decoded.
            let frame = Self.bomb(1_040, of: UInt8(number))
            let digest = String(repeating: String(number, radix: 16), count: 64)
            try scratch.write(Data(frame), to: "site/packs/\(number).pack")
            packs.append("{\"url\":\"packs/\(number).pack\",\"size\":\(frame.count),\"sha256\":\"\(digest)\"}")
            let blob = "[\(number),0,\(frame.count),\(1_040 << 17),\"zstd\"]"
            files.append(
                "{\"path\":\"f\(number)\",\"size\":\(1_040 << 17),\"sha256\":\"\(digest)\",\"blobs\":[\(blob)]}")
        }
        let members = "\"packs\":[\(packs.joined(separator: ","))],\"files\":[\(files.joined(separator: ","))]"
        try scratch.write(document(members), to: "site/manifest.json")
        let server = try RunningServer(scratch)
        let end = try run(["pull", server.firstLine, "--into", "out", "--connections", "12"])
        #expect(end.status == 2, "\(end.error)")
        #expect(!end.error.contains("smaller zstd window"))
        #expect(end.peak < Self.mostMemory)
    }

    // MARK: Stopping

    /// Starts a command, waits until `isThere`, sends SIGTERM, and tells how much it still worked before it ended, in
    /// processor time: what the clock on the wall says depends on what else runs here, so it only has to be no minute.
    private func stop(
        _ arguments: [String], environment: [String: String] = [:], again: Bool = false, when isThere: (Process) -> Bool
    ) throws -> (status: Int32, work: Duration) {
        let process = Tool(scratch).process(arguments, environment: environment)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        for _ in 0..<2_000 where process.isRunning && !isThere(process) { usleep(10_000) }
        #expect(process.isRunning)
        let (start, before) = (ContinuousClock.now, ticks(process) ?? 0)
        kill(process.processIdentifier, SIGTERM)
        if again {
            usleep(200_000)
            kill(process.processIdentifier, SIGTERM)
        }
        var used = before
        while process.isRunning {
            used = max(used, ticks(process) ?? 0)
            usleep(5_000)
        }
        process.waitUntilExit()
        #expect(.now - start < .seconds(20))
        return (process.terminationStatus, .milliseconds(10 * (used - before)))
    }

    /// How much of a processor a process has used, in hundredths of a second.
    private func ticks(_ process: Process) -> Int? {
        let text = (try? String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8)) ?? ""
        let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12 else { return nil }
        return (Int(fields[11]) ?? 0) + (Int(fields[12]) ?? 0)
    }

    /// Whether a process is in the middle of its work.
    private func hasWorked(_ process: Process, _ least: Int) -> Bool { (ticks(process) ?? 0) > least }

    @Test("SIGTERM ends a pull within a second while patterns are matched [V53]")
    func stopMatching() throws {
        let deep = Array(repeating: String(repeating: "a", count: 250), count: 15).joined(separator: "/")
        let files = (0..<300).map { "{\"path\":\"\($0)/\(deep)\",\"link\":\"b\"}" }.joined(separator: ",")
        let pattern = "\"**/" + String(repeating: "*a", count: 30) + "b*/**\""
        let patterns = Array(repeating: pattern, count: 1_000).joined(separator: ",")
        let members = "\"files\":[\(files)],\"groups\":[{\"name\":\"g\",\"include\":[\(patterns)]}]"
        let path = try scratch.write(document(members), to: "m.json").path
        let end = try stop(["pull", path, "--into", "out", "--group", "g"]) { hasWorked($0, 100) }
        #expect(end.status == 143)
        #expect(end.work < .seconds(1))
    }

    @Test("SIGTERM ends a pull within a second while a manifest is read")
    func stopReading() throws {
        let entry = "{\"path\":\"d/"
        var text = Data("{\"format\":\"syncagent-manifest/1\",\"project\":\"p\",\"files\":[".utf8)
        for number in 0..<600_000 {
            text.append(Data("\(number == 0 ? "" : ",")\(entry)\(number)\",\"link\":\"x\"}".utf8))
        }
        text.append(Data("]}".utf8))
        let path = try scratch.write(text, to: "m.json").path
        let end = try stop(["pull", path, "--into", "out"]) { hasWorked($0, 40) }
        #expect(end.status == 143)
        #expect(end.work < .seconds(1))
    }

    @Test("SIGTERM ends a pull soon while many thousand links are made, and the next one goes on")
    func stopLinking() throws {
        let links = (0..<200_000).map { "{\"path\":\"d/\($0)\",\"link\":\"x\"}" }.joined(separator: ",")
        let path = try scratch.write(document("\"files\":[\(links)]"), to: "m.json").path
        let end = try stop(["pull", path, "--into", "out"]) { _ in
            FileManager.default.fileExists(atPath: scratch.path + "/out/d")
        }
        #expect(end.status == 143)
        // What is staged is put in its place first: at most some ten thousand. A debug build needs two seconds for them.
        #expect(end.work < .seconds(5))
        let made = try scratch.contents(of: "out/d").count
        #expect(made > 0 && made < 200_000)
        let plan = try run(["pull", path, "--into", "out", "--dry-run"])
        #expect(plan.status == 0, "\(plan.error)")
    }

    @Test("SIGTERM ends a pull within a second while a long file is hashed")
    func stopHashing() throws {
        let size = 1 << 40
        let digest = String(repeating: "1", count: 64)
        let members = """
            "packs":[{"url":"a","size":\(size),"sha256":"\(digest)"}],\
            "files":[{"path":"f","size":\(size),"sha256":"\(digest)","blobs":[[0,0,\(size)]]}]
            """
        let path = try scratch.write(document(members), to: "m.json").path
        let file = try scratch.write(Data(), to: "out/f").path
        #expect(truncate(file, off_t(size)) == 0)
        for command in ["pull", "verify"] {
            let end = try stop([command, path, "--into", "out"]) { hasWorked($0, 50) }
            #expect(end.status == 143)
            #expect(end.work < .seconds(1))
        }
    }

    @Test("SIGTERM ends a pull within a second while a hook does not listen, and a second one at once")
    func stopHook() throws {
        let script = try scratch.write(
            Data("#!/bin/sh\ntrap '' TERM\ntouch \(scratch.path)/on\nsleep 60\n".utf8), to: "h")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: script.path)
        let path = try scratch.write(document("\"files\":[{\"path\":\"a\",\"link\":\"b\"}]"), to: "m.json").path
        for again in [false, true] {
            try? FileManager.default.removeItem(atPath: scratch.path + "/on")
            let end = try stop(["pull", path, "--into", "out", "--hook", script.path], again: again) { _ in
                FileManager.default.fileExists(atPath: scratch.path + "/on")
            }
            // What is in place is in place; the hook is owed.
            #expect(end.status == (again ? 143 : 5))
            #expect(end.work < .milliseconds(500))
        }
    }
}
