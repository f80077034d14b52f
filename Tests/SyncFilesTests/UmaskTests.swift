import SyncFiles
import SyncModel
import SyncSystem
import SyncTestKit
import Testing

@Suite("The umask of a run", .timeLimit(.minutes(10)))
struct UmaskTests {
    private let root: TemporaryRoot
    private let destination: Destination

    init() throws {
        root = try TemporaryRoot()
        destination = try Destination.open(path: root.path("a/dest"), create: true, umask: Umask(bits: 0o027))
    }

    private func mode(_ path: String) -> UInt16? { status(following: root.path(path))?.permissions }

    @Test("It counts for the destination and for directories below it, not for what is ours")
    func directories() throws {
        #expect(mode("a") == 0o750 && mode("a/dest") == 0o750)
        #expect(mode("a/dest/.syncagent") == 0o700 && mode("a/dest/.syncagent/staging") == 0o700)
        let directories = Directories(destination)
        try #require(
            try Array("x/y".utf8).withUnsafeBufferPointer { try directories.descriptor($0, create: true) } != nil)
        #expect(mode("a/dest/x") == 0o750 && mode("a/dest/x/y") == 0o750)
        let kept = try BackupDirectory.open(path: root.path("kept"), beside: destination)
        #expect(mode("kept") == 0o750)
        withExtendedLifetime(kept) {}
    }

    @Test("It counts for files, those of whole directories too")
    func files() throws {
        let staging = try Staging(destination, lanes: 1)
        for (isExecutable, wanted) in [(false, 0o640), (true, 0o750)] as [(Bool, UInt16)] {
            let digest = try FilesFixture.digest([isExecutable ? 1 : 0])
            let file = staging.newFile(lane: 0, digest: digest)
            let found = try [UInt8(1)].withUnsafeBytes { try staging.write($0, to: file, executable: isExecutable) }
            #expect(found.permissions == wanted)
        }
        let directory = Array("whole".utf8).withUnsafeBufferPointer { Staging.Directory(path: $0) }
        let found = try [UInt8(1)].withUnsafeBytes { bytes in
            try staging.write(bytes, as: "leaf", in: directory, executable: false)
        }
        #expect(found.permissions == 0o640)
        let code = Array("whole".utf8).withUnsafeBufferPointer {
            staging.place(directory, as: $0[...], in: destination.root)
        }
        #expect(code == nil && mode("a/dest/whole") == 0o750)
    }

    @Test("What a run with another umask has left is given this one's")
    func leftover() throws {
        let file: Staging.File
        do {
            let closed = try Destination.open(path: root.path("a/dest"), create: true, umask: Umask(bits: 0o077))
            let staging = try Staging(closed, lanes: 1)
            file = staging.newFile(lane: 0, digest: try FilesFixture.digest([1]))
            let found = try [UInt8(1)].withUnsafeBytes { try staging.write($0, to: file, executable: false) }
            #expect(found.permissions == 0o600)
        }
        let staging = try Staging(destination, lanes: 1)
        let found = SharedDescriptor(staging.open(file))
        let opened = try #require(found)
        #expect(staging.renew(opened.raw, executable: true) == nil)
        #expect(status(opened.raw)?.permissions == 0o750)
        #expect(staging.renew(opened.raw, executable: false) == nil)
        #expect(status(opened.raw)?.permissions == 0o640)
    }

    @Test("Octal digits are read and written", arguments: [("022", "022"), ("2", "002"), ("0077", "077")])
    func text(text: String, shown: String) { #expect(Umask(text)?.description == shown) }

    @Test("A text that is no umask is refused", arguments: ["", "8", "1000", "00022", "0x1", "-1", "+2", "u=rwx"])
    func refused(text: String) { #expect(Umask(text) == nil) }
}
