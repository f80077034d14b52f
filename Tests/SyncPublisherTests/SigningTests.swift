import Foundation
import SyncManifest
import SyncModel
import SyncTestKit
import SyncTrust
import Testing

@testable import SyncPublisher

/// What is said of signatures is what was done.
@Suite(.timeLimit(.minutes(10)))
struct SigningTests {
    static let tree = AssetTree.manySmall(3)

    static func keys(
        _ set: PublishedSet, _ name: String = "keys", project: String = "com.example.tower", until: Int64 = 1_000_000
    ) throws -> KeyDirectory {
        let beginning = RootStatement(
            project: project, number: 1, signed: 0, until: until, root: RoleKeys(threshold: 1), release: RoleKeys(),
            fresh: RoleKeys())
        let outcome = try KeyDirectory.make(set.root.path(name), beginning, rootKeys: 1)
        guard let keys = outcome.keys else { throw PublishedSet.Wrong("keys that are pending") }
        return keys
    }

    static func signing(_ keys: KeyDirectory, program: String? = nil) throws -> Signing {
        try Signing(keys, [.release, .fresh], program: program.map { ($0, []) }, now: 1_000)
    }

    /// Signs what a web server may sign by itself.
    static func fresh(_ keys: KeyDirectory, now: Int64, memory: SigningMemory? = nil) throws(PublishError) -> Signing {
        var signing = try Signing(keys, [.fresh], program: nil, now: now)
        signing.memory = memory
        return signing
    }

    static func error(_ work: () throws(PublishError) -> Void) -> PublishError? {
        do throws(PublishError) {
            try work()
            return nil
        } catch { return error }
    }

    @Test("A key that cannot be written is a fault of the disk, and no refusal")
    func unwritten() throws {
        let (root, key) = (try TemporaryRoot(), try PrivateKey(comment: "a key"))
        let path = root.path("gone/release.key")
        let error = Self.error { () throws(PublishError) in try KeyDirectory.write(key, to: path) }
        #expect(error?.exitStatus == .ioError, "\(String(describing: error))")
    }

    @Test("Keys of another project are refused before anything is published, also by a dry run")
    func otherProject() throws {
        var set = try PublishedSet(Self.tree)
        set.options.signing = try Self.signing(Self.keys(set, project: "com.example.other"))
        let error = set.failure()
        #expect(error?.exitStatus == .refused)
        #expect(error?.summary == "the keys are for project com.example.other, but this is com.example.tower")
        #expect(try set.bytes(below: "out").isEmpty)
        #expect(throws: PublishError.self) { try set.options.preview() }
    }

