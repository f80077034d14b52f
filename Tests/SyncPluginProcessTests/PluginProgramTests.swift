import Foundation
import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PluginProgramTests {
    private func refusal(_ text: String, _ root: TemporaryRoot) -> String {
        do throws(PluginError) {
            _ = try PluginProgram(text, directory: root.path("plugins"), destination: root.path("dest"))
            return ""
        } catch { return error.code == .unavailable ? error.message : "code \(error.code)" }
    }

    @Test("A plugin is found by name in its directory and by absolute path, and nowhere else [V55 V62]")
    func found() throws {
        let root = try TemporaryRoot()
        for place in ["plugins", "dest", "elsewhere"] {
            try root.write(Array("#!/bin/true\n".utf8), to: "\(place)/syncagent-plugin-x", executable: true)
        }
        try root.write(Array("#!/bin/true\n".utf8), to: "elsewhere/other", executable: true)
        try root.link("plugins/syncagent-plugin-linked", to: root.path("dest/syncagent-plugin-x"))
        try root.link("plugins/syncagent-plugin-fine", to: root.path("elsewhere/other"))

        let named = try PluginProgram("x", directory: root.path("plugins"), destination: root.path("dest"))
        #expect(named.path == root.path("plugins/syncagent-plugin-x"))
        let absolute = try PluginProgram(root.path("elsewhere/other"), directory: "/none", destination: nil)
        #expect(absolute.name == "other")
        #expect(refusal("fine", root) == "")
        #expect(refusal("linked", root).contains("leads through the destination"))
        #expect(refusal(root.path("dest/syncagent-plugin-x"), root).contains("leads through the destination"))
        #expect(refusal("y", root).contains("No such file"))
        for text in ["./syncagent-plugin-x", "../dest/x", "a/b", "", ".x", "-x", "x y", "x\0"] {
            #expect(refusal(text, root).contains("a name (letters, digits, - _ .) or an absolute path"), "\(text)")
        }
        #expect(PluginProgram.all(in: root.path("plugins")).map(\.name) == ["fine", "linked", "x"])
        #expect(PluginProgram.all(in: root.path("none")).isEmpty)
    }

    @Test("A plugin that others can change is refused, with words that say what to do [V55]")
    func permissions() throws {
        let root = try TemporaryRoot()
        let file = "plugins/syncagent-plugin-x"
        try root.write(Array("#!/bin/true\n".utf8), to: file, executable: true)
        for mode in [0o775, 0o757, 0o777] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: root.path(file))
            #expect(refusal("x", root).hasSuffix("others may write to it; run: chmod go-w \(root.path(file))"))
        }
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: root.path(file))
        #expect(refusal("x", root) == "")
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: root.path("plugins"))
        #expect(refusal("x", root).contains("others could change it: its directory"))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: root.path("plugins"))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: root.path(file))
        #expect(refusal("x", root).contains("chmod +x"))
        try root.write("", to: "plugins/syncagent-plugin-d/file")
        #expect(refusal("d", root).contains("is not a file"))
    }
}
