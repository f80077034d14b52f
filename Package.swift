// swift-tools-version: 6.2
import PackageDescription

// One list of settings for every Swift target: strict concurrency, explicit imports, no warning survives.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

// For modules that do not themselves fetch, unpack, place or publish files: compiled for size, which takes a tenth less
// time. Documentation/development/Performance.md has the figures.
let compact = strict + [.unsafeFlags(["-Osize"], .when(configuration: .release))]

// For those of them that everything else comes before, so that nothing is left to compile beside them: in parts, on all
// processors.
let compactInParts =
    compact + [.unsafeFlags(["-no-whole-module-optimization", "-enable-batch-mode"], .when(configuration: .release))]

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let database = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")

func library(_ name: String, _ dependencies: [Target.Dependency], settings: [SwiftSetting] = strict) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], resources: [Resource] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies, resources: resources, swiftSettings: strict)
}

let package = Package(
    name: "syncagent",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "syncagent", targets: ["syncagent"]),
        .library(name: "SyncAgent", targets: ["SyncAgent"]),
        .library(name: "SyncKit", targets: ["SyncKit"]),
        .library(name: "SyncPlugins", targets: ["SyncPlugins"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
    ],
    targets: [
        // C libraries, as module maps over the system's packages.
        .systemLibrary(
            name: "CCurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"]), .brew(["curl"])]
        ),
        .systemLibrary(
            name: "COpenSSL",
            pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]
        ),
        .systemLibrary(
            name: "CLibSSL",
            pkgConfig: "libssl",
            providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]
        ),
        .systemLibrary(
            name: "CZstd",
            pkgConfig: "libzstd",
            providers: [.apt(["libzstd-dev"]), .brew(["zstd"])]
        ),
        .systemLibrary(
            name: "CSQLite",
            pkgConfig: "sqlite3",
            providers: [.apt(["libsqlite3-dev"]), .brew(["sqlite"])]
        ),
        .systemLibrary(
            name: "CMicroHTTPD",
            pkgConfig: "libmicrohttpd",
            providers: [.apt(["libmicrohttpd-dev"]), .brew(["libmicrohttpd"])]
        ),
        .systemLibrary(name: "CPosix"),

        // Values and rules, no I/O.
        library("SyncModel", []),
        tests("SyncModelTests", ["SyncModel"]),
        // The ground floor: files and directories and whom they may belong to, programs, threads, clocks; and libcurl: handles,
        // URLs, what an answer says, one call.
        library("SyncSystem", ["SyncModel", "CPosix", "CCurl"]),
        tests("SyncSystemTests", ["SyncSystem", "SyncModel", "SyncTestKit"]),
        tests("SyncCurlTests", ["SyncSystem", "CCurl", "SyncTestKit"]),
        library("SyncPlugins", ["SyncModel"]),
        // The format, planning, and what others publish in place of a manifest: bytes of a listing in, a manifest out. No I/O.
        library("SyncManifest", ["SyncModel"]),
        tests("SyncManifestTests", ["SyncModel", "SyncManifest", "SyncContent"]),
        tests("SyncSourcesTests", ["SyncManifest", "SyncModel"]),
        tests("SyncPlannerTests", ["SyncManifest", "SyncModel"]),
        // What files are made of: SHA-256, Zstandard, and how spans of packs become files.
        library("SyncContent", ["SyncModel", "COpenSSL", "CZstd", "SyncSystem", "SyncPlugins", "SyncManifest"]),
        // Who may say what is newest: keys, signed statements, and when they are believed. No I/O.
        library("SyncTrust", ["SyncModel", "SyncManifest", "SyncContent", "COpenSSL"], settings: compact),
        tests("SyncTrustTests", ["SyncTrust", "SyncModel", "SyncContent"]),
        library("SyncTransfer", ["SyncModel", "SyncSystem", "SyncPlugins", "CCurl", "COpenSSL", "CPosix"]),
        tests(
            "SyncSettingsTests",
            ["SyncAssembly", "SyncSystem", "SyncTransfer", "SyncRemotes", "SyncPlugins", "SyncModel", "SyncTestKit"]),
        library("SyncFiles", ["SyncModel", "SyncSystem", "SyncContent", "SyncManifest"]),
        tests(
            "SyncFilesTests", ["SyncFiles", "SyncSystem", "SyncContent", "SyncManifest", "SyncModel", "SyncTestKit"]),
        tests(
            "SyncUnpackTests",
            ["SyncContent", "SyncSystem", "SyncManifest", "SyncPlugins", "SyncModel", "SyncTestKit"]),
        library("SyncStore", ["SyncModel", "SyncSystem", "CSQLite", database]),
        // What sessions did, for people, programs and Prometheus.
        library("SyncReport", ["SyncModel", "SyncStore"], settings: compact),
        tests("SyncReportTests", ["SyncReport", "SyncStore", "SyncModel"]),
        // Plugins and hooks that are programs of their own, and what every plugin must do.
        library(
            "SyncPluginHost", ["SyncModel", "SyncSystem", "SyncPlugins", "CCurl", "SyncContent"], settings: compact),
        tests("SyncPluginProcessTests", ["SyncPluginHost", "SyncPlugins", "SyncModel", "SyncSystem", "SyncTestKit"]),
        tests(
            "PluginContractTests",
            ["SyncPluginHost", "SyncTransfer", "SyncSchedule", "SyncPlugins", "SyncModel", "SyncTestKit"]),
        library("SyncPublisher", ["SyncModel", "SyncSystem", "SyncManifest", "SyncContent", "SyncFiles", "SyncTrust"]),
        tests(
            "SyncPublisherTests",
            ["SyncPublisher", "SyncModel", "SyncManifest", "SyncContent", "SyncTrust", "SyncTestKit"]),
        // Where sets come from and go to that others run: buckets, registries, git repositories with large files in LFS.
        library(
            "SyncRemotes",
            [
                "SyncModel", "SyncSystem", "SyncPlugins", "SyncManifest", "SyncContent", "CCurl", "SyncTransfer",
                "SyncPublisher",
            ], settings: compact),
        tests("SyncS3Tests", ["SyncRemotes", "SyncModel", "SyncTestKit"], resources: [.copy("Vectors")]),
        tests("SyncLFSTests", ["SyncRemotes", "SyncPlugins", "SyncModel", "SyncSystem", "SyncTestKit"]),
        // The order of the steps.
        library(
            "SyncEngine",
            [
                "SyncModel", "SyncPlugins", "SyncManifest", "SyncContent", "SyncSystem", "SyncFiles", "SyncStore",
                "SyncTrust", "SyncReport",
            ]),
        tests(
            "SyncEngineTests",
            [
                "SyncEngine", "SyncSystem", "SyncPlugins", "SyncModel", "SyncManifest", "SyncContent", "SyncFiles",
                "SyncStore", "SyncReport", "SyncTestKit", database,
            ]),
        // What people and programs reach.
        // HTTP/1.1 on a port or a Unix socket: who may connect, for how long, and what goes out; published directories on it,
        // and a cache in front of one: one copy a site.
        library(
            "SyncServer",
            ["SyncModel", "SyncSystem", "SyncPlugins", "SyncManifest", "SyncContent", "CMicroHTTPD", "CPosix"],
            settings: compact),
        tests("SyncHTTPServerTests", ["SyncServer", "SyncSystem"]),
        tests("SyncServerTests", ["SyncServer", "SyncModel"]),
        tests("SyncCacheTests", ["SyncServer", "SyncContent", "SyncModel", "SyncSystem", "SyncTestKit"]),
        // The control API of the agent, and its client.
        library("SyncAgent", ["SyncModel", "SyncSystem", "CCurl"], settings: compact),
        // When to pull: calendars, systemd's timers, cron, the agent's own clock; and whether a run may go on now: what the
        // machine says of power, network, load, people, space and time.
        library("SyncSchedule", ["SyncModel", "SyncSystem", "SyncAgent", "SyncPlugins"], settings: compact),
        tests("SyncScheduleTests", ["SyncSchedule", "SyncModel"]),
        tests("SyncConditionsTests", ["SyncSchedule", "SyncPlugins", "SyncModel", "SyncTestKit"]),
        // What settings and a recipe say, made into an engine with everything around it: for commands, for the agent and for
        // programs that embed it.
        library(
            "SyncAssembly",
            [
                "SyncModel", "SyncSystem", "SyncPlugins", "SyncManifest", "SyncContent", "CCurl", "SyncTransfer",
                "SyncPluginHost", "SyncStore", "SyncTrust", "SyncEngine", "SyncSchedule", "SyncRemotes",
                "SyncPublisher",
            ], settings: compactInParts),
        // The agent: the process that works on runs nobody waits for, and its socket.
        library(
            "SyncDaemon",
            [
                "SyncModel", "SyncSystem", "SyncPlugins", "SyncSchedule", "SyncAgent", "SyncEngine", "SyncStore",
                "SyncReport", "SyncServer", "SyncAssembly", logging,
            ], settings: compactInParts),
        tests(
            "SyncDaemonTests",
            [
                "SyncDaemon", "SyncAssembly", "SyncSystem", "SyncSchedule", "SyncAgent", "SyncEngine", "SyncStore",
                "SyncPluginHost", "SyncTransfer", "SyncPlugins", "SyncReport", "SyncModel", "SyncTestKit", database,
            ]),
        // An agent in memory and a server in front of it, for the tests of both ends; never shipped.
        .target(
            name: "SyncControlFixture",
            dependencies: ["SyncAgent", "SyncDaemon", "SyncModel", logging],
            path: "Tests/SyncControlFixture",
            swiftSettings: strict
        ),
        tests("SyncControlServerTests", ["SyncDaemon", "SyncAgent", "SyncControlFixture", "SyncModel", "SyncServer"]),
        // Pulls in a program of one's own.
        library(
            "SyncKit",
            [
                "SyncAssembly", "SyncAgent", "SyncModel", "SyncSystem", "SyncPlugins", "SyncManifest", "SyncEngine",
                "SyncTransfer", "SyncSchedule", "SyncStore", "SyncContent",
            ], settings: compact),
        tests("SyncKitTests", ["SyncKit", "SyncTestKit", "SyncAgent", "SyncModel", "SyncPlugins"]),
        // The examples of SyncKit, so that what they show compiles.
        .executableTarget(
            name: "embedded-pull-example",
            dependencies: ["SyncKit"],
            path: "Examples/EmbeddedPull/Sources/embedded-pull",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "embedded-server-example",
            dependencies: ["SyncKit"],
            path: "Examples/EmbeddedServer/Sources/embedded-server",
            swiftSettings: strict
        ),
        tests("SyncAgentTests", ["SyncAgent", "SyncControlFixture", "SyncDaemon", "SyncModel"]),
        library(
            "SyncCommands",
            [
                "SyncModel", "SyncSystem", "SyncPlugins", "SyncManifest", "SyncAssembly", "SyncEngine",
                "SyncTransfer", "SyncPluginHost", "SyncStore", "SyncContent", "SyncPublisher", "SyncServer",
                "SyncTrust", "SyncAgent", "SyncDaemon", "SyncSchedule", "SyncFiles", "SyncReport", "SyncRemotes",
                argumentParser, logging,
            ], settings: compactInParts),
        tests(
            "SyncCommandsTests",
            [
                "SyncCommands", "SyncSystem", "SyncModel", "SyncEngine", "SyncManifest", "SyncPublisher",
                "SyncAssembly", "SyncTransfer", "SyncDaemon", "SyncAgent", "SyncSchedule", "SyncStore", "SyncReport",
                "SyncTestKit", argumentParser,
            ]),
        .executableTarget(
            name: "syncagent",
            dependencies: ["SyncCommands"],
            swiftSettings: strict,
            // A program that is started for each small set starts a third sooner: lld comes with Swift's toolchain, and
            // writes the addresses that the loader adjusts as a table of 20 KB (RELR, glibc 2.36) in place of 2.5 MB.
            linkerSettings: [
                .unsafeFlags(
                    ["-use-ld=lld", "-Xlinker", "-z", "-Xlinker", "pack-relative-relocs"],
                    .when(platforms: [.linux], configuration: .release))
            ]
        ),
        // The built program as a child process and what it serves, for the tests of both targets; never shipped. It knows
        // nothing of Testing, which a build with Swift's libraries linked in does not have.
        .target(
            name: "CommandTestSupport",
            dependencies: ["SyncTestKit"],
            path: "Tests/CommandTestSupport",
            swiftSettings: strict
        ),
        tests("CommandTests", ["syncagent", "CommandTestSupport", "SyncTestKit", "SyncSystem"]),
        // A target of its own, so that its processes and those of CommandTests do not starve each other.
        tests("SessionCommandTests", ["syncagent", "CommandTestSupport", "SyncTestKit"]),
        tests("SoundnessTests", ["SyncModel"]),
        // The inner pieces one by one: times, and counts with limits; never shipped. See Tests/run.sh.
        .target(
            name: "SyncBenchmarkAllocations",
            path: "Tests/SyncBenchmarks/Allocations",
            publicHeadersPath: "include"
        ),
        .executableTarget(
            name: "syncagent-benchmarks",
            dependencies: [
                "SyncBenchmarkAllocations", "SyncContent", "SyncEngine", "SyncFiles", "SyncManifest", "SyncModel",
                "SyncPlugins", "SyncSystem", "CPosix",
            ],
            path: "Tests/SyncBenchmarks/Program",
            swiftSettings: strict
        ),

        // Servers with faults, sets and clocks for tests; never shipped.
        .target(
            name: "SyncTestKit",
            dependencies: ["SyncModel", "SyncSystem", "SyncPlugins", "SyncContent", "CLibSSL", "CPosix"],
            path: "Tests/SyncTestKit", swiftSettings: strict),
        tests(
            "FaultMatrixTests",
            [
                "syncagent", "SyncTestKit", "SyncPlugins", "SyncSystem", "SyncTransfer", "SyncEngine", "SyncStore",
                "SyncModel",
            ]),
        tests("SyncTestKitTests", ["SyncModel", "SyncTestKit", "SyncPlugins"]),
        tests(
            "SyncTransferTests",
            ["SyncTransfer", "SyncSystem", "SyncPlugins", "SyncModel", "SyncTestKit"]),
        // Lives in a store until SyncStoreTests kills it; never shipped.
        .executableTarget(
            name: "store-crash-helper",
            dependencies: ["SyncStore", "SyncModel"],
            path: "Tests/StoreCrashHelper",
            swiftSettings: strict
        ),
        tests(
            "SyncStoreTests",
            ["SyncStore", "SyncModel", "SyncSystem", "store-crash-helper", database], resources: [.copy("Golden")]),
        tests("SyncHooksTests", ["SyncPluginHost", "SyncSystem", "SyncPlugins", "SyncModel", "SyncTestKit"]),
    ]
)
