import CommandTestSupport
import Foundation
import Testing

/// Where a program is, on the paths where system packages put theirs.
private func program(_ name: String) -> String? {
    ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"].map { "\($0)/\(name)" }.first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
}

private let examples = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Examples")

@Suite(.timeLimit(.minutes(10)))
struct ExamplesTests {
    static let hook = examples.appendingPathComponent("hooks/report-hook.sh")
    static let variables = [
        "SYNCAGENT_SESSION": "com.example.tower", "SYNCAGENT_RUN_ID": "run-1", "SYNCAGENT_GROUP": "all",
        "SYNCAGENT_RESULT": "ok", "SYNCAGENT_CHANGED": "2", "SYNCAGENT_ATTEMPT": "1",
    ]
    static let report = """
        {"revision":42,"manifest_sha256":"25dbf6748754aa","bytes":{"total":3,"received":7},"requests":2,"entries":[\
        {"path":"a\\u001b[2J","state":"installed"},{"path":"b","state":"unchanged"},\
        {"path":"c","state":"failed","reason":"status-404"}]}
        """

    /// Runs the example hook as the engine would, and returns what it wrote beside the destination.
    static func runHook(path: String, report: String = report) throws -> (status: Int32, log: String) {
        let scratch = try Scratch()
        let process = Process()
        process.executableURL = hook
        let destination = scratch.url.appendingPathComponent("tower").path
        process.environment = variables.merging(["SYNCAGENT_DESTINATION": destination, "PATH": path]) { $1 }
        let input = try scratch.write(Data(report.utf8), to: "report.json")
        process.standardInput = try FileHandle(forReadingFrom: input)
        process.standardOutput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return (process.terminationStatus, try String(contentsOfFile: destination + ".log", encoding: .utf8))
    }

    @Test("The example hook uses every variable of the contract")
    func everyVariable() throws {
        let text = try String(contentsOf: Self.hook, encoding: .utf8)
        for name in Self.variables.keys + ["SYNCAGENT_DESTINATION"] { #expect(text.contains("$\(name)"), "\(name)") }
    }

    @Test(
        "The example hook reads the report, and no name in it can steer a terminal [V63]",
        .enabled(if: program("python3") != nil, "SKIPPED: no python3"))
    func hookWithPython() throws {
        let (status, log) = try Self.runHook(path: "/usr/bin:/bin")
        #expect(status == 0)
        #expect(log.hasPrefix("com.example.tower: ok, group all, run run-1 (attempt 1): 2 files changed in /"))
        #expect(log.contains("revision 42"), "\(log)")
        #expect(log.contains("1 failed, 1 installed, 1 unchanged"), "\(log)")
        #expect(log.contains("received 7 bytes in 2 requests"), "\(log)")
        #expect(log.contains("failed 'c' status-404"), "\(log)")
        #expect(!log.contains("\u{1B}"), "\(log.debugDescription)")
    }

    @Test(
        "The example hook reads what is sent after a crash, which has no entries",
        .enabled(if: program("python3") != nil, "SKIPPED: no python3"))
    func hookAfterCrash() throws {
        let late = #"{"manifest_sha256":"25dbf6748754aa","late":true,"bytes":{"total":3,"received":7},"requests":2}"#
        let (status, log) = try Self.runHook(path: "/usr/bin:/bin", report: late)
        #expect(status == 0)
        #expect(log.contains("revision none, manifest 25dbf6748754"), "\(log)")
    }

    @Test("The example hook works without python3")
    func hookWithoutPython() throws {
        let bin = try Scratch()
        let wc = try #require(program("wc"))
        try FileManager.default.createSymbolicLink(atPath: bin.path + "/wc", withDestinationPath: wc)
        let (status, log) = try Self.runHook(path: bin.path)
        #expect(status == 0)
        #expect(log.contains("report of \(Self.report.utf8.count) bytes"), "\(log)")
    }

    @Test(
        "systemd accepts the unit pair", .enabled(if: program("systemd-analyze") != nil, "SKIPPED: no systemd-analyze"))
    func systemd() throws {
        let scratch = try Scratch()
        for name in ["syncagent-pull@.service", "syncagent-pull@.timer"] {
            var text = try String(contentsOf: examples.appendingPathComponent("systemd/\(name)"), encoding: .utf8)
            // systemd-analyze wants the program to be there.
            text = text.replacingOccurrences(of: "/usr/local/bin/syncagent", with: Tool.url.path)
            let instance = name.replacingOccurrences(of: "@.", with: "@tower.")
            try scratch.write(Data(text.utf8), to: instance)
        }
        for kind in ["service", "timer"] {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: try #require(program("systemd-analyze")))
            process.arguments = ["verify", "--man=no", "\(scratch.path)/syncagent-pull@tower.\(kind)"]
            let errors = Pipe()
            process.standardError = errors
            try process.run()
            let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            #expect(process.terminationStatus == 0, "\(text)")
            #expect(!text.contains("syncagent-pull"), "\(text)")
        }
    }

    @Test(
        "systemd accepts the agent's unit",
        .enabled(if: program("systemd-analyze") != nil, "SKIPPED: no systemd-analyze"))
    func agentUnit() throws {
        let scratch = try Scratch()
        var text = try String(contentsOf: examples.appendingPathComponent("systemd/syncagent.service"), encoding: .utf8)
        text = text.replacingOccurrences(of: "/usr/local/bin/syncagent", with: Tool.url.path)
        try scratch.write(Data(text.utf8), to: "syncagent.service")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(program("systemd-analyze")))
        process.arguments = ["verify", "--man=no", "--user", "\(scratch.path)/syncagent.service"]
        process.environment = ["XDG_RUNTIME_DIR": scratch.path, "HOME": scratch.path, "PATH": "/usr/bin:/bin"]
        let errors = Pipe()
        process.standardError = errors
        try process.run()
        let said = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(said)")
        #expect(!said.contains("syncagent.service:"), "\(said)")
    }

