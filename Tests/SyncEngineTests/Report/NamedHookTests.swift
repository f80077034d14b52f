import SyncModel
import Testing

@testable import SyncEngine
@testable import SyncManifest

@Suite("Hooks that groups name")
struct NamedHookTests {
    private func manifest(groups: Int, hooks: Int, _ name: (_ group: Int, _ hook: Int) -> String) -> Manifest {
        Manifest(
            project: "p", revision: 1, created: nil, digest: .zero, packs: [],
            groups: (0..<groups).map { group in
                Manifest.Group(name: "g\(group)", include: [], hooks: (0..<hooks).map { name(group, $0) })
            }, files: FileTable(), directories: FileTable(), chunking: nil, userData: nil, source: nil, parts: [],
            dictionary: nil)
    }

    private func known(_ names: [String]) -> [String: RunHook] {
        Dictionary(uniqueKeysWithValues: names.map { ($0, RunHook(group: "", arguments: ["/bin/\($0)"])) })
    }

    private let recipe = RunRecipe(manifest: "m.json")

    @Test("A name that is not known is told once, whatever number of groups has it [V53]")
    func once() {
        let named = NamedHooks(manifest(groups: 300, hooks: 3) { _, hook in "h\(hook)" }, recipe, known(["h1"]))
        #expect(named.unknown.map { $0.name } == ["h0", "h2"])
        #expect(named.unknown.map { $0.group } == ["g0", "g0"])
        #expect(named.specifications.map(\.group) == (0..<300).map { "g\($0)" })
        #expect(named.notes.count == 2)
    }

    @Test("Of many unknown names the first hundred are told, and how many more there are [V53]")
    func bounded() {
        let named = NamedHooks(manifest(groups: 30, hooks: 1_000) { "h\($0)-\($1)" }, recipe, known([]))
        #expect(named.unknown.count == 100)
        #expect(named.more == 29_900)
        #expect(named.notes.count == 101)
        #expect(named.notes.last == "the manifest names 29900 more hooks that are not defined here")
    }

    @Test("A hook that a group names twice is called once")
    func twice() {
        let named = NamedHooks(manifest(groups: 2, hooks: 5) { _, _ in "h" }, recipe, known(["h"]))
        #expect(named.specifications.map(\.group) == ["g0", "g1"])
    }
}
