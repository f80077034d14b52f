import Foundation
import SyncAgent
import SyncControlFixture
import SyncModel
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ControlClientTests {
    @Test("Every command of the client reaches the agent and brings its answer back")
    func commands() async throws {
        let agent = FakeAgent()
        let name = "com.example.tower"
        try await withServer(of: agent) { socket in
            let client = ControlClient(socketPath: socket)
            #expect(try await client.status().process == 42)
            #expect(try await client.sessions() == [FakeAgent.session])
            #expect(try await client.session(name) == FakeAgent.session)
            #expect(try await client.pause(name).state == .paused)
            #expect(try await client.resume(name).state == .running)
            #expect(try await client.cancel(name).state == .idle)
            #expect(try await client.prioritize(name, paths: ["ä b", "c"]).state == .running)
            try await client.remove(name, files: true)
            #expect(try await client.hooks() == [FakeAgent.hook])
            #expect(try await client.replay(hook: 7).state == .pending)
            try await client.stop(.handover)
        }
        #expect(
            await agent.asked == [
                "status", "sessions", "session \(name)", "pause \(name)", "resume \(name)", "cancel \(name)",
                "prioritize \(name) ä b|c", "remove \(name) true", "hooks -", "replay 7", "stop handover",
            ])
    }

    @Test("A request arrives with everything it says; twice is once")
    func enqueue() async throws {
        let agent = FakeAgent()
        var request = EnqueueRequest(manifest: "https://example.org/m.json", destination: "/srv/tower")
        request.groups = ["sheets"]
        request.hooks = [RunHook(group: "sheets", arguments: ["/bin/true", "a b"], timeout: 5)]
        request.settings.connections = 3
        request.settings.limitRate = .max
        request.prune = true
        request.force = true
        request.maxDelete = 9
        request.backupDir = "/srv/kept files"
        request.allowOlder = true
        request.notBefore = WallTime(milliseconds: 1_795_136_400_123)
        request.deadlineSeconds = 60
        request.paused = true
        request.origin = .hook
        request.settings.tlsMinimum = .tls13
        request.settings.deadline = .seconds(90)
        (request.settings.headers, request.settings.downgrade) = ([.file("/h")], .hosts(["a"]))
        request.configuration = RunConfiguration(file: "/c.json", hooks: ["a": RunHook(arguments: ["/b"])])
        request.label = "„nightly“\n"
        let sent = request
        try await withServer(of: agent) { socket in
            let session = AgentSession("tower/1", client: ControlClient(socketPath: socket))
            let configure: @Sendable (inout EnqueueRequest) -> Void = { $0 = sent }
            let first = try await session.enqueue(manifest: "", into: "", configure)
            #expect(first.isNew)
            #expect(first.session == "tower/1")
            #expect(try await session.enqueue(manifest: "", into: "", configure).isNew == false)
        }
        request.session = "tower/1"
        #expect(await agent.requests == [request, request])
    }

    @Test("A list of files is kept as a manifest for its owner alone, and asked for; it is replaced as a whole")
    func entries() async throws {
        let agent = FakeAgent()
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let list = directory.appendingPathComponent("tower.json").path
        var files = [
            FileEntry(
                path: "a \"b\".png", size: 7, sha256: String(repeating: "0", count: 64), urls: ["https://example.org/1"]
            )
        ]
        try await withServer(of: agent) { [files] socket in
            let session = AgentSession("tower", client: ControlClient(socketPath: socket))
            let reply = try await session.enqueue(files, project: "com.example.tower", keptAs: list, into: "/srv/t") {
                $0.prune = true
            }
            #expect(reply.isNew)
            let error = await #expect(throws: ControlError.self) {
                try await session.enqueue([], project: "p", keptAs: list + "/below", into: "/srv/t")
            }
            #expect(error?.exitStatus == .ioError && error?.message.contains("tower.json/below") == true)
        }
        let asked = await agent.requests
        #expect(asked.map(\.manifest) == [list] && asked.first?.prune == true)
        func kept() throws -> [String: Any]? {
            try JSONSerialization.jsonObject(with: Data(contentsOf: URL(fileURLWithPath: list))) as? [String: Any]
        }
        let document = try #require(try kept())
        #expect(document["project"] as? String == "com.example.tower")
        let file = try #require((document["files"] as? [[String: Any]])?.first)
        #expect(file["path"] as? String == "a \"b\".png" && file["urls"] as? [String] == ["https://example.org/1"])
        let mode = try FileManager.default.attributesOfItem(atPath: list)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        files.removeAll()
        try files.writeManifest(of: "p", to: list)
        #expect((try kept()?["files"] as? [Any])?.isEmpty == true)
    }

    @Test("What is on the wire, and tasks one by one, come as they are; an error in their place is thrown")
    func tasks() async throws {
        let agent = FakeAgent()
        let name = "com.example.tower"
        try await withServer(of: agent) { socket in
            let session = AgentSession(name, client: ControlClient(socketPath: socket))
            #expect(try await session.requests() == RequestList(requests: [], more: 3))
            var found: [TaskStatus] = []
            for try await task in session.tasks() { found.append(task) }
            #expect(found == FakeAgent.tasks)
            found = []
            for try await task in session.tasks(state: .failed, path: "a b/*") { found.append(task) }
            #expect(found.map(\.path) == ["a/link"])
            let error = await #expect(throws: ControlError.self) {
                for try await _ in AgentSession("x", client: session.client).tasks() {}
            }
            #expect(error?.code == .unknownSession)
        }
        #expect(
            await agent.asked == ["requests \(name)", "tasks \(name) - -", "tasks \(name) failed a b/*", "tasks x - -"])
    }

    @Test("What the agent refuses arrives with code, words and exit status")
    func errors() async throws {
        let agent = FakeAgent()
        await agent.fail(.refused, "Run run-1 is finished: it cannot be paused.", .refused)
        try await withServer(of: agent) { socket in
            let client = ControlClient(socketPath: socket)
            let refused = ControlError(.refused, "Run run-1 is finished: it cannot be paused.", exitStatus: .refused)
            await #expect(throws: refused) { try await client.pause("com.example.tower") }
            let unknown = await #expect(throws: ControlError.self) { try await client.session("no/such") }
            #expect(unknown?.code == .unknownSession)
        }
    }

    @Test("No agent is told as such, and where it was looked for")
    func unreachable() async throws {
        let error = await #expect(throws: ControlError.self) {
            try await ControlClient(socketPath: "/nowhere/agent.sock").status()
        }
        #expect(error?.code == .unreachable)
        #expect(error?.exitStatus == .unavailable)
        #expect(error?.message.contains("/nowhere/agent.sock") == true)
        let long = "/" + String(repeating: "x", count: 200)
        await #expect(throws: ControlError.self) { try await ControlClient(socketPath: long).status() }
    }

    @Test("An agent that comes up elsewhere than it was first looked for is reached")
    func elsewhere() async throws {
        let state = FileManager.default.temporaryDirectory.path + "/elsewhere-\(UUID().uuidString)"
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(atPath: state) }
        let place = AgentPlace(stateDirectory: state, runtimeDirectory: nil)
        try await withServer(of: FakeAgent()) { socket in
            let looks = Mutex(0)
            let status = try await place.reach(starting: "/bin/true", environment: [:]) {
                let count = looks.withLock { looks in
                    looks += 1
                    return looks
                }
                return ControlClient(socketPath: count < 3 ? place.socketPath : socket)
            }
            #expect(status.process == 42)
            #expect(looks.withLock { $0 } == 3)
        }
    }

    @Test("An agent that takes its time to fail is told of with its own words and status")
    func slowFailure() async throws {
        let state = FileManager.default.temporaryDirectory.path + "/slow-\(UUID().uuidString)"
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(atPath: state) }
        let place = AgentPlace(stateDirectory: state, runtimeDirectory: nil)
        let slow = ["-c", "sleep 1; echo no home >&2; exit 78"]
        let error = await #expect(throws: ControlError.self) {
            try await ControlClient(socketPath: place.socketPath).reach(
                starting: "/bin/sh", slow, at: place, environment: ["PATH": "/usr/bin:/bin"], patience: .seconds(60))
        }
        #expect(error?.exitStatus == .configuration && error?.message.contains("no home") == true)
    }

    @Test(
        "The socket is where XDG says",
        arguments: [
            (
                ["HOME": "/home/a", "XDG_RUNTIME_DIR": "/dev"], "/dev/syncagent/agent.sock",
                "/home/a/.local/state/syncagent"
            ),
            (
                ["HOME": "/home/a", "XDG_RUNTIME_DIR": "/none/user/1"], "/home/a/.local/state/syncagent/agent.sock",
                "/home/a/.local/state/syncagent"
            ), (["HOME": "/home/a"], "/home/a/.local/state/syncagent/agent.sock", "/home/a/.local/state/syncagent"),
            (["XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "relative"], "/s/syncagent/agent.sock", "/s/syncagent"),
        ])
    func place(environment: [String: String], socket: String, state: String) {
        let place = AgentPlace(environment: environment)
        #expect(place?.socketPath == socket)
        #expect(place?.stateDirectory == state)
    }

    @Test("No agent has the lock where there is none; where it cannot be looked at, one may have it")
    func lock() throws {
        let state = FileManager.default.temporaryDirectory.path + "/lock-\(UUID().uuidString)"
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(atPath: state) }
        let place = AgentPlace(stateDirectory: state, runtimeDirectory: nil)
        #expect(!place.isLocked)
        // A directory cannot be opened for writing, not even by root: EISDIR.
        try FileManager.default.createDirectory(atPath: state + "/agent.lock", withIntermediateDirectories: true)
        #expect(place.isLocked)
        try FileManager.default.removeItem(atPath: state + "/agent.lock")
        #expect(FileManager.default.createFile(atPath: state + "/agent.lock", contents: nil))
        #expect(chmod(state + "/agent.lock", 0o600) == 0)
        #expect(!place.isLocked)
    }

    @Test("Without home and state directory there is no place")
    func noPlace() {
        #expect(AgentPlace(environment: ["XDG_RUNTIME_DIR": "/run"]) == nil)
    }
}
