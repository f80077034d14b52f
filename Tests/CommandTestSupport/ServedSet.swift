package import Foundation

/// A small set, published by the built program and served by it.
package struct ServedSet {
    package let scratch: Scratch
    package let tool: Tool
    package let server: RunningServer
    package var url: String { server.firstLine }

    /// `files` by path; what is published stands in `site`.
    package init(_ files: [String: Data] = ["a.txt": Data("one".utf8), "sheets/b.txt": Data("two".utf8)]) throws {
        scratch = try Scratch()
        tool = Tool(scratch)
        for (path, data) in files { try scratch.write(data, to: "assets/\(path)") }
        try Self.publish(tool)
        server = try RunningServer(scratch)
    }

    /// Publishes `assets` again.
    package func publish() throws { try Self.publish(tool) }

    private static func publish(_ tool: Tool) throws {
        let outcome = try tool.run([
            "publish", "assets", "--to", "site", "--project", "com.example.tower", "--group", "sheets=sheets/**",
        ])
        guard outcome.status == 0 else { throw Tool.Failure("publish ended with \(outcome.status): \(outcome.error)") }
    }

    /// Pulls into `tower`.
    package func pull(_ arguments: String...) throws -> Tool.Outcome {
        try tool.run(["pull", url, "--into", "tower"] + arguments)
    }

    package func text(_ path: String) throws -> String {
        try String(contentsOf: scratch.url.appendingPathComponent(path), encoding: .utf8)
    }

    /// Writes an executable script.
    package func script(_ name: String, _ body: String) throws {
        let file = try scratch.write(Data("#!/bin/sh\n\(body)\n".utf8), to: name)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
    }
}