    @Test("When a program does not sign, the message says what is in place, and publishing again signs it")
    func failingSigner() throws {
        var set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set)
        let memory = SigningMemory(in: set.root.path("state"), for: set.root.path("out"))
        set.options.signing = try Self.signing(keys)
        set.options.signing?.memory = memory
        try set.publish()
        let signed = set.root.read("out/trust/fresh")
        try set.root.write("new", to: "in/new")
        for name in ["release.key", "fresh.key"] {
            try FileManager.default.moveItem(
                atPath: set.root.path("keys/\(name)"), toPath: set.root.path("keys/\(name).away"))
        }
        set.options.signing = try Self.signing(keys, program: "/bin/false")
        set.options.signing?.memory = memory
        let error = set.failure()
        #expect(error?.exitStatus == .refused)
        #expect(error?.summary == "cannot sign: /bin/false exited with status 1")
        #expect(
            error?.details == [
                "revision 2 is published, but it is not signed: pinned machines stay with the last signed release"
            ])
        #expect(try set.manifest().revision == 2)
        #expect(set.root.read("out/trust/fresh") == signed)
        for name in ["release.key", "fresh.key"] {
            try FileManager.default.moveItem(
                atPath: set.root.path("keys/\(name).away"), toPath: set.root.path("keys/\(name)"))
        }
        // It remembers having made it.
        set.options.signing = try Self.signing(keys)
        #expect(set.failure()?.exitStatus == .refused)
        set.options.signing?.memory = memory
        let report = try set.publish()
        #expect(report.unchanged && report.fresh?.revision == 2)
        #expect(set.root.read("out/trust/2.release") != nil)
    }

    @Test("A release dated by a clock that was ahead is signed anew once the clock is right, and not confirmed before")
    func datedAhead() throws {
        var set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set, until: 10_000_000)
        set.options.signing = try Signing(keys, [.release, .fresh], program: nil, now: 2_000_000)
        try set.publish()
        let place = TargetPlace.directory(set.root.path("out"))
        let error = Self.error { () throws(PublishError) in _ = try Self.fresh(keys, now: 1_000).refresh(place) }
        #expect(error?.exitStatus == .refused && error?.remedy.hasPrefix("set the clock") == true)
        let channel = Self.error { () throws(PublishError) in
            _ = try Channels(place).point("beta", at: "1", signing: Self.fresh(keys, now: 1_000))
        }
        #expect(channel?.remedy.hasPrefix("set the clock") == true)
        set.options.signing = try Self.signing(keys)
        #expect(try set.publish().unchanged)
        let refreshed = try Self.fresh(keys, now: 1_000).refresh(place)
        #expect(refreshed.refused.isEmpty && refreshed.statements.map(\.fresh.revision) == [1])
        // A channel points at such a release all the same.
        try set.root.write("new", to: "in/new")
        set.options.signing = try Signing(keys, [.release, .fresh], program: nil, now: 2_000_000)
        (set.options.channel, set.options.keepsReleases) = ("beta", true)
        try set.publish()
        let other = try Self.fresh(keys, now: 1_000).refresh(place)
        #expect(other.refused.count == 1 && other.ahead == nil)
        // It may do so where its statement is damaged, too.
        let word = try #require(set.root.read("out/trust/beta.fresh"))
        try set.root.write("junk", to: "out/trust/beta.fresh")
        let damaged = try Self.fresh(keys, now: 1_000).refresh(place)
        #expect(damaged.refused.count == 1 && damaged.ahead == nil)
        try set.root.write(word, to: "out/trust/beta.fresh")
        // Pinned machines follow its statement, and need no file for it.
        unlink(set.root.path("out/channels/beta.json.zst"))
        #expect(try Channels(place, isReadOnly: true).list().count == 2)
    }

    @Test("A stop ends the program that signs, and it is said what is in place")
    func stoppedSigner() throws {
        var set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set)
        try set.root.write("#!/bin/sh\nexec sleep 60\n", to: "signer")
        #expect(chmod(set.root.path("signer"), 0o755) == 0)
        for name in ["release.key", "fresh.key"] { unlink(set.root.path("keys/\(name)")) }
        set.options.signing = try Self.signing(keys, program: set.root.path("signer"))
        set.options.signing?.isStopped = { true }
        let start = ContinuousClock.now
        let error = set.failure()
        #expect(error?.exitStatus == .interrupted && error?.details.first?.contains("is not signed") == true)
        #expect(ContinuousClock.now - start < .seconds(30))
    }

    @Test("What is no root is named as such, and is no reason to replace keys")
    func noRoot() throws {
        var set = try PublishedSet(Self.tree)
        set.options.signing = try Self.signing(Self.keys(set))
        try set.publish()
        try set.root.write("junk", to: "out/trust/9.root")
        let error = set.failure()
        #expect(error?.exitStatus == .refused && error?.summary.contains("9.root is damaged") == true)
        #expect(error?.remedy.contains("--allow-other-keys") == false)
    }

    @Test("A channel that was moved without a signature is told of as moved")
    func failingSignerOfChannel() throws {
        var set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set)
        set.options.signing = try Self.signing(keys)
        set.options.keepsReleases = true
        try set.publish()
        let idle = Self.error { () throws(PublishError) in
            _ = try Signing(keys, [.fresh], program: ("/bin/false", []), now: 2_000)
        }
        #expect(idle?.exitStatus == .usage, "the program would not be called")
        unlink(set.root.path("keys/fresh.key"))
        let signing = try Signing(keys, [.fresh], program: ("/bin/false", []), now: 2_000)
        let error = Self.error { () throws(PublishError) in
            _ = try Channels(.directory(set.root.path("out"))).point("beta", at: "1", signing: signing)
        }
        #expect(error?.details.first?.hasPrefix("beta points at revision 1, but it is not signed: ") == true)
        #expect(set.root.read("out/channels/beta.json.zst") != nil)
        #expect(set.root.read("out/trust/beta.fresh") == nil)
        // Nobody can pull it without its file, whatever the list for people says.
        let channels = try Channels(.directory(set.root.path("out")), isReadOnly: true)
        #expect(try channels.list().count == 2)
        unlink(set.root.path("out/channels/beta.json.zst"))
        #expect(try channels.list().count == 1)
    }

    @Test("A channel that has moved although the list of the channels cannot be written is told of as moved")
    func unlistedChannel() throws {
        var set = try PublishedSet(Self.tree)
        set.options.keepsReleases = true
        try set.publish()
        try set.root.write("in the way", to: "out/channels/index.json/file")
        let error = Self.error { () throws(PublishError) in
            _ = try Channels(.directory(set.root.path("out"))).point("beta", at: "1", signing: nil)
        }
        #expect(error?.details.first?.hasPrefix("beta points at revision 1 already") == true)
        #expect(set.root.read("out/channels/beta.json.zst") != nil)
    }

    @Test("Of keys that do not suffice, the message says how many there are, and names the files that do not count")
    func insufficientKeys() throws {
        let set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set)
        let other = try Self.keys(set, "other")
        // A root that requires two release keys: the own one, and one that is elsewhere.
        let theirs = try #require(try other.keys(.release).first)
        let mine = try #require(try keys.keys(.root).first)
        var content = keys.newest.content
        content.number = 2
        content[.release].keys.append(theirs.publicKey)
        content[.release].threshold = 2
        _ = try PendingRoot(content, signedBy: [mine], after: keys.newest, in: keys.path).write()
        let newer = try KeyDirectory(keys.path)
        let few = Self.error { () throws(PublishError) in _ = try Signing(newer, [.release], program: nil, now: 1_000) }
        #expect(few?.summary == "root 2 requires 2 release keys, and \(keys.path) has 1 of them")
        // The file has another name than usual, and another key.
        try FileManager.default.removeItem(atPath: "\(keys.path)/release.key")
        try FileManager.default.copyItem(atPath: "\(other.path)/fresh.key", toPath: "\(keys.path)/release-2.key")
        let wrong = Self.error { () throws(PublishError) in _ = try Signing(newer, [.release], program: nil, now: 1_000)
        }
        #expect(wrong?.summary == "root 2 does not name \(keys.path)/release-2.key as a release key")
    }

    @Test("A root that is missing among the published ones is told of as missing")
    func missingRoot() throws {
        let set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set)
        guard let second = try keys.rotated(.fresh, replacing: nil, by: nil, now: 1, until: 2_000).keys,
            try second.rotated(.fresh, replacing: nil, by: nil, now: 2, until: 2_000).keys != nil
        else { throw PublishedSet.Wrong("keys that are pending") }
        for (names, missing) in [(["1.root", "3.root"], 2), (["2.root", "3.root"], 1)] {
            let out = "out\(missing)"
            for name in names {
                try set.root.write(try #require(set.root.read("keys/\(name)")), to: "\(out)/trust/\(name)")
            }
            let error = Self.error { () throws(PublishError) in
                _ = try KeyDirectory(published: .directory(set.root.path(out)), after: nil)
            }
            #expect(error?.summary.contains("root \(missing), which comes before it, is missing") == true)
        }
    }

    @Test("When a key cannot get its name after a rotation, the message says that the new root is valid")
    func rotationWithoutRename() throws {
        let set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set)
        let (key, taken, new) = ("\(keys.path)/fresh.key", "\(keys.path)/taken", "\(keys.path)/fresh-2.key")
        #expect(mkdir(taken, 0o700) == 0)
        let error = Self.error { () throws(PublishError) in try KeyDirectory.move(key, to: taken, new, 2) }
        #expect(error?.summary.hasPrefix("cannot rename \(key) to \(taken): ") == true)
        #expect(error?.remedy == "root 2 is signed and valid, and \(new) is its new key")
    }

    @Test("No key takes the place of another file, and a rotation keeps what former ones have kept")
    func nothingReplaced() throws {
        let set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set)
        let (release, fresh) = ("\(keys.path)/release.key", "\(keys.path)/fresh.key")
        let before = set.root.read("keys/release.key")
        let key = try PrivateKey(comment: "another")
        #expect(throws: PublishError.self) { try KeyDirectory.write(key, to: release) }
        #expect(throws: PublishError.self) { try KeyDirectory.move(fresh, to: release, fresh, 2) }
        #expect(set.root.read("keys/release.key") == before)
        // Longer than any path may be.
        let name = String(repeating: "x", count: 5_000)
        #expect(throws: PublishError.self) { try KeyDirectory.isFree("\(keys.path)/\(name)") }
        try set.root.write("kept", to: "keys/release.key.1")
        let rotated = try keys.rotated(.release, replacing: nil, by: nil, now: 1, until: 2_000).keys
        #expect(rotated?.kept == "\(release).2")
        #expect(set.root.read("keys/release.key.1") == Array("kept".utf8))
        #expect(set.root.read("keys/release.key.2") == before)
        #expect(try set.bytes(below: "keys").keys.allSatisfy { !$0.hasSuffix(".new") })
    }

    @Test("What this machine has signed is not taken for nothing where it cannot be read now")
    func unreadMemory() throws {
        let set = try PublishedSet(Self.tree)
        let keys = try Self.keys(set)
        let made = try digest([1])
        try set.root.link("loop", to: "loop")
        // Longer than any name may be.
        let name = String(repeating: "x", count: 300)
        for memory in [
            SigningMemory(in: set.root.path("state"), for: set.root.path("loop")),
            SigningMemory(in: set.root.path(name), for: set.root.path("in")),
        ] {
            #expect(throws: PublishError.self) { try memory.known(under: keys.newest.content) }
            #expect(throws: PublishError.self) { try memory.note(made: made, under: keys.roots, now: 1_000) }
        }
        let none = SigningMemory(in: set.root.path("state"), for: set.root.path("out"))
        #expect(try none.known(under: keys.newest.content) == nil)
    }

    @Test("A key file that is not there is told of as missing, and not as readable by others")
    func missingKey() throws {
        let set = try PublishedSet(Self.tree)
        let error = Self.error { () throws(PublishError) in _ = try KeyDirectory.key(set.root.path("none.key")) }
        #expect(error?.exitStatus == .noInput && error?.remedy == "check the path")
    }

    @Test("A damaged list of channels is never replaced: exit 65")
    func damagedIndex() throws {
        var set = try PublishedSet(Self.tree)
        (set.options.channel, set.options.keepsReleases) = ("beta", true)
        try set.publish()
        try set.root.write("{", to: "out/channels/index.json")
        try set.root.write("new", to: "in/new")
        set.options.channel = "stable"
        let error = set.failure()
        #expect(error?.exitStatus == .dataInvalid)
        #expect(error?.summary.hasSuffix("channels/index.json cannot be read, or is damaged") == true)
        #expect(set.root.read("out/channels/index.json") == Array("{".utf8))
        #expect(set.root.read("out/channels/stable.json.zst") == nil)
        #expect(throws: PublishError.self) { try Channels(.directory(set.root.path("out")), isReadOnly: true).list() }
    }

    @Test("Where releases or statements cannot be listed, no number is used twice and no signature is dropped")
    func unlisted() throws {
        var set = try PublishedSet(Self.tree)
        set.options.signing = try Self.signing(Self.keys(set))
        set.options.keepsReleases = true
        try set.publish()
        set.options.signing = nil
        try set.root.write("new", to: "in/new")
        let before = set.root.read("out/manifest.json")
        /// Makes a directory unreadable, whoever reads it.
        func hide(_ directory: String) throws {
            try FileManager.default.moveItem(
                atPath: set.root.path("out/\(directory)"), toPath: set.root.path("out/\(directory).away"))
            try set.root.link("out/\(directory)", to: directory)
        }
        try hide("trust")
        let unsigned = Self.error { () throws(PublishError) in
            _ = try Channels(.directory(set.root.path("out"))).point("beta", at: "1", signing: nil)
        }
        #expect(unsigned?.exitStatus == .refused && unsigned?.summary.contains("out/trust is a ") == true)
        #expect(set.root.read("out/channels/beta.json.zst") == nil)
        try hide("channels")
        let error = set.failure { $0.permits = .unsigned }
        #expect(error?.exitStatus == .refused && error?.summary.contains("out/channels is a ") == true)
        #expect(set.root.read("out/manifest.json") == before)
    }

    @Test("A manifest.json.zst of another revision is not kept as the release of manifest.json")
    func keepsWhatItSays() throws {
        var set = try PublishedSet(Self.tree)
        try set.publish()
        let first = try #require(set.root.read("out/manifest.json"))
        try set.root.write("new", to: "in/new")
        try set.publish()
        try set.root.write(first, to: "out/manifest.json")
        set.options.keepsReleases = true
        try set.publish()
        #expect(set.root.read("out/channels/1.json.zst") == nil)
        #expect(set.root.read("out/channels/2.json.zst") != nil)
    }
}
