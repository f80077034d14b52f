import CPosix
import SyncHooks
import SyncModel
package import SyncPlugins

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
        guard let stream = opendir(directory) else { return [] }
        defer { closedir(stream) }
        var found: [PluginProgram] = []
        while let entry = readdir(stream), found.count < 1_000 {
            let file = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            let name = String(file.dropFirst(prefix.count))
            guard file.hasPrefix(prefix), isName(name) else { continue }
            found.append(PluginProgram(name: name, path: "\(directory)/\(file)"))
        }
        return found.sorted { $0.name < $1.name }
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
        func unusable(_ message: String) -> PluginError {
            PluginError(plugin: name, code: .unavailable, message: message)
        }
        let real: String
        do throws(ProgramError) {
            real = try physicalProgram(path, role: "plugin", destination: destination)
        } catch {
            throw unusable(error.message.hasSuffix(".") ? String(error.message.dropLast()) : error.message)
        }
        let parent = real.lastIndex(of: "/").map { String(real[..<$0]) } ?? ""
        for place in [real, parent.isEmpty ? "/" : parent] {
            var status = stat()
            guard stat(place, &status) == 0 else {
                throw unusable("cannot look at \(escaped(place)): \(String(cString: strerror(sa_errno())))")
            }
            guard status.st_uid == geteuid() || status.st_uid == 0 else {
                throw unusable("\(escaped(place)) belongs to another user; it must be yours or root's")
            }
            // In a directory with the sticky bit others cannot replace the file.
            let isSticky = sa_file_kind(&status) == 1 && status.st_mode & 0o1000 != 0
            guard status.st_mode & 0o022 == 0 || isSticky else {
                throw unusable(
                    "\(escaped(place)) can be changed by others; run: chmod go-w '\(escaped(place))'"
                )
            }
        }
    }
}