    @Test("The nginx site serves a published set", .enabled(if: program("nginx") != nil, "SKIPPED: no nginx"))
    func nginx() async throws {
        let scratch = try ServeTests.site()
        let port = try freePort()
        var site = try String(contentsOf: examples.appendingPathComponent("nginx/syncagent.conf"), encoding: .utf8)
        site = site.replacingOccurrences(of: "listen 80;", with: "listen 127.0.0.1:\(port);").replacingOccurrences(
            of: "    listen [::]:80;\n", with: ""
        ).replacingOccurrences(of: "/srv/published", with: scratch.url.appendingPathComponent("site").path)
        let configuration = """
            daemon off; master_process off; worker_processes 1; pid \(scratch.path)/pid;
            error_log \(scratch.path)/error.log;
            events { worker_connections 64; }
            http {
              access_log off; client_body_temp_path \(scratch.path)/body; proxy_temp_path \(scratch.path)/proxy;
              fastcgi_temp_path \(scratch.path)/f; uwsgi_temp_path \(scratch.path)/u; scgi_temp_path \(scratch.path)/s;
              \(site)
            }
            """
        let file = try scratch.write(Data(configuration.utf8), to: "nginx.conf")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(program("nginx")))
        process.arguments = ["-p", scratch.path, "-c", file.path]
        process.standardError = FileHandle.nullDevice
        try process.run()
        defer {
            // A child inherits the mask of the thread that starts it, and test threads block what can be blocked.
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        let client = HTTPClient(port: port)
        while process.isRunning, (try? client.send("HEAD", "/manifest.json")) == nil {
            try await Task.sleep(for: .milliseconds(20))
        }
        let errors = (try? String(contentsOfFile: scratch.path + "/error.log", encoding: .utf8)) ?? ""
        try #require(process.isRunning, "\(errors)")

        let pack = try client.send("GET", "/\(ServeTests.packName)", ["Range": "bytes=10-19"])
        #expect(pack.status == 206)
        #expect(Data(pack.body) == ServeTests.bytes(1000)[10..<20])
        #expect(pack.headers["cache-control"] == "public, max-age=31536000, immutable, no-transform")
        let manifest = try client.send("GET", "/manifest.json", ["Accept-Encoding": "gzip"])
        #expect(manifest.status == 200)
        #expect(manifest.headers["cache-control"] == "no-cache, no-transform")
        #expect(manifest.headers["content-encoding"] == nil)
        let etag = try #require(manifest.headers["etag"])
        #expect(try client.send("GET", "/manifest.json", ["If-None-Match": etag]).status == 304)
        let missing = try client.send("GET", "/packs/\(String(repeating: "cd", count: 32)).pack")
        #expect(missing.status == 404)
        #expect(missing.headers["cache-control"] == nil, "an absence is not for ever")
        #expect(try client.send("GET", "/.hidden").status == 404)
    }

    /// A port that was free a moment ago.
    private func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 ? getsockname(descriptor, $0, &length) : -1
            }
        }
        guard result == 0 else { throw HTTPClient.Failure(step: "bind") }
        return UInt16(bigEndian: address.sin_port)
    }
}
