// swift-tools-version: 6.2
// An example for the library SyncAgent. From a checkout of syncagent:
//
//   swift build --package-path Examples/watch-session
//   syncagent agent run &
//   Examples/watch-session/.build/debug/watch-session com.example.tower https://cdn.example.com/tower/manifest.json /srv/tower
//
// In a package of your own, the dependency is the URL of the repository in place of the path.
import PackageDescription

let package = Package(
    name: "watch-session",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "syncagent", path: "../..")],
    targets: [
        .executableTarget(
            name: "watch-session",
            dependencies: [.product(name: "SyncAgent", package: "syncagent")],
            swiftSettings: [.swiftLanguageMode(.v6)]
        )
    ]
)
