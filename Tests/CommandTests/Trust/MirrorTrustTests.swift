import CommandTestSupport
import Foundation
import Testing

/// Mirrors of signed releases: one that is stale or wrong is named, the next one asked, and it is asked last for a day.
@Suite("Mirrors of signed releases", .timeLimit(.minutes(10)))
struct MirrorTrustTests {
    /// A pinned set and a mirror that has the same.
    ///
    /// - Parameter updated: Whether a second release is published and pulled; the first one is in `before` then.
    private static func mirrored(updated: Bool = true) throws -> (
        set: SignedSet, scratch: Scratch, base: String, mirror: RunningServer
    ) {
        let scratch = try Scratch()
        try scratch.write(Data(), to: "mirror/x")
        let mirror = try RunningServer(scratch, directory: "mirror")
        let base = mirror.firstLine.replacingOccurrences(of: "manifest.json", with: "")
        let set = try SignedSet(["--mirror", base])
        try set.pin()
        if updated {
            try set.copy("site", to: "before")
            try set.publish("two")
        }
        try copy(set, to: scratch)
        if updated { #expect(try set.pull().status == 0) }
        return (set, scratch, base, mirror)
    }

    /// Brings what is published to the mirror.
    private static func copy(_ set: SignedSet, to scratch: Scratch) throws {
        let files = FileManager.default
        for name in try files.contentsOfDirectory(atPath: set.scratch.path + "/site") {
            let target = "\(scratch.path)/mirror/\(name)"
            if files.fileExists(atPath: target) { try files.removeItem(atPath: target) }
            try files.copyItem(atPath: "\(set.scratch.path)/site/\(name)", toPath: target)
        }
    }

    @Test("Files that the place which was believed lacks, or has changed, come from a mirror")
    func files() throws {
        let (set, scratch, _, mirror) = try Self.mirrored()
        defer { withExtendedLifetime((scratch, mirror)) {} }
        for text in ["packs are gone", "packs have changed"] {
            try set.publish(text)
            try Self.copy(set, to: scratch)
            let packs = try set.scratch.contents(of: "site/packs")
            for pack in packs {
                try set.remove("site/packs/\(pack)")
                guard text.hasSuffix("changed") else { continue }
                try set.scratch.write(Data(repeating: 0x41, count: 4096), to: "site/packs/\(pack)")
            }
            let outcome = try set.pull()
            #expect(outcome.status == 0, "\(outcome.error)")
            #expect(try SignedSet.causes(outcome) == [], "what it has signed is right")
            #expect(try set.text("tower/a.txt") == text)
            #expect(try set.tool.run(["cat", set.url, "a.txt"]).output == text)
        }
    }

    @Test("A mirror helps where the first place is stale, and both are named")
    func mirrors() throws {
        let (set, scratch, base, mirror) = try Self.mirrored()
        defer { withExtendedLifetime((scratch, mirror)) {} }
        for name in ["trust", "manifests", "manifest.json", "manifest.json.zst"] {
            try set.remove("site/\(name)")
            try set.copy("before/\(name)", to: "site/\(name)")
        }
        let outcome = try set.tool.run(["pull", set.url, "--into", "tower"])
        #expect(outcome.status == 0, "\(outcome.error)")
        let told = outcome.error
        #expect(told.contains(set.url.replacingOccurrences(of: "manifest.json", with: "trust/fresh")))
        #expect(told.contains("asking \(base)"))
    }

    @Test(
        "A place that served something old is asked last the next time, and first again after a day",
        .enabled(if: FakeTime.library != nil))
    func penalty() throws {
        let (set, scratch, base, mirror) = try Self.mirrored()
        defer { withExtendedLifetime((scratch, mirror)) {} }
        try set.remove("site/trust")
        try set.copy("before/trust", to: "site/trust")
        #expect(try SignedSet.causes(set.pull()) == ["older"])
        // plan keeps nothing, and knows it, too.
        let plan = try set.tool.run(["plan", set.url, "--into", "tower", "--json"])
        #expect(plan.status == 0 && !plan.output.contains("trust.refused"), "\(plan.error)")
        let second = try set.pull()
        #expect(second.status == 0)
        #expect(try SignedSet.causes(second) == [])
        #expect(try SignedSet.last(second)["requests"] as? Int == 1)
        // When the mirror is no better, the place that is asked last is asked.
        let files = FileManager.default
        try files.moveItem(atPath: scratch.path + "/mirror/trust", toPath: scratch.path + "/away")
        let both = try set.pull()
        #expect(both.status == 77, "\(both.error)")
        #expect(try SignedSet.causes(both) == ["unsigned", "older"])
        // A person reads of both, too.
        let told = try set.tool.run(["pull", set.url, "--into", "tower"]).error
        let fresh = set.url.replacingOccurrences(of: "manifest.json", with: "trust/fresh")
        #expect(told.contains("\(base)trust/fresh: ") && told.contains("\(fresh): "), "\(told)")
        try set.remove("site/trust")
        for place in [scratch.path + "/mirror/trust", set.scratch.path + "/site/trust"] {
            try files.copyItem(atPath: scratch.path + "/away", toPath: place)
        }
        let later = try set.pull(environment: FakeTime.environment("+25h"))
        #expect(later.status == 0, "\(later.error)")
        #expect(try SignedSet.causes(later) == [])
    }

    @Test("All mirrors stale: each is named, and nothing is changed", .enabled(if: FakeTime.library != nil))
    func staleMirrors() throws {
        let (set, scratch, base, mirror) = try Self.mirrored(updated: false)
        defer { withExtendedLifetime((scratch, base, mirror)) {} }
        let outcome = try set.pull(environment: FakeTime.environment("+31d"))
        #expect(outcome.status == 77)
        #expect(try SignedSet.causes(outcome) == ["stale", "stale"])
        let urls = try outcome.objects().filter { $0["event"] as? String == "trust.refused" }.compactMap {
            $0["url"] as? String
        }
        #expect(urls == [set.url.replacingOccurrences(of: "manifest.json", with: ""), base].map { $0 + "trust/fresh" })
        #expect(try set.text("tower/a.txt") == "one")
        try set.keys("refresh", "site", "--sign", "keys", "--until", "60d")
        #expect(try set.pull(environment: FakeTime.environment("+31d")).status == 0)
    }
}
