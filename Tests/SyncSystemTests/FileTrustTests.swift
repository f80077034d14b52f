import Glibc
import SyncModel
import SyncSystem
import SyncTestKit
import Testing

@Suite("A file is looked at before it is used", .timeLimit(.minutes(10)))
struct FileTrustTests {
    private let root: TemporaryRoot

    init() throws { root = try TemporaryRoot() }

    private func make(_ name: String, _ text: String = "text", mode: mode_t = 0o600) throws -> String {
        let path = root.path + "/" + name
        try replaceFile(path, with: Array(text.utf8), mode: mode)
        return path
    }

    private func refusal(_ path: String, _ trust: FileTrust, limit: Int = 100) -> String? {
        do throws(FileError) {
            _ = try readFile(path, trust: trust, limit: limit)
            return nil
        } catch { return error.reason }
    }

    @Test("A file that is as it should be is read whole")
    func plainFile() throws {
        let path = try make("a", "hello")
        #expect(try readFile(path, trust: .state, limit: 5) == Array("hello".utf8))
    }

    @Test("A file that is open is never taken for one that is not there [F066]", arguments: [ENOENT, ENOTDIR])
    func openFileIsThere(_ code: Int32) {
        errno = code
        #expect(FileError.last("look at", "index").isMissing)
        errno = code
        let error = FileError.last("look at", ofOpen: "index")
        #expect(!error.isMissing && error.code == .ioError && error.path == "index")
    }

    @Test("Where a process may have no more open files, the error names the limit to raise")
    func openFiles() {
        errno = EMFILE
        #expect(FileError.last("open", "index").description.hasSuffix(": raise the limit: ulimit -n 1024"))
    }

    @Test("Another kind of file is refused at once: nobody waits for a FIFO's writer (F099)")
    func otherKinds() throws {
        let fifo = root.path + "/fifo"
        #expect(mkfifo(fifo, 0o600) == 0)
        let kinds = [FileTrust.state, .staged, .settings, .secret, .input]
        #expect(kinds.map { refusal(fifo, $0) == "it is not a regular file" } == kinds.map { _ in true })
        #expect(refusal(root.path, .input) == "it is not a regular file")
        #expect(refusal("/dev/zero", .input) == "it is not a regular file")
    }

    @Test("A link is followed where settings are, and nowhere else")
    func links() throws {
        let target = try make("target")
        let link = root.path + "/link"
        #expect(symlink(target, link) == 0)
        #expect(refusal(link, .state) == "it is a symbolic link; remove it")
        #expect(refusal(link, .staged) == "it is a symbolic link; remove it")
        #expect(refusal(link, .settings) == nil)
        #expect(refusal(link, .secret) == nil)
    }

    @Test("A file that the system cannot open is not told to be a link that somebody has put there")
    func unreachable() throws {
        #expect(symlink("loop", root.path + "/loop") == 0)
        let error = #expect(throws: FileError.self) { _ = try openFile(root.path + "/loop/index", trust: .state) }
        #expect(error?.code == .tooManySymbolicLinkLevels && error?.isRefusal == false)
    }

    @Test("A sparse monster is refused by its size before memory is taken for it")
    func monster() throws {
        let path = try make("monster")
        #expect(truncate(path, 1 << 40) == 0)
        let reason = try #require(refusal(path, .input, limit: 1 << 20))
        #expect(reason.contains("1.00 TiB") && reason.contains("1.00 MiB"))
    }

    @Test(
        "What others may do with it counts",
        arguments: [(0o600, true, true), (0o644, true, false), (0o660, false, false), (0o602, false, false)])
    func modes(mode: mode_t, asState: Bool, asSecret: Bool) throws {
        let path = try make("a", mode: mode)
        #expect((refusal(path, .state) == nil) == asState)
        #expect((refusal(path, .secret) == nil) == asSecret)
        #expect(refusal(path, .input) == nil)
    }

    @Test(
        "Another user's file is refused, and root's counts for settings only",
        .enabled(if: geteuid() == 0, "only root can give files away"))
    func owners() throws {
        let path = try make("a")
        #expect(chown(path, 4242, 4242) == 0)
        for trust in [FileTrust.state, .staged, .settings, .secret] {
            #expect(refusal(path, trust)?.contains("belongs to another user (uid 4242)") == true)
        }
        #expect(refusal(path, .input) == nil)
    }

