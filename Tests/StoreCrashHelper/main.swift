import Glibc
import SyncModel
import SyncStore

// Takes a session, and lives whole runs of it, one after the other, until it is killed; says on standard output
// what it has been promised. `store-crash-helper STATE SESSION`

/// Writes one line at once: what is told has happened, and nothing waits in a buffer when the kill comes.
func tell(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = write(1, bytes, bytes.count)
}

let arguments = CommandLine.arguments
let session = StoredSession(
    identifier: arguments[2], project: "com.example.crash", destination: "/srv/crash", device: 1, inode: 2)
let store = try SyncStore.open(directory: arguments[1], now: 1)
let lease = Result { () throws(StoreError) in try store.lease(of: session.identifier, process: getpid(), now: 1) }
if case .failure(let error) = lease {
    tell("\(error)")
    exit(error.status.rawValue)
}
let recovered = try store.sessions().contains { $0.identifier == session.identifier }
if recovered { _ = try store.recover(session: session.identifier) }
for hook in try store.owedHooks(session: session.identifier) {
    let attempt = try store.started(hook: hook.identifier, now: 1)
    tell("attempt \(hook.identifier) \(attempt)")
    try store.finished(hook: hook.identifier, .succeeded, ended: "exit 0", now: 1)
    tell("done \(hook.identifier)")
}
var number = 0
// Whoever was to kill it may be gone: then it ends by itself.
let parent = getppid()
while getppid() == parent {
    number += 1
    let run = "\(session.identifier)-\(getpid())-\(number)"
    var start = RunStart(session: session, run: run, manifest: .zero, recipe: RunRecipe(manifest: "m.json"))
    start.groups = ["all", "sheets"]
    start.recipe.hooks = [
        RunHook(group: "all", arguments: ["/bin/true"]), RunHook(group: "sheets", arguments: ["/bin/true"]),
    ]
    try store.begin(start, now: 1)
    tell("begun \(run)")
    let log = EventLog(store: store, session: session.identifier, maximumLines: 16)
    for event in 0..<50 { log.add(Array("\(run) \(event)".utf8), time: 1) }
    try log.flush()
    tell("events \(run)")
    let groups = ["all", "sheets"].map { CompletedGroup(name: $0, result: .ok, changed: 1) }
    for hook in try store.complete(groups, of: run, events: [Array("\(run) completed".utf8)], now: 1) {
        tell("owed \(hook.identifier)")
        let attempt = try store.started(hook: hook.identifier, now: 1)
        tell("attempt \(hook.identifier) \(attempt)")
        try store.finished(hook: hook.identifier, .succeeded, ended: "exit 0", now: 1)
        tell("done \(hook.identifier)")
    }
    try store.finish(run: run, result: .ok, counts: RunCounts(), now: 1)
    tell("finished \(run)")
    if number % 10 == 0 { try store.prune() }
}

withExtendedLifetime(lease) {}
