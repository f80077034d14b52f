import Foundation

/// What one more file costs a whole pull in system calls: the slope between a set of 200 files and one of 2,200.
enum PullCalls {
    /// Limits of calls a file. Directories hold 40 files each.
    static let limits: [Limit] = [
        .most("first pull, calls a file", 5), .most("nothing new, calls a file", 1.25),
        .most("nothing new, opens a file", 0.05),
    ]

    /// Whether ``program`` and strace are there.
    static var isPossible: Bool { SystemCalls.strace != nil && FileManager.default.isExecutableFile(atPath: program) }

    /// `$SYNCAGENT`, or the agent that was built with this program.
    static var program: String {
        ProcessInfo.processInfo.environment["SYNCAGENT"]
            ?? URL(fileURLWithPath: CommandLine.arguments.first ?? "").deletingLastPathComponent()
            .appendingPathComponent("syncagent").path
    }

    static func counts() throws -> Benchmark.Counts {
        let place = try ScratchDirectory()
        let environment = [
            "XDG_STATE_HOME": place.path + "/state", "XDG_CONFIG_HOME": place.path + "/config",
            "XDG_CACHE_HOME": place.path + "/cache", "XDG_RUNTIME_DIR": place.path, "PATH": "/usr/bin:/bin",
        ]
        var calls: [[[String: Int]]] = []
        for files in [200, 2200] {
            let (source, site, target) = (
                "\(place.path)/files\(files)", "\(place.path)/site\(files)", "\(place.path)/target\(files)"
            )
            try make(files, below: source)
            let published = try SystemCalls.status(
                of: program, ["publish", source, "--to", site, "--project", "bench.calls\(files)"], in: environment)
            guard published == 0 else { throw WrongResult("publish ends with \(published)") }
            let pull = ["pull", "\(site)/manifest.json", "--into", target, "--quiet"]
            calls.append(try (0..<2).map { _ in try SystemCalls.count(program, pull, in: environment) ?? [:] })
        }
        func slope(_ run: Int, _ isCounted: (String) -> Bool) -> Double {
            func sum(_ calls: [String: Int]) -> Int { calls.filter { isCounted($0.key) }.values.reduce(0, +) }
            return Double(sum(calls[1][run]) - sum(calls[0][run])) / 2000
        }
        return [
            "first pull, calls a file": slope(0) { _ in true }, "nothing new, calls a file": slope(1) { _ in true },
            "nothing new, opens a file": max(0, slope(1) { $0.hasPrefix("open") }),
        ]
    }

    private static func make(_ files: Int, below root: String) throws {
        var source = Bytes(seed: 6)
        for index in 0..<files {
            let path = "\(root)/\(SmallSet.path(index))"
            if index % 40 == 0 {
                let directory = (path as NSString).deletingLastPathComponent
                try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            }
            try Data(source.noise(4096)).write(to: URL(fileURLWithPath: path))
        }
    }
}
