// swift-tools-version: 6.2
import PackageDescription

// One list of settings for every Swift target: strict concurrency, explicit imports, no warning survives.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6), .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"), .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let database = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")

func library(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], resources: [Resource] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies, resources: resources, swiftSettings: strict)
}

let package = Package(
    name: "syncagent", platforms: [.macOS(.v15)],
    products: [
        .executable(name: "syncagent", targets: ["syncagent"]), .library(name: "SyncAgent", targets: ["SyncAgent"]),
        .library(name: "SyncKit", targets: ["SyncKit"]), .library(name: "SyncPlugins", targets: ["SyncPlugins"]),
        .library(name: "SyncTestKit", targets: ["SyncTestKit"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
    ],
    targets: [
        // C libraries, as module maps over the system's packages.
        .systemLibrary(
            name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"]), .brew(["curl"])]),
        .systemLibrary(
            name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]),
        .systemLibrary(name: "CLibSSL", pkgConfig: "libssl", providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"]), .brew(["zstd"])]),
        .systemLibrary(
            name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"]), .brew(["sqlite"])]),
        .systemLibrary(
            name: "CMicroHTTPD", pkgConfig: "libmicrohttpd",
            providers: [.apt(["libmicrohttpd-dev"]), .brew(["libmicrohttpd"])]), .systemLibrary(name: "CPosix"),

        // Values and rules, no I/O.
        library("SyncModel", []), tests("SyncModelTests", ["SyncModel"]),
        // The ground floor: files and directories, and whom they may belong to.
        library("SyncSystem", ["SyncModel", "CPosix"]),
        tests("SyncSystemTests", ["SyncSystem", "SyncModel", "SyncTestKit"]), library("SyncPlugins", ["SyncModel"]),
        library("SyncManifest", ["SyncModel"]),
        tests("SyncManifestTests", ["SyncModel", "SyncManifest", "SyncDigest", "SyncCompression"]),
        library("SyncPlanner", ["SyncModel", "SyncManifest"]),
        tests("SyncPlannerTests", ["SyncPlanner", "SyncManifest", "SyncModel"]),

        // One step of the flow each.
        library("SyncDigest", ["SyncModel", "COpenSSL"]), library("SyncCompression", ["SyncModel", "CZstd"]),
        // Who may say what is newest: keys, signed statements, and when they are believed. No I/O.
        library("SyncTrust", ["SyncModel", "SyncManifest", "SyncDigest", "COpenSSL"]),
        tests("SyncTrustTests", ["SyncTrust", "SyncModel"]),
        // libcurl: handles, URLs, what an answer says, one call.
        library("SyncCurl", ["SyncModel", "CCurl"]), tests("SyncCurlTests", ["SyncCurl", "SyncTestKit"]),
        library("SyncTransfer", ["SyncModel", "SyncSystem", "SyncPlugins", "SyncCurl", "CCurl", "COpenSSL", "CPosix"]),
        library("SyncSettings", ["SyncModel", "SyncSystem", "SyncPlugins", "SyncControl", "SyncCurl", "SyncTransfer"]),
        tests(
            "SyncSettingsTests",
            ["SyncSettings", "SyncCurl", "SyncTransfer", "SyncPlugins", "SyncModel", "SyncTestKit"]),
        library("SyncFiles", ["SyncModel", "SyncSystem", "SyncDigest"]),
        tests("SyncFilesTests", ["SyncFiles", "SyncSystem", "SyncDigest", "SyncModel", "SyncUnpack", "SyncTestKit"]),
        library(
            "SyncUnpack", ["SyncModel", "SyncSystem", "SyncPlugins", "SyncPlanner", "SyncDigest", "SyncCompression"]),
        tests(
            "SyncUnpackTests", ["SyncUnpack", "SyncSystem", "SyncPlanner", "SyncPlugins", "SyncModel", "SyncTestKit"]),
        library("SyncStore", ["SyncModel", "SyncSystem", "CSQLite", database]),
        // What sessions did, for people, programs and Prometheus.
        library("SyncReport", ["SyncModel", "SyncStore"]),
        tests("SyncReportTests", ["SyncReport", "SyncStore", "SyncModel"]),
        library("SyncHooks", ["SyncModel", "SyncSystem", "SyncPlugins", "SyncCurl", "CCurl"]),
        // Plugins that are programs of their own.
        library("SyncPluginProcess", ["SyncModel", "SyncSystem", "SyncPlugins", "SyncHooks"]),
        // What every plugin must do, for people who write one and for tests.
        library("SyncPluginChecks", ["SyncSystem", "SyncPlugins", "SyncPluginProcess", "SyncModel", "SyncDigest"]),
        tests(
            "SyncPluginProcessTests",
            ["SyncPluginProcess", "SyncPluginChecks", "SyncPlugins", "SyncModel", "SyncSystem", "SyncTestKit"]),
        tests(
            "PluginContractTests",
            [
                "SyncPluginChecks", "SyncTransfer", "SyncConditions", "SyncHooks", "SyncPlugins", "SyncModel",
                "SyncTestKit",
            ]),
        library(
            "SyncPublisher",
            ["SyncModel", "SyncSystem", "SyncManifest", "SyncDigest", "SyncCompression", "SyncFiles", "SyncTrust"]),
        tests(
            "SyncPublisherTests",
            ["SyncPublisher", "SyncModel", "SyncManifest", "SyncDigest", "SyncCompression", "SyncTrust", "SyncTestKit"]),

        // The order of the steps.
        library(
            "SyncEngine",
            [
                "SyncModel", "SyncPlugins", "SyncManifest", "SyncPlanner", "SyncDigest", "SyncCompression",
                "SyncUnpack", "SyncSystem", "SyncFiles", "SyncStore", "SyncTrust", "SyncReport",
            ]),
        tests(
            "SyncEngineTests",
            [
                "SyncEngine", "SyncSystem", "SyncPlugins", "SyncModel", "SyncManifest", "SyncDigest", "SyncUnpack",
                "SyncFiles", "SyncStore", "SyncReport", "SyncTestKit", database,
            ]),

        // What people and programs reach.
        // HTTP/1.1 on a port or a Unix socket: who may connect, for how long, and what goes out.
        library("SyncHTTPServer", ["SyncSystem", "CMicroHTTPD", "CPosix"]),
        tests("SyncHTTPServerTests", ["SyncHTTPServer"]),
        library("SyncServer", ["SyncSystem", "SyncModel", "SyncHTTPServer"]),
        tests("SyncServerTests", ["SyncServer", "SyncHTTPServer", "SyncModel"]),
        // The control API of the agent: what is said on the socket.
        library("SyncControl", ["SyncModel"]),
        // When to pull: calendars, systemd's timers, cron, the agent's own clock.
        library("SyncSchedule", ["SyncModel", "SyncSystem", "SyncControl"]),
        tests("SyncScheduleTests", ["SyncSchedule", "SyncModel"]),
        // Whether a run may go on now: what the machine says of power, network, load, people, space and time.
        library("SyncConditions", ["SyncModel", "SyncSystem", "SyncPlugins", "SyncSchedule"]),
        tests("SyncConditionsTests", ["SyncConditions", "SyncSchedule", "SyncPlugins", "SyncModel", "SyncTestKit"]),
        // The process that works on runs nobody waits for.
        library(
            "SyncDaemon",
            [
                "SyncModel", "SyncSystem", "SyncPlugins", "SyncConditions", "SyncControl", "SyncEngine", "SyncStore",
                "SyncReport", "SyncSchedule",
            ]),
        tests(
            "SyncDaemonTests",
            [
                "SyncDaemon", "SyncConditions", "SyncControl", "SyncEngine", "SyncStore", "SyncHooks", "SyncTransfer",
                "SyncPlugins", "SyncReport", "SyncModel", "SyncSchedule", "SyncTestKit", database,
            ]),
        library("SyncControlServer", ["SyncControl", "SyncHTTPServer", "SyncModel", "SyncSystem", "CPosix", logging]),
        // An agent in memory and a server in front of it, for the tests of both ends; never shipped.
        .target(
            name: "SyncControlFixture", dependencies: ["SyncControl", "SyncControlServer", "SyncModel", logging],
            path: "Tests/SyncControlFixture", swiftSettings: strict),
        tests("SyncControlServerTests", ["SyncControlServer", "SyncControl", "SyncControlFixture", "SyncModel"]),
        // An engine with everything around it, for commands, for the agent and for programs that embed it.
        library(
            "SyncAssembly",
            [
                "SyncModel", "SyncSystem", "SyncPlugins", "SyncEngine", "SyncCurl", "SyncTransfer", "SyncHooks",
                "SyncStore", "SyncCompression",
            ]),
        // What a configuration and a recipe say, made into engines and plugins.
        library(
            "SyncConfiguration",
            [
                "SyncModel", "SyncSystem", "SyncPlugins", "SyncManifest", "SyncCurl", "SyncTransfer", "SyncHooks",
                "SyncStore", "SyncTrust", "SyncEngine", "SyncAssembly", "SyncSettings", "SyncConditions",
                "SyncPluginChecks", "SyncPluginProcess", "SyncControl", "SyncDaemon",
            ]),
        // Pulls in a program of one's own.
        library(
            "SyncKit",
            [
                "SyncAssembly", "SyncAgent", "SyncModel", "SyncSystem", "SyncPlugins", "SyncManifest", "SyncEngine",
                "SyncCurl", "SyncTransfer", "SyncConditions", "SyncControl", "SyncStore",
            ]), tests("SyncKitTests", ["SyncKit", "SyncTestKit", "SyncControl", "SyncModel", "SyncPlugins"]),
        // The examples of SyncKit, so that what they show compiles.
        .executableTarget(
            name: "embedded-pull-example", dependencies: ["SyncKit"],
            path: "Examples/EmbeddedPull/Sources/embedded-pull", swiftSettings: strict),
        .executableTarget(
            name: "embedded-server-example", dependencies: ["SyncKit"],
            path: "Examples/EmbeddedServer/Sources/embedded-server", swiftSettings: strict),
        library("SyncAgent", ["SyncControl", "SyncCurl", "SyncModel", "SyncSystem", "CCurl"]),
        tests("SyncAgentTests", ["SyncAgent", "SyncControl", "SyncControlFixture", "SyncControlServer", "SyncModel"]),
        library(
            "SyncCommands",
            [
                "SyncModel", "SyncSystem", "SyncPlugins", "SyncManifest", "SyncAssembly", "SyncEngine",
                "SyncConfiguration", "SyncTransfer", "SyncSettings", "SyncHooks", "SyncStore", "SyncCompression",
                "SyncPublisher", "SyncServer", "SyncTrust", "SyncControl", "SyncControlServer", "SyncAgent",
                "SyncDaemon", "SyncSchedule", "SyncFiles", "SyncDigest", "SyncConditions", "SyncPluginProcess",
                "SyncPluginChecks", "SyncReport", "SyncCurl", argumentParser, logging,
            ]),
        tests(
            "SyncCommandsTests",
            [
                "SyncCommands", "SyncSystem", "SyncModel", "SyncEngine", "SyncManifest", "SyncPublisher",
                "SyncConfiguration", "SyncSettings", "SyncCurl", "SyncTransfer", "SyncDaemon", "SyncControl",
                "SyncSchedule", "SyncStore", argumentParser,
            ]), .executableTarget(name: "syncagent", dependencies: ["SyncCommands"], swiftSettings: strict),
        // The built program as a child process and what it serves, for the tests of both targets; never shipped. It knows
        // nothing of Testing, which a build with Swift's libraries linked in does not have.
        .target(
            name: "CommandTestSupport", dependencies: ["SyncTestKit"], path: "Tests/CommandTestSupport",
            swiftSettings: strict),
        tests("CommandTests", ["syncagent", "CommandTestSupport", "SyncTestKit", "SyncSystem"]),
        // A target of its own, so that its processes and those of CommandTests do not starve each other.
        tests("SessionCommandTests", ["syncagent", "CommandTestSupport", "SyncTestKit"]),
        tests("SoundnessTests", ["SyncModel"]),

        // The inner pieces one by one: times, and counts with limits; never shipped. See Tests/run.sh.
        .target(
            name: "SyncBenchmarkAllocations", path: "Tests/SyncBenchmarks/Allocations", publicHeadersPath: "include"),
        .executableTarget(
            name: "syncagent-benchmarks",
            dependencies: [
                "SyncBenchmarkAllocations", "SyncCompression", "SyncDigest", "SyncEngine", "SyncFiles", "SyncManifest",
                "SyncModel", "SyncPlanner", "SyncPlugins", "SyncSystem", "SyncUnpack", "CPosix",
            ], path: "Tests/SyncBenchmarks/Program", swiftSettings: strict),

        // For tests here and of plugins elsewhere.
        library(
            "SyncTestKit",
            ["SyncModel", "SyncSystem", "SyncPlugins", "SyncDigest", "SyncCompression", "CLibSSL", "CPosix"]),
        tests(
            "FaultMatrixTests",
            [
                "syncagent", "SyncTestKit", "SyncPlugins", "SyncCurl", "SyncTransfer", "SyncEngine", "SyncStore",
                "SyncModel",
            ]), tests("SyncTestKitTests", ["SyncModel", "SyncTestKit", "SyncPlugins"]),
        tests(
            "SyncTransferTests", ["SyncTransfer", "SyncCurl", "SyncPlugins", "SyncModel", "SyncSystem", "SyncTestKit"]),
        // Lives in a store until SyncStoreTests kills it; never shipped.
        .executableTarget(
            name: "store-crash-helper", dependencies: ["SyncStore", "SyncModel"], path: "Tests/StoreCrashHelper",
            swiftSettings: strict),
        tests(
            "SyncStoreTests", ["SyncStore", "SyncModel", "store-crash-helper", database], resources: [.copy("Golden")]),
        tests("SyncHooksTests", ["SyncHooks", "SyncSystem", "SyncPlugins", "SyncModel", "SyncTestKit"]),
    ])
