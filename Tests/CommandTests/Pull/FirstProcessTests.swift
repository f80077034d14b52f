import CommandTestSupport
import Foundation
import Testing

/// What makes a program the first process of a namespace of its own, as a container does.
private let asFirst = ["-pf", "--mount-proc"]

/// Whether a process may have such a namespace here.
private let mayBeFirst: Bool = {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
    process.arguments = asFirst + ["true"]
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return false }
    process.waitUntilExit()
    return process.terminationStatus == 0
}()

@Suite(
    "As the first process, as in a container", .timeLimit(.minutes(10)),
    .enabled(if: mayBeFirst, "SKIPPED: unshare may not make a PID namespace here"))
struct FirstProcessTests {
    @Test("What a hook leaves behind becomes the pull's own, and once it has ended nothing waits for it")
    func leftovers() throws {
        let set = try ServedSet()
        try set.script("hook.sh", "sleep 0.3 &")
        let process = set.tool.process([])
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        process.arguments =
            asFirst + [Tool.url.path, "pull", "site/manifest.json", "--into", "tower", "--hook", "./hook.sh"]
        let start = ContinuousClock.now
        let outcome = try set.tool.run(process)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(ContinuousClock.now - start < .seconds(8))
    }
}