    @Test("A file of ours with a second name is not written to: the other would change with it")
    func hardLink() throws {
        let path = try make("agent.log")
        #expect(link(path, root.path + "/other") == 0)
        let reason = { (trust: FileTrust) -> String? in
            do throws(FileError) {
                _ = try openFile(path, [.writeOnly, .append], trust: trust)
                return nil
            } catch { return error.reason }
        }
        #expect(reason(.ownState)?.contains("second name") == true)
        #expect(reason(.staged)?.contains("second name") == true)
        #expect(reason(.state) == nil, "a lock of a tree that was copied with cp -al")
    }

    @Test("A file that a library opens is judged like one that we open, and is not opened")
    func unopened() throws {
        func reason(_ path: String, limit: UInt64 = 100) -> String? {
            do throws(FileError) {
                let size = try checkFile(path, trust: .state, limit: limit)
                return size.map { "\($0)" }
            } catch { return error.reason }
        }
        let path = try make("a", "hello")
        #expect(reason(path) == "5")
        #expect(reason(path, limit: 4)?.contains("above the limit") == true)
        #expect(reason(root.path + "/none") == nil)
        #expect(reason(path + "/none") == nil)
        #expect(symlink(path, root.path + "/link") == 0 && mkfifo(root.path + "/fifo", 0o600) == 0)
        #expect(reason(root.path + "/link") == "it is a symbolic link; remove it")
        #expect(reason(root.path + "/fifo") == "it is not a regular file")
        #expect(chmod(path, 0o620) == 0)
        #expect(reason(path)?.contains("others may write to it") == true)
    }

    @Test("A secret in a directory where others may put another one is refused")
    func secrets() throws {
        let path = try make("secret", "canary\n")
        #expect(try readSecret(path, limit: 100) == "canary\n")
        #expect(chmod(root.path, 0o770) == 0)
        let error = #expect(throws: FileError.self) { try readSecret(path, limit: 100) }
        #expect(error?.reason == "its directory \(root.path): others may write to it; run: chmod go-w \(root.path)")
    }

    @Test("What the kernel tells is read, though its files say that they are empty")
    func kernelFiles() {
        #expect(systemLine("/proc/self/comm")?.isEmpty == false)
        #expect(systemLine("/proc/self/none") == nil)
    }

    @Test("The kernel says who is at the other end of a socket [V58]")
    func peer() {
        var ends: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        #expect(peerUser(of: ends[0]) == geteuid())
        for end in ends { close(end) }
        #expect(peerUser(of: -1) == nil)
    }

    @Test("A file that is made takes the place of a planted link and does not write through it")
    func creation() throws {
        let victim = try make("victim", "precious")
        for plant in [link(victim, root.path + "/hard"), symlink(victim, root.path + "/soft")] { #expect(plant == 0) }
        for name in ["hard", "soft"] {
            let file = try createFile(root.path + "/" + name)
            #expect("new".withCString { pwrite(file.raw, $0, 3, 0) } == 3)
        }
        #expect(try readFile(victim, trust: .state, limit: 100) == Array("precious".utf8))
    }

    @Test("A file is replaced whole, also where a temporary name is taken by a link")
    func replacement() throws {
        let path = try make("a", "old")
        let victim = try make("victim", "precious")
        #expect(link(victim, "\(root.path)/.a.\(getpid()).new") == 0)
        try replaceFile(path, with: Array("new".utf8), mode: 0o644)
        #expect(try readFile(path, trust: .state, limit: 100) == Array("new".utf8))
        #expect(try readFile(victim, trust: .state, limit: 100) == Array("precious".utf8))
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o644)
    }

    @Test("A FIFO is not replaced by a file, whoever asks for it")
    func noReplacement() throws {
        let path = root.path + "/fifo"
        #expect(mkfifo(path, 0o600) == 0)
        let error = #expect(throws: FileError.self) { try replaceFile(path, with: Array("new".utf8)) }
        #expect(error?.reason == "it is not a regular file" && error?.cause == .inTheWay)
        var status = stat()
        #expect(lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
    }

    @Test("A file on which something is mounted is in the way, and no fault of the disk")
    func mounted() {
        let error = FileError(step: "install", path: "a", code: .deviceOrResourceBusy)
        #expect(error.cause == .inTheWay && error.reason.contains("something is mounted there"))
    }
}

@Suite("Directories that are ours", .timeLimit(.minutes(10)))
struct PrivateDirectoryTests {
    private let root: TemporaryRoot

    init() throws { root = try TemporaryRoot() }

    private func refusal(_ body: () throws(FileError) -> Void) -> String? {
        do throws(FileError) {
            try body()
            return nil
        } catch { return error.reason }
    }

