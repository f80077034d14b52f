import SyncModel
import SyncReport
import SyncStore

/// Night 1: the window is too short. Night 2: a newer manifest takes over, on battery for a while. Night 3: it is whole.
func threeNights() throws -> SyncStore {
    let store = try SyncStore.inMemory()
    let tower = StoreStory("com.example.tower", in: store, destination: "/srv/tower")
    let hook = RunHook(group: "all", arguments: ["/usr/local/lib/syncagent/reindex", "--token=CANARY-ARGUMENT"])

    try tower.begin("20261119T020000Z-00000001", at: november(19, 2), hooks: [hook])
    try tower.stop(
        StoreStory.Work(
            elapsed: 7_200_000, installed: 5_120, received: 412 * mebi, requests: 31,
            origins: [("https://cdn.example.com", 31, 396 * mebi, 0)],
            directories: [("textures", 4_800, 700 * mebi), ("maps", 320, 61 * mebi)], otherBytes: 16 * mebi),
        "20261119T020000Z-00000001", at: november(19, 4))

    try tower.begin("20261120T020000Z-00000002", at: november(20, 2), hooks: [hook])
    try tower.event("condition.blocked", "20261120T020000Z-00000002", at: november(20, 2, 10)) {
        $0.field("condition", "power")
        $0.field("detail", "on battery, 61 %")
    }
    try tower.stop(
        StoreStory.Work(
            elapsed: 600_000, installed: 800, received: 64 * mebi, requests: 6,
            origins: [("https://cdn.example.com", 6, 64 * mebi, 0)], directories: [("textures", 800, 101 * mebi)]),
        "20261120T020000Z-00000002", at: november(20, 2, 10))
    try tower.event("condition.cleared", "20261120T020000Z-00000002", at: november(20, 3)) {
        $0.field("condition", "power")
    }
    _ = try store.take(run: "20261120T020000Z-00000002", now: november(20, 3))
    try tower.stop(
        StoreStory.Work(
            elapsed: 3_600_000, installed: 2_400, received: 230 * mebi, requests: 19,
            origins: [("https://cdn.example.com", 19, 230 * mebi, 0)], directories: [("textures", 2_400, 390 * mebi)]),
        "20261120T020000Z-00000002", at: november(20, 4))

    _ = try store.take(run: "20261120T020000Z-00000002", now: november(21, 2))
    try tower.event("task.redirected", "20261120T020000Z-00000002", at: november(21, 2, 1)) {
        $0.field("reason", "rewrite")
        $0.field("from", "https://cdn.example.com/tower/packs/5f0c.pack")
        $0.field("to", "http://mirror.lan/tower/packs/5f0c.pack")
    }
    try tower.hooks("20261120T020000Z-00000002", at: november(21, 2, 24), took: 12_400, changed: 1_204)
    try tower.finish(
        StoreStory.Work(
            elapsed: 1_455_000, installed: 1_204, reused: 36, received: 118 * mebi, reusedBytes: 24 * mebi,
            requests: 14,
            origins: [("https://cdn.example.com", 4, 9 * mebi, 0), ("http://mirror.lan", 10, 109 * mebi, 0)],
            directories: [("maps", 900, 130 * mebi), ("textures", 340, 77 * mebi)]), "20261120T020000Z-00000002",
        at: november(21, 2, 24, 15), total: 9_560, unchanged: 8_320, bytesTotal: 1_459 * mebi)
    return store
}

/// Fourteen nights of four sessions, with all that can go wrong in the last ones.
func fortnight() throws -> SyncStore {
    let store = try SyncStore.inMemory()
    try steadyNights(of: StoreStory("com.example.tower", in: store, destination: "/srv/tower"))
    try troubledNights(of: StoreStory("film.harbour-dailies", in: store, destination: "/mnt/assets/harbour"))
    let icons = StoreStory("org.example.icons", in: store, destination: "/usr/local/share/icons")
    for day in 15...21 {
        let run = "icons-\(day)"
        try icons.begin(run, at: november(day, 3), location: "https://icons.example.org/manifest.json")
        let work = StoreStory.Work(elapsed: 630, requests: 1)
        try icons.finish(
            work, run, at: november(day, 3, 0, 1), total: 57_894, unchanged: 57_894, bytesTotal: 114 * mebi)
    }
    let weights = StoreStory("lab-weights", in: store, destination: "/data/weights")
    try weights.begin("weights-21", at: november(21, 1), location: "https://weights.example.net/m.json")
    try weights.stop(
        StoreStory.Work(
            elapsed: 1_800_000, installed: 3, received: 2_950 * mebi, requests: 24,
            origins: [("https://weights.example.net", 24, 2_950 * mebi, 0)], directories: [("base", 3, 2_950 * mebi)]),
        "weights-21", at: november(21, 1, 30))
    try weights.event("condition.blocked", "weights-21", at: november(21, 1, 30)) {
        $0.field("condition", "metered")
        $0.field("detail", "the connection 'Phone' is metered")
    }
    return store
}

