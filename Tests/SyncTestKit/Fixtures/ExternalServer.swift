import SyncSystem

/// A real server program on a free port of 127.0.0.1, with a configuration of its own in a temporary directory.
///
/// Started in the foreground and stopped by its process identifier when the last reference goes.
public final class ExternalServer: Sendable {
    /// The port on 127.0.0.1.
    public let port: UInt16
    /// `http` or `https`.
    public let scheme: String
    private let program: ChildProgram
    private let root: TemporaryRoot

    struct Launch {
        var arguments: [String]
        var environment: [String: String] = [:]
    }

    /// Starts a program and waits until it takes connections; tries three free ports, since another process can
    /// take one between asking and starting.
    init(_ name: String, scheme: String = "http", root: TemporaryRoot, _ launch: (_ port: UInt16) throws -> Launch)
        throws
    {
        guard let path = ChildProgram.find(name) else { throw TestKitError(Self.absence(of: name)) }
        self.scheme = scheme
        self.root = root
        var trouble = ""
        for attempt in 1...3 {
            let placeholder = try Socket.bound(port: 0)
            let port = placeholder.port
            placeholder.close()
            let launch = try launch(port)
            let program = try ChildProgram(
                path, launch.arguments, output: root.path("output-\(attempt)"), environment: launch.environment)
            if Self.waitForPort(port, program) {
                self.port = port
                self.program = program
                return
            }
            program.stop()
            trouble = program.output
        }
        throw TestKitError("\(name) does not start: \(trouble.suffix(2_000))")
    }

    /// The URL of a path on this server; `path` begins with `/`.
    public func url(_ path: String) -> String { "\(scheme)://127.0.0.1:\(port)\(path)" }

    /// Its address, as for a proxy.
    public var address: String { "\(scheme)://127.0.0.1:\(port)" }

    /// What it has written to standard output and error.
    public var output: String { program.output }

    /// One of its files, such as an access log; empty while there is none.
    public func file(_ name: String) -> String { String(decoding: root.read(name) ?? [], as: UTF8.self) }

    /// Ends the program.
    public func stop() { program.stop() }

    deinit { program.stop() }

    /// Why a test that needs a program cannot run; `nil` when it can. For `.enabled(if:)` with a loud comment.
    public static func absence(of name: String) -> String { "SKIPPED: the program \(name) is not installed" }

    /// Whether a program is installed.
    public static func has(_ name: String) -> Bool { ChildProgram.find(name) != nil }

    private static func waitForPort(_ port: UInt16, _ program: ChildProgram) -> Bool {
        let limit = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < limit, program.isRunning {
            if Socket.canConnect(to: port) { return true }
            pauseThread(milliseconds: 10)
        }
        return false
    }
}

extension ExternalServer {
    /// nginx for one directory: ranges, ETags, keep-alive; with an identity, TLS and HTTP/2.
    ///
    /// With `lists`, pages that list directories.
    ///
    /// `access.log` has a line for each request: status, protocol, body bytes, range, URI.
    public static func nginx(serving directory: String, identity: TestIdentity? = nil, lists: Bool = false) throws
        -> ExternalServer
    {
        let root = try TemporaryRoot()
        var tls = ""
        if let identity {
            try root.write(identity.certificate, to: "server.pem")
            try root.write(identity.privateKey, to: "server.key")
            tls = "ssl_certificate \(root.path("server.pem")); ssl_certificate_key \(root.path("server.key"));"
        }
        let secure = identity == nil ? "" : " ssl http2"
        return try ExternalServer("nginx", scheme: identity == nil ? "http" : "https", root: root) { port in
            let configuration = """
                daemon off;
                \(isSuperuser ? "user root;" : "")
                worker_processes 1;
                pid \(root.path("nginx.pid"));
                error_log stderr warn;
                events { worker_connections 512; }
                http {
                  log_format short '$status $server_protocol $body_bytes_sent [$http_range] $request_uri';
                  access_log \(root.path("access.log")) short;
                  client_body_temp_path \(root.path("body"));
                  proxy_temp_path \(root.path("proxy"));
                  fastcgi_temp_path \(root.path("fastcgi"));
                  uwsgi_temp_path \(root.path("uwsgi"));
                  scgi_temp_path \(root.path("scgi"));
                  server {
                    listen 127.0.0.1:\(port)\(secure);
                    root \(directory);
                    autoindex \(lists ? "on" : "off");
                    \(tls)
                  }
                }
                """
            try root.write(configuration, to: "nginx.conf")
            return Launch(arguments: ["-p", root.path, "-e", "stderr", "-c", root.path("nginx.conf")])
        }
    }

    /// tinyproxy, with basic credentials when a user is given. `tinyproxy.conf(5)`
    public static func tinyproxy(user: String? = nil, password: String? = nil) throws -> ExternalServer {
        let root = try TemporaryRoot()
        return try ExternalServer("tinyproxy", root: root) { port in
            let configuration = """
                Port \(port)
                Listen 127.0.0.1
                Timeout 60
                MaxClients 100
                LogFile "\(root.path("access.log"))"
                LogLevel Connect
                \(user.map { "BasicAuth \($0) \(password ?? "")" } ?? "")
                """
            try root.write(configuration + "\n", to: "tinyproxy.conf")
            return Launch(arguments: ["-d", "-c", root.path("tinyproxy.conf")])
        }
    }

    /// Python's `http.server`: HTTP/1.0, a connection for each request, no ranges.
    public static func python(serving directory: String) throws -> ExternalServer {
        let root = try TemporaryRoot()
        return try ExternalServer("python3", root: root) { port in
            Launch(arguments: ["-m", "http.server", "\(port)", "--bind", "127.0.0.1", "--directory", directory])
        }
    }

    /// moto, which stands in for S3 and checks signatures once it is told to (`moto_server`, from PyPI).
    public static func moto() throws -> ExternalServer {
        let root = try TemporaryRoot()
        return try ExternalServer("moto_server", root: root) { port in
            // Requests that prepare the store need no signature; see ``S3Store``.
            Launch(
                arguments: ["-H", "127.0.0.1", "-p", "\(port)"],
                environment: ["INITIAL_NO_AUTH_ACTION_COUNT": "1000000"])
        }
    }
}
