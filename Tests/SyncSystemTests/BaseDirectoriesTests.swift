import SyncSystem
import Testing

@Suite("Where a user's files are [XDG Base Directory Specification 0.8]")
struct BaseDirectoriesTests {
    @Test("A variable wins over the default, a relative path and an empty one count as none")
    func places() {
        let directories = BaseDirectories {
            ["HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "c", "XDG_RUNTIME_DIR": ""][$0]
        }
        #expect(directories.state == "/s" && directories.configuration == "/h/.config")
        #expect(directories.runtime == nil && directories.home == "/h")
    }

    @Test("Without HOME it is the home directory that is given, without both there is no place")
    func homes() {
        #expect(BaseDirectories(home: "/u") { _ in nil }.state == "/u/.local/state")
        #expect(BaseDirectories { _ in nil }.state == nil && BaseDirectories { _ in nil }.configuration == nil)
    }
}