    @Test("It is made, with those above it, for this user alone")
    func creation() throws {
        let path = root.path + "/a/b"
        _ = try openPrivateDirectory(path, create: true)
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o700)
        #expect(
            refusal { () throws(FileError) in _ = try openPrivateDirectory(path + "/c", create: false) }
                == "No such file or directory")
    }

    @Test("A link in its place is refused; the state directory itself may be one")
    func links() throws {
        let (real, link) = (root.path + "/real", root.path + "/link")
        #expect(mkdir(real, 0o700) == 0 && symlink(real, link) == 0)
        let reason = refusal { () throws(FileError) in _ = try openPrivateDirectory(link, create: true) }
        #expect(reason == "Not a directory")
        _ = try openStateDirectory(link, create: true)
    }

    @Test("One that others may write to is refused, and says how to mend it")
    func othersMayWrite() {
        let path = root.path + "/open"
        #expect(mkdir(path, 0o700) == 0 && chmod(path, 0o770) == 0)
        let reason = refusal { () throws(FileError) in _ = try openPrivateDirectory(path, create: true) }
        #expect(reason == "others may write to it; run: chmod go-w \(path)")
    }

    @Test(
        "Another user's is refused, for root as well",
        .enabled(if: geteuid() == 0, "only root can give directories away"))
    func foreign() {
        let path = root.path + "/foreign"
        #expect(mkdir(path, 0o700) == 0 && chown(path, 4242, 4242) == 0)
        let reason = refusal { () throws(FileError) in _ = try openPrivateDirectory(path, create: true) }
        #expect(reason?.contains("belongs to another user (uid 4242)") == true)
    }

    @Test("A file in a directory that others may write to is not ours to trust, unless the directory is sticky")
    func directoryOfAFile() {
        let path = root.path + "/open"
        #expect(mkdir(path, 0o700) == 0 && chmod(path, 0o777) == 0)
        let check = { refusal { () throws(FileError) in try checkDirectory(of: path + "/config.json") } }
        #expect(check()?.contains("others may write to it") == true)
        #expect(chmod(path, 0o1777) == 0)
        #expect(check() == nil)
        #expect(chmod(path, 0o755) == 0)
        #expect(check() == nil)
    }

    @Test("What is above the state directory is not somebody else's, or the nearest that is there")
    func above() {
        let path = root.path + "/home"
        #expect(mkdir(path, 0o700) == 0)
        let check = { refusal { () throws(FileError) in try checkParent(of: path + "/.local/state/syncagent") } }
        #expect(check() == nil)
        // Where every user has a group of his own, umask(2) is 002.
        #expect(chmod(path, 0o775) == 0)
        #expect(check() == nil)
        #expect(chmod(path, 0o777) == 0)
        #expect(check() == "\(path), above it: others may write to it; run: chmod go-w \(path)")
        #expect(chmod(path, 0o1777) == 0)
        #expect(check() == nil)
        guard geteuid() == 0 else { return }
        #expect(chmod(path, 0o755) == 0 && chown(path, 4242, 4242) == 0)
        #expect(check()?.contains("\(path), above it: it belongs to another user (uid 4242)") == true)
        let made = refusal { () throws(FileError) in _ = try openStateDirectory(path + "/state", create: true) }
        #expect(made?.contains("uid 4242") == true && access(path + "/state", F_OK) != 0)
    }

    @Test("Of several threads that replace one file each writes all of its own, and the last one's stays whole")
    func concurrentReplacements() throws {
        let path = root.path("shared")
        let errors = concurrently(8, name: "replace") { thread -> FileError? in
            let bytes = [UInt8](repeating: UInt8(thread), count: 300_000)
            for _ in 0..<40 {
                do throws(FileError) { try replaceFile(path, with: bytes, isDurable: false) } catch { return error }
            }
            return nil
        }
        #expect(errors.allSatisfy { $0 == nil })
        let bytes = try readFile(path, trust: .state, limit: 1 << 20)
        #expect(bytes.count == 300_000 && bytes.allSatisfy { $0 == bytes[0] })
        #expect(try directoryEntries(root.path) == ["shared"])
    }

    @Test("Where a file is reached through a link, both directories count")
    func directoryBehindALink() {
        let path = root.path + "/open"
        #expect(mkdir(path, 0o700) == 0 && chmod(path, 0o777) == 0)
        #expect(close(open(path + "/real.json", O_CREAT | O_WRONLY, 0o600)) == 0)
        #expect(symlink(path + "/real.json", root.path + "/config.json") == 0)
        let reason = refusal { () throws(FileError) in try checkDirectory(of: root.path + "/config.json") }
        #expect(reason?.contains("others may write to it") == true)
    }
}
