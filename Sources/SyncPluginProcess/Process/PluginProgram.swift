import SyncHooks
import SyncModel
package import SyncPlugins
import SyncSystem

/// A program that is a plugin: where it is and what it is called.
package struct PluginProgram: Sendable, Hashable {
    /// `NAME` of `syncagent-plugin-NAME`; for another file name, that name.
    package let name: String
    /// Absolute, as configured.
    package let path: String

    /// What the file name of a plugin in the directory begins with.
    package static let prefix = "syncagent-plugin-"

    /// Finds a plugin by name in a directory, or by absolute path. Never in the working directory (V55).
    ///
    /// - Parameters:
    ///   - text: `NAME` or `/path/program`.
    ///   - directory: Absolute.
    ///   - destination: Nothing below it is a plugin, also through symbolic links (V62); `nil` when nothing is pulled.
    /// - Throws: ``PluginError`` with code `unavailable`.
    package init(_ text: String, directory: String, destination: String?) throws(PluginError) {
        if text.hasPrefix("/") {
            let file = text.split(separator: "/").last.map(String.init) ?? ""
            name = escaped(file.hasPrefix(Self.prefix) ? String(file.dropFirst(Self.prefix.count)) : file)
            path = text
        } else {
            guard Self.isName(text) else {
                throw PluginError(
                    plugin: escaped(text),
                    code: .unavailable,
                    message: "a plugin is a name (letters, digits, - _ .) or an absolute path"
                )
            }
            name = text
            path = "\(directory)/\(Self.prefix)\(text)"
        }
        try check(destination: destination)
    }

    private init(name: String, path: String) {
        self.name = name
        self.path = path
    }

    /// The plugins in a directory by name, those that cannot be used included; none when there is no directory.
    package static func all(in directory: String) -> [PluginProgram] {
        let found = (directoryEntries(directory) ?? []).compactMap { file -> PluginProgram? in
            let name = String(file.dropFirst(prefix.count))
            guard file.hasPrefix(prefix), isName(name) else { return nil }
            return PluginProgram(name: name, path: "\(directory)/\(file)")
        }
        return Array(found.sorted { $0.name < $1.name }.prefix(1_000))
    }

    private static func isName(_ text: String) -> Bool {
        guard let first = text.utf8.first, first != UInt8(ascii: "."), first != UInt8(ascii: "-") else {
            return false
        }
        return text.utf8.count <= 100
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
                    UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }

    /// Makes sure that it may be run: an executable file outside the destination that nobody else can change.
    ///
    /// - Throws: ``PluginError`` with code `unavailable`.
    package func check(destination: String?) throws(PluginError) {
        do throws(ProgramError) {
            try physicalProgram(path, role: "plugin", destination: destination)
        } catch {
            throw PluginError(
                plugin: name,
                code: .unavailable,
                message: error.message.hasSuffix(".") ? String(error.message.dropLast()) : error.message
            )
        }
    }
}
