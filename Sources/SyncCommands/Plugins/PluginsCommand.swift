import ArgumentParser
import Foundation
import SyncAssembly
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncSchedule
import SyncSystem

struct PluginsCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "plugins", abstract: "List plugins, or check one against its contract.",
        subcommands: [PluginsListCommand.self, PluginsCheckCommand.self])
}

/// The configuration of plugins and the directory of their programs.
struct PluginSource: ParsableArguments {
    @Option(
        name: .customLong("config"),
        help:
            "The configuration file.  (default: $XDG_CONFIG_HOME/syncagent/config.json over /etc/syncagent/config.json)"
            .taking("file"), completion: .file(extensions: ["json", "json5"]))
    var configurationFile: String?

    @Option(
        help: "Look for programs here instead of in the configured directory.".taking("dir"), completion: .directory)
    var directory: String?

    /// The plugin settings, with the directory of the programs.
    func settings(_ environment: EnvironmentPaths) throws -> PluginSettings {
        let base = environment.pathBase
        var settings = PluginSettings()
        if let configurationFile {
            let path = try base.absolute(configurationFile)
            guard let file = try ConfigurationFile.read(path, home: base.home) else {
                throw SettingsError("\(escaped(path)): there is no such configuration file")
            }
            settings = file.plugins
        } else {
            settings = try ConfigurationFile.usual(environment.configurationFiles, home: base.home).plugins
        }
        if let directory { settings.directory = try base.absolute(directory) }
        settings.directory = settings.directory ?? environment.host.pluginDirectory
        return settings
    }
}

struct PluginsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List built-in plugins, and the programs in the plugin directory with their own descriptions.",
        discussion: """
            Starts each program without settings and asks for its name and extension points. A program that cannot be \
            used is listed with the reason. Exit status: 0.
            """)

    @OptionGroup(title: "Plugins") var source: PluginSource

    @Flag(help: "Print JSON, one object per line.") var json = false

    func run() async throws {
        let output = Output()
        let environment = EnvironmentPaths.ofProcess
        let settings = try source.settings(environment)
        let rows = try await onThread("plugins") { PluginRow.all(settings, environment.host) }
        if json {
            for row in rows { output.line(row.json.text) }
            return
        }
        let table = [["NAME", "POINTS", "VERSION", "WHAT"]] + rows.map(\.cells)
        for line in tableLines(table) { output.line(line) }
        let programs = rows.count { $0.path != nil }
        if programs == 0 { output.message("No programs in \(escaped(settings.directory ?? "")).") }
    }
}

/// One plugin of the list.
struct PluginRow: Sendable {
    var name: String
    var points: [PluginPoint]
    var version: String?
    /// The program's path, absolute; `nil` for a built-in plugin.
    var path: String?
    /// Why the plugin cannot be used.
    var fault: String?

    var cells: [String] {
        let what = path.map { escaped($0) + (fault.map { ": cannot be used: \(escaped($0))" } ?? "") } ?? "built-in"
        return [escaped(name), points.map(\.rawValue).joined(separator: ","), version ?? "", what]
    }

    var json: JSONLine {
        JSONLine.object { line in
            line.field("name", name)
            line.field("points", points.map(\.rawValue))
            line.field("built_in", path == nil)
            line.field("version", optional: version)
            line.field("path", optional: path)
            if path != nil, fault == nil, points != [.source] {
                line.field("protocol", PluginDescription.protocolVersion)
            }
            line.field("fault", optional: fault)
        }
    }

    /// Built-ins by name, then the directory's programs, then programs that the configuration names by path.
    static func all(_ settings: PluginSettings, _ host: HostEnvironment) -> [PluginRow] {
        var points: [String: [PluginPoint]] = [:]
        for point in PluginPoint.allCases {
            for name in point.descriptor.builtIn { points[name, default: []].append(point) }
        }
        let builtIn = points.sorted { $0.key < $1.key }.map { PluginRow(name: $0.key, points: $0.value) }
        var programs = PluginProgram.all(in: settings.directory ?? host.pluginDirectory)
        var faults: [PluginRow] = []
        let known = Set(programs.map(\.path))
        for path in Set(settings.uses.map(\.plugin).filter { $0.hasPrefix("/") }).sorted() where !known.contains(path) {
            do throws(PluginError) { programs.append(try PluginProgram(path, directory: "/", destination: nil)) } catch
            { faults.append(PluginRow(name: error.plugin, points: [], path: path, fault: error.message)) }
        }
        let rows = programs.map { program in
            settings.isSource(program.name) || settings.isSource(program.path) ? looked(program) : asked(program, host)
        }
        return builtIn + rows + faults
    }

    /// The row of a program that makes manifests: it has no protocol, and is not started.
    private static func looked(_ program: PluginProgram) -> PluginRow {
        var row = PluginRow(name: program.name, points: [.source], path: program.path)
        do throws(PluginError) { try program.check(destination: nil) } catch { row.fault = error.message }
        return row
    }

    /// The row of a program, which is started for its description.
    private static func asked(_ program: PluginProgram, _ host: HostEnvironment) -> PluginRow {
        var configuration = host.configuration(program, nil) { _ in }
        configuration.restart.mostEnds = 1
        configuration.limits.start = .seconds(5)
        let client = PluginClient(configuration)
        defer { client.close() }
        var row = PluginRow(name: program.name, points: [], path: program.path)
        do throws(PluginError) {
            let description = try client.describe()
            row.points = description.points
            row.version = description.version
        } catch { row.fault = error.message }
        return row
    }
}
