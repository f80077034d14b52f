import SyncModel
package import SyncPlugins
import SyncSystem

/// A program that is a plugin: its path and its name.
package struct PluginProgram: Sendable, Hashable {
    /// `NAME` of `syncagent-plugin-NAME`; otherwise the file name.
    package let name: String
    /// Absolute, as configured.
    package let path: String

    /// The prefix of the file name of a plugin in the directory.
    package static let prefix = "syncagent-plugin-"
}

extension PluginProgram {
    /// Finds a plugin by name in a directory, or by absolute path. Never in the working directory.
    ///
    /// - Parameters:
    ///   - text: `NAME` or `/path/program`.
    ///   - directory: Absolute.
    ///   - destination: The tree from which nothing may run, even through symbolic links; `nil` if nothing is pulled.
    /// - Throws: ``PluginError`` with code `unavailable`.
    package init(_ text: String, directory: String, destination: String?) throws(PluginError) {
        if text.hasPrefix("/") {
            let file = text.split(separator: "/").last.map(String.init) ?? ""
            name = escaped(file.hasPrefix(Self.prefix) ? String(file.dropFirst(Self.prefix.count)) : file)
            path = text
        } else {
            guard Self.isName(text) else {
                throw PluginError(
                    plugin: escaped(text), code: .unavailable,
                    message: "a plugin is a name (letters, digits, - _ .) or an absolute path")
            }
            name = text
            path = "\(directory)/\(Self.prefix)\(text)"
        }
        try check(destination: destination)
    }

    /// The plugins in a directory by name, including unusable ones; none if there is no directory.
    package static func all(in directory: String) -> [PluginProgram] {
        let found = ((try? directoryEntries(directory)) ?? []).compactMap { file -> PluginProgram? in
            let name = String(file.dropFirst(prefix.count))
            guard file.hasPrefix(prefix), isName(name) else { return nil }
            return PluginProgram(name: name, path: "\(directory)/\(file)")
        }
        return Array(found.sorted { $0.name < $1.name }.prefix(1_000))
    }

    private static func isName(_ text: String) -> Bool {
        guard let first = text.utf8.first, first != UInt8(ascii: "."), first != UInt8(ascii: "-") else { return false }
        return text.utf8.count <= 100 && text.utf8.allSatisfy { isAlphanumeric($0) || "-_.".utf8.contains($0) }
    }

    /// Checks that it may run: an executable file outside the destination that nobody else can change.
    ///
    /// - Throws: ``PluginError`` with code `unavailable`.
    package func check(destination: String?) throws(PluginError) {
        do throws(ProgramError) { try physicalProgram(path, role: "plugin", destination: destination) } catch {
            throw PluginError(
                plugin: name, code: .unavailable,
                message: error.message.hasSuffix(".") ? String(error.message.dropLast()) : error.message)
        }
    }
}

/// A running plugin, with this side's ends of its three pipes.
final class PluginChild {
    let program: StartedProgram
    private var writer: SharedDescriptor?
    private let outputReader: SharedDescriptor
    private let errorReader: SharedDescriptor

    /// Its standard input; -1 once closed. Non-blocking.
    var input: Int32 { writer?.raw ?? -1 }
    /// Its standard output. Non-blocking.
    var output: Int32 { outputReader.raw }
    /// Its standard error. Non-blocking.
    var error: Int32 { errorReader.raw }

    /// Starts a program with limits; it inherits no descriptors but the pipes.
    ///
    /// - Throws: ``ProgramError``; nothing is left running.
    init(start path: String, variables: [String], limits: ProgramStart.Limits) throws(ProgramError) {
        // A pipe is made with a non-blocking reader; here the plugin reads, and this process must not block when it
        // writes.
        guard let input = Pipe(), let output = Pipe(), let error = Pipe(), setBlocking(input.reader.raw, true) == nil,
            setBlocking(input.writer.raw, false) == nil
        else { throw .system("make pipes for", path, .last) }
        var start = ProgramStart([path], variables: variables)
        start.input = input.reader.raw
        start.output = output.writer.raw
        start.error = error.writer.raw
        start.mask = 0o077
        start.limits = limits
        do throws(FileError) {
            program = try withExtendedLifetime((input, output, error)) { () throws(FileError) in try start.start() }
        } catch { throw ProgramError(error) }
        writer = input.writer
        outputReader = output.reader
        errorReader = error.reader
    }

    func closeInput() { writer = nil }

    /// Ends the rest of the process group, then reaps the leader: in this order, the group's number is still its own.
    func reap() -> String {
        program.signalGroup(.kill)
        return switch program.reap() {
        case .exited(let status): status == 0 ? "it exited by itself" : "it exited with status \(status)"
        case .signalled(let number): "it was killed by signal \(number) (\(Signal(rawValue: number)))"
        case .unknown, nil: "it ended"
        }
    }
}
