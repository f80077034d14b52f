import Glibc
import SyncTestKit
import Synchronization

/// Starts servers as people have them, when they are installed.
enum RealServer {
    static func isInstalled(_ program: String) -> Bool { ChildProgram.find(program) != nil }

    /// Starts nginx below `root`, where the object is at `files/a`.
    static func nginx(_ root: TemporaryRoot, port: UInt16, server: String) async throws -> ChildProgram {
        try root.write(
            """
            daemon off; master_process off; pid \(root.path("nginx.pid")); error_log \(root.path("nginx.log"));
            events { worker_connections 256; }
            http {
                access_log \(root.path("access.log"));
                client_body_temp_path \(root.path("body")); proxy_temp_path \(root.path("proxy"));
                fastcgi_temp_path \(root.path("fastcgi")); uwsgi_temp_path \(root.path("uwsgi"));
                scgi_temp_path \(root.path("scgi"));
                server { root \(root.path("files")); \(server) }
            }
            """, to: "nginx.conf")
        return try await start("nginx", ["-c", root.path("nginx.conf"), "-p", root.path], root, port: port)
    }

    static func tinyproxy(_ root: TemporaryRoot, port: UInt16) async throws -> ChildProgram {
        try root.write(
            """
            Port \(port)
            Listen 127.0.0.1
            Timeout 60
            Allow 127.0.0.1
            BasicAuth someone canary
            """, to: "tinyproxy.conf")
        return try await start("tinyproxy", ["-d", "-c", root.path("tinyproxy.conf")], root, port: port)
    }

    static func squid(_ root: TemporaryRoot, port: UInt16) async throws -> ChildProgram {
        try root.write(
            """
            http_port 127.0.0.1:\(port)
            http_access allow localhost
            pid_filename none
            cache_log /dev/null
            access_log none
            cache_mem 8 MB
            coredump_dir none
            shutdown_lifetime 0 seconds
            """, to: "squid.conf")
        return try await start("squid", ["-N", "-n", "test\(port)", "-f", root.path("squid.conf")], root, port: port)
    }

    private static let nextPort = Atomic<UInt16>(20_000 + UInt16(truncatingIfNeeded: getpid() % 10_000))

    /// A port that nobody listens on, and that no other test of this process is given.
    static func freePort() throws -> UInt16 {
        for _ in 0..<100 {
            let port = nextPort.wrappingAdd(1, ordering: .relaxed).newValue
            if !isListening(port) { return port }
        }
        throw TestKitError("a hundred ports in a row are taken")
    }

    private static func start(_ name: String, _ arguments: [String], _ root: TemporaryRoot, port: UInt16) async throws
        -> ChildProgram
    {
        guard let path = ChildProgram.find(name) else { throw TestKitError("\(name) is not installed") }
        let program = try ChildProgram(path, arguments, output: root.path("\(name).out"))
        let limit = ContinuousClock.now + .seconds(20)
        while !isListening(port) {
            guard ContinuousClock.now < limit, program.isRunning else {
                throw TestKitError("\(name) does not listen: \(program.output)")
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        return program
    }

    private static func isListening(_ port: UInt16) -> Bool {
        let client = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(client) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
