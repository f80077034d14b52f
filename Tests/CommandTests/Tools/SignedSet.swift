import CommandTestSupport
import Foundation
import Testing

/// A set whose releases are signed, published by the built program and served by it.
struct SignedSet {
    let scratch: Scratch
    let tool: Tool
    let server: RunningServer
    var url: String { server.firstLine }

    /// Keys are in `keys`, files in `assets`, what is published in `site`.
    init(_ arguments: [String] = []) throws {
        scratch = try Scratch()
        tool = Tool(scratch)
        try scratch.write(Data("one".utf8), to: "assets/a.txt")
        try scratch.write(Data("two".utf8), to: "assets/b.txt")
        let made = try tool.run(["keys", "new", "keys", "--project", "com.example.tower"] + arguments)
        try #require(made.status == 0, "\(made.error)")
        try Self.publish(tool, [])
        server = try RunningServer(scratch)
    }

    private static func publish(_ tool: Tool, _ arguments: [String]) throws {
        let outcome = try tool.run(["publish", "assets", "--to", "site", "--sign", "keys"] + arguments)
        try #require(outcome.status == 0, "\(outcome.error)")
    }

    /// Changes a file and publishes it, signed.
    func publish(_ text: String, _ arguments: String...) throws { try publish(text, arguments) }

    func publish(_ text: String, _ arguments: [String]) throws {
        try scratch.write(Data(text.utf8), to: "assets/a.txt")
        try Self.publish(tool, arguments)
    }

    func keys(_ arguments: String...) throws {
        let outcome = try tool.run(["keys"] + arguments)
        try #require(outcome.status == 0, "\(outcome.error)")
    }

    /// Pulls into `tower`; a hook writes into `hooked`.
    func pull(_ arguments: String..., environment: [String: String] = [:]) throws -> Tool.Outcome {
        try tool.run(["pull", url, "--into", "tower", "--json"] + arguments, environment: environment)
    }

    /// Pulls for the first time, with a pin.
    func pin() throws {
        let outcome = try pull("--trust", "keys/1.root")
        try #require(outcome.status == 0, "\(outcome.error)")
    }

    func text(_ path: String) throws -> String {
        try String(contentsOf: scratch.url.appendingPathComponent(path), encoding: .utf8)
    }

    func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: scratch.url.appendingPathComponent(path).path)
    }

    /// Puts a copy of a file or directory in the place of another.
    func copy(_ from: String, to: String) throws {
        let target = scratch.url.appendingPathComponent(to)
        // What is not there need not go.
        try? FileManager.default.removeItem(at: target)
        try FileManager.default.copyItem(at: scratch.url.appendingPathComponent(from), to: target)
    }

    func remove(_ path: String) throws {
        try FileManager.default.removeItem(at: scratch.url.appendingPathComponent(path))
    }

    /// What the machine knows of the project: root, serial, revision.
    func pinned() throws -> [String: Any] {
        let outcome = try tool.run(["trust", "show", "com.example.tower", "--json"])
        try #require(outcome.status == 0, "\(outcome.error)")
        return try #require(try outcome.objects().first)
    }

    func numbers() throws -> [Int] {
        let pin = try pinned()
        return ["root", "serial", "revision"].compactMap { pin[$0] as? Int }
    }

    /// The last line of a pull.
    static func last(_ outcome: Tool.Outcome) throws -> [String: Any] { try #require(try outcome.events().last) }

    /// Why places were refused, in order.
    static func causes(_ outcome: Tool.Outcome) throws -> [String] {
        try outcome.objects().filter { $0["event"] as? String == "trust.refused" }.compactMap { $0["cause"] as? String }
    }
}

/// Another time for a program, faketime(1).
enum FakeTime {
    static let library = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"].map {
        "\($0)/faketime/libfaketime.so.1"
    }.first { FileManager.default.fileExists(atPath: $0) }

    /// - Parameter shift: Such as `+31d`.
    static func environment(_ shift: String) -> [String: String] {
        ["LD_PRELOAD": library ?? "", "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"]
    }
}
