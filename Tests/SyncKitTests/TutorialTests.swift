import Foundation
import SyncKit
import SyncTestKit
import Testing

// The code of Sources/SyncKit/SyncKit.docc/Tutorial.md, word for word.

func pullTower(_ manifest: String, into destination: String, state: String) async throws -> Sync.Summary? {
    var options = Sync.Options()
    options.stateDirectory = state
    options.settings.limitRate = 50_000_000
    var summary: Sync.Summary?
    for try await event in Sync.pull(manifest, into: destination, options: options) {
        switch event {
        case .progress(let progress): print("\(progress.filesDone) of \(progress.filesTotal) files")
        case .failed(let file): print("\(file.path): \(file.reason)")
        case .finished(let found): summary = found
        default: break
        }
    }
    return summary
}

func pullWithLines(_ pull: Sync.Pull, show: (String) -> Void) async throws {
    for try await event in pull {
        switch event {
        case .requests(let list):
            for request in list.requests {
                let what = request.path ?? "\(request.object ?? "") with \(request.tasks) files"
                show("\(what): \(request.received) bytes, \(request.rate) a second, \(request.state.rawValue)")
            }
        case .files(let files):
            for file in files { show("\(file.path): \(file.bytesDone) of \(file.bytesTotal) bytes") }
        default: break
        }
    }
}

func pullForAtMost(_ time: Duration, _ pull: Sync.Pull) async throws -> Bool {
    try await withThrowingTaskGroup(of: Bool.self) { group in
        group.addTask {
            for try await _ in pull {}
            return true
        }
        group.addTask {
            try await Task.sleep(for: time)
            return false
        }
        defer { group.cancelAll() }
        return try await group.next() ?? false
    }
}

struct NoEmptyFiles: FileVerifier {
    func verify(_ files: [StagedFile]) -> [FileVerdict] {
        files.map { $0.size > 0 ? .accepted : .refused(reason: "it is empty") }
    }
}

func pullVerified(_ manifest: String, into destination: String, options: Sync.Options) async throws -> [String] {
    var plugins = Sync.Plugins()
    plugins.verifiers = [NoEmptyFiles()]
    var refused: [String] = []
    for try await event in Sync.pull(manifest, into: destination, options: options, plugins: plugins) {
        if case .failed(let file) = event { refused.append(file.path) }
    }
    return refused
}

func pullList(_ files: [Sync.Entry], into destination: String, options: Sync.Options) async throws -> Int {
    var installed = 0
    let pull = Sync.pull(files, project: "com.example.list", into: destination, options: options)
    for try await event in pull { if case .installed = event { installed += 1 } }
    return installed
}

@Suite("The tutorial", .timeLimit(.minutes(10)))
struct TutorialTests {
    @Test("Its code is what is compiled here")
    func text() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = root.appendingPathComponent("Sources/SyncKit/SyncKit.docc/Tutorial.md")
        let article = try String(contentsOf: page, encoding: .utf8)
        let code = try String(contentsOfFile: #filePath, encoding: .utf8)
        // The formatter breaks lines where it likes.
        func words(_ text: some StringProtocol) -> String { String(text.filter { !$0.isWhitespace }) }
        let compiled = words(code)
        let blocks = article.components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(blocks.count == 5)
        for block in blocks { #expect(compiled.contains(words(block)), "\(block.prefix(60))") }
    }

    @Test("Its code does what it says")
    func runs() async throws {
        var tree = KitScene.small
        tree.addFile("empty.txt", size: 0, seed: 1)
        let scene = try KitScene(tree)
        #expect(
            try await pullVerified(scene.manifest, into: scene.destination, options: scene.options) == ["empty.txt"])
        let whole = try await pullTower(scene.manifest, into: scene.destination, state: scene.root.path("state"))
        #expect(whole?.result == .ok && whole?.files.unchanged == 4)
        #expect(try await pullForAtMost(.seconds(100), scene.pull()))
        // Nothing is on the wire for what is there.
        try await pullWithLines(scene.pull()) { Issue.record("\($0)") }
        #expect(try await pullList([], into: scene.root.path("list"), options: scene.options) == 0)
    }
}
