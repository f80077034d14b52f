import Testing

/// The arrows of the package: which modules a target's files may name. What is not listed is a mistake.
private let allowedImports: [String: Set<String>] = [
    "SyncModel": [],
    "SyncSystem": ["SyncModel", "CPosix"],
    "SyncPlugins": ["SyncModel"],
    "SyncManifest": ["SyncModel"],
    "SyncPlanner": ["SyncModel", "SyncManifest"],
    "SyncDigest": ["SyncModel", "COpenSSL"],
    "SyncCompression": ["SyncModel", "CZstd"],
    "SyncTransfer": ["SyncModel", "SyncPlugins", "CCurl", "SyncSystem", "CPosix", "Dispatch"],
    // What people configure, put into the transport's words.
    "SyncSettings": ["SyncModel", "SyncSystem", "SyncPlugins", "SyncTransfer", "Foundation"],
    "SyncFiles": ["SyncModel", "SyncDigest", "SyncSystem", "CPosix"],
    "SyncUnpack": [
        "SyncModel", "SyncPlugins", "SyncPlanner", "SyncDigest", "SyncCompression", "SyncSystem", "CPosix",
    ],
    // GRDB takes and gives bytes as Foundation's Data.
    "SyncStore": ["SyncModel", "GRDB", "SyncSystem", "CPosix", "CSQLite", "Foundation"],
    // Reads the store, shows and tells; events are JSON, which is Foundation's to parse.
    "SyncReport": ["SyncModel", "SyncStore", "Foundation"],
    "SyncHooks": ["SyncModel", "SyncPlugins", "Subprocess", "SyncSystem", "CPosix"],
    // Starts programs as hooks are started; waits for answers with Dispatch's semaphore.
    "SyncPluginProcess": ["SyncModel", "SyncPlugins", "SyncHooks", "SyncSystem", "CPosix", "Dispatch"],
    // Asks plugins, those that are programs as well, from several threads at once.
    "SyncPluginChecks": ["SyncPlugins", "SyncPluginProcess", "SyncModel", "Dispatch"],
    "SyncPublisher": [
        "SyncModel", "SyncManifest", "SyncDigest", "SyncCompression", "SyncFiles", "SyncSystem", "CPosix",
    ],
    // Not SyncTransfer and not SyncHooks: they arrive as plugins, so the engine is tested without libcurl.
    "SyncEngine": [
        "SyncModel", "SyncPlugins", "SyncManifest", "SyncPlanner", "SyncDigest", "SyncCompression",
        "SyncUnpack", "SyncFiles", "SyncStore", "SyncSystem", "CPosix",
    ],
    // libmicrohttpd is named here and nowhere else.
    "SyncHTTPServer": ["SyncSystem", "CMicroHTTPD", "CPosix"],
    "SyncServer": ["SyncModel", "SyncHTTPServer"],
    // JSON on the socket is Foundation's.
    "SyncControl": ["SyncModel", "Foundation"],
    // Time zones are Foundation's: their data and its forms are the system's matter.
    "SyncSchedule": ["SyncModel", "SyncSystem", "CPosix", "Foundation"],
    // Threads are Foundation's, waiting for one with a deadline is Dispatch's; the calendar is SyncSchedule's.
    "SyncConditions": [
        "SyncModel", "SyncPlugins", "SyncSchedule", "SyncSystem", "CPosix", "Dispatch", "Foundation",
    ],
    // Threads are Foundation's.
    "SyncDaemon": [
        "SyncModel", "SyncPlugins", "SyncConditions", "SyncControl", "SyncEngine", "SyncStore", "SyncReport",
        "SyncSchedule",
        "Foundation",
    ],
    // HTTP in front of whatever implements AgentControl: it knows neither the engine nor the store.
    "SyncControlServer": ["SyncModel", "SyncControl", "SyncHTTPServer", "SyncSystem", "CPosix", "Logging"],
    // For programs: the control API and libcurl, nothing of the agent itself. JSON and threads are Foundation's.
    "SyncAgent": ["SyncModel", "SyncControl", "SyncSystem", "CPosix", "CCurl", "Foundation"],
    // The one composition root.
    "SyncCommands": [
        "SyncModel", "SyncPlugins", "SyncManifest", "SyncPlanner", "SyncEngine", "SyncTransfer", "SyncHooks",
        "SyncSettings", "SyncStore", "SyncCompression", "SyncDigest", "SyncFiles", "SyncPublisher",
        "SyncServer",
        "SyncControl", "SyncControlServer", "SyncAgent", "SyncDaemon", "SyncSchedule", "SyncConditions",
        "SyncPluginProcess",
        "SyncPluginChecks",
        "SyncReport", "SyncSystem", "CPosix", "ArgumentParser", "Logging", "Foundation",
    ],
    "syncagent": ["SyncCommands"],
    "SyncTestKit": [
        "SyncModel", "SyncPlugins", "SyncManifest", "SyncDigest", "SyncCompression", "SyncSystem", "CPosix",
        "CLibSSL",
        "Foundation",
    ],
    // Each inner piece by itself, as its target has it; processes are Foundation's.
    "SyncBenchmarks": [
        "SyncBenchmarkAllocations", "SyncModel", "SyncPlugins", "SyncManifest", "SyncPlanner", "SyncDigest",
        "SyncCompression", "SyncFiles", "SyncUnpack", "SyncEngine", "SyncSystem", "CPosix", "Foundation",
    ],
]

