// swift-tools-version: 6.2
// An example for the library SyncKit. From a checkout of syncagent:
//
//   swift build --package-path Examples/EmbeddedServer
//
// In a package of your own, the dependency is the URL of the repository in place of the path.
import PackageDescription

let package = Package(
    name: "embedded-server",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "syncagent", path: "../..")],
    targets: [
        .executableTarget(
            name: "embedded-server",
            dependencies: [.product(name: "SyncKit", package: "syncagent")],
            swiftSettings: [.swiftLanguageMode(.v6)]
        )
    ]
)