private func steadyNights(of tower: StoreStory) throws {
    let received: [UInt64] = [1_480, 96, 0, 210, 180, 12, 8, 640, 88, 130, 0, 412, 344, 356]
    for (place, bytes) in received.enumerated() where place != 5 {
        let day = 8 + place
        let run = "tower-\(day)"
        let hook = RunHook(group: "all", arguments: ["/usr/local/lib/syncagent/reindex"])
        try tower.begin(run, at: november(day, 2), groups: ["all", "maps"], hooks: [hook])
        let files = Int(bytes) * 3
        let work = StoreStory.Work(
            elapsed: Int64(bytes) * 540 + 700, installed: files, reused: Int(bytes / 10),
            received: bytes * mebi + 400_000, reusedBytes: bytes / 14 * mebi, requests: bytes / 9 + 1,
            origins: [
                ("https://cdn.example.com", bytes / 40 + 1, bytes / 5 * mebi + 400_000, 0),
                ("http://mirror.lan", bytes / 12, (bytes - bytes / 5) * mebi, 0),
            ],
            directories: [
                ("textures", files * 2 / 3, bytes * mebi), ("maps", files / 4, bytes / 2 * mebi),
                ("sounds", files / 12, bytes / 8 * mebi), (".", 2, 4_096),
            ])
        if bytes > 0 {
            try tower.event("task.redirected", run, at: november(day, 2, 0, 1)) {
                $0.field("reason", "redirect")
                $0.field("from", "https://cdn.example.com/tower/packs/1.pack?signature=CANARY-QUERY")
                $0.field("to", "http://mirror.lan/tower/packs/1.pack?signature=CANARY-QUERY")
            }
            try tower.hooks(run, at: november(day, 2, 8), took: 9_300, changed: files, groups: ["all", "maps"])
        }
        try tower.finish(
            work, run, at: november(day, 2, 9), total: 20_000, unchanged: 20_000 - files - work.reused,
            bytesTotal: 5_060 * mebi)
    }
}

private func troubledNights(of film: StoreStory) throws {
    let url = "https://user:CANARY-PASSWORD@assets.example.com/harbour/manifest.json?key=CANARY-QUERY"
    let hook = RunHook(group: "all", arguments: ["https://chat.example.com/hooks/1?token=CANARY-TOKEN"])
    for (place, bytes) in ([220, 0, 64, 180, 310] as [UInt64]).enumerated() {
        let day = 16 + place
        try film.begin("film-\(day)", at: november(day, 1), location: url)
        let work = StoreStory.Work(
            elapsed: Int64(bytes) * 2_000 + 800, installed: Int(bytes) / 2, received: bytes * mebi + 90_000,
            requests: bytes / 20 + 1,
            origins: [("https://assets.example.com", bytes / 20 + 1, bytes * mebi + 90_000, 0)],
            directories: [("shots", Int(bytes) / 2, bytes * mebi)])
        if day == 19 {
            try film.stop(work, "film-\(day)", at: november(day, 5))
            try film.store.apply(.superseded, to: "film-\(day)", now: november(day, 23))
        } else {
            try film.finish(
                work, "film-\(day)", at: november(day, 1, 20), total: 4_210, unchanged: 4_100, bytesTotal: 9_000 * mebi)
        }
    }
    let run = "film-21"
    try film.begin(run, at: november(21, 1), location: url, groups: ["all"], hooks: [hook])
    for second in 0..<4 {
        try film.event("transfer.retrying", run, at: november(21, 1, 2, second * 10)) {
            $0.field("url", "https://assets.example.com/harbour/packs/9a.pack")
            $0.field("reason", "status 503")
            $0.field("wait_ms", 8_000)
        }
    }
    for path in ["shots/010/plate.exr", "shots/010/<script>alert(1)</script>.exr", "shots/020/\u{1B}[31mred.exr"]
        + (0..<9).map({ "shots/030/plate.\($0).exr" })
    {
        try film.event("task.failed", run, at: november(21, 1, 9)) {
            $0.field("path", path)
            $0.field(
                "reason",
                "https://assets.example.com/harbour/\(path.utf8.count).exr: status 404; it is not there: was all of the set uploaded?"
            )
            $0.field("cause", FailureCause.notThere)
        }
    }
    try film.event("task.failed", run, at: november(21, 1, 9)) {
        $0.field("path", "shots/040/a\u{202E}gpj.exr")
        $0.field("reason", "cannot write shots/040/a: No space left on device")
        $0.field("cause", FailureCause.diskFull)
    }
    try film.hooks(
        run, at: november(21, 1, 10), took: 30_000, ended: "exit 1",
        output: "connecting\nthe channel is gone, CANARY-OUTPUT\n", changed: 44)
    try film.finish(
        StoreStory.Work(
            elapsed: 540_000, installed: 44, failed: 13, received: 301 * mebi, requests: 22,
            origins: [("https://assets.example.com", 22, 301 * mebi, 2)], directories: [("shots", 44, 300 * mebi)]),
        run, at: november(21, 1, 11), total: 4_210, unchanged: 4_153, bytesTotal: 9_060 * mebi, result: .partial)
}