/// Parts of the language's own library and of the system that every target may use.
private let allowedEverywhere: Set<String> = ["Swift", "Synchronization", "Glibc", "Musl", "Darwin"]

/// The modules that a file imports, and on which line.
private func imports(of source: SourceText) -> [(line: Int, module: String)] {
    source.bareCode.enumerated().compactMap { index, text in
        let words = text.split(separator: " ").filter { !$0.hasPrefix("@") }
        guard let keyword = words.firstIndex(of: "import"), keyword + 1 < words.count,
            words[..<keyword].allSatisfy({
                ["public", "package", "internal", "fileprivate", "private"].contains($0)
            })
        else { return nil }
        let kinds: Set<Substring> = [
            "struct", "class", "enum", "protocol", "func", "var", "let", "typealias",
        ]
        let name = kinds.contains(words[keyword + 1]) ? words.last : words[keyword + 1]
        return name.flatMap { $0.split(separator: ".").first }.map { (index + 1, String($0)) }
    }
}

/// What is wrong with a file's imports.
private func unlistedImports(of source: SourceText) -> [String] {
    guard let allowed = allowedImports[source.target] else {
        return ["\(source.path): target \(source.target) has no line in the table of imports"]
    }
    return imports(of: source)
        .filter { !allowed.contains($0.module) && !allowedEverywhere.contains($0.module) }
        .map { "\(source.path):\($0.line): \(source.target) may not import \($0.module)" }
}

@Suite(.timeLimit(.minutes(1)))
struct ImportTests {
    @Test("Imports follow the arrows of the package")
    func arrows() throws {
        let benchmarks = try SourceText.all(below: "Tests").filter { $0.target == "SyncBenchmarks" }
        #expect(benchmarks.count > 5, "they are where this test looks for them")
        let sources = try SourceText.all(below: "Sources") + benchmarks
        #expect(sources.count > 50, "the tree is where this test looks for it")
        #expect(sources.flatMap(unlistedImports) == [])
    }

    @Test(
        "The check finds imports however they are written",
        arguments: [
            "import SyncTransfer", "package import SyncTransfer", "@testable import SyncTransfer",
            "@preconcurrency package import SyncTransfer", "import struct SyncTransfer.EasyHandle",
            "internal import class SyncTransfer.CurlDriver", "import SyncTransfer.Submodule",
        ]
    )
    func canFail(line: String) {
        let source = SourceText(path: "Sources/SyncEngine/Bad.swift", text: "import SyncModel\n\(line)\n")
        #expect(
            unlistedImports(of: source) == [
                "Sources/SyncEngine/Bad.swift:2: SyncEngine may not import SyncTransfer"
            ]
        )
    }

    @Test("A target without a line in the table is refused, comments and strings are not imports")
    func otherCases() {
        #expect(unlistedImports(of: SourceText(path: "Sources/New/File.swift", text: "")).count == 1)
        let words = "// import SyncTransfer\nlet text = \"import SyncTransfer\"\n/* import SyncTransfer */"
        #expect(unlistedImports(of: SourceText(path: "Sources/SyncEngine/Good.swift", text: words)) == [])
    }
}
