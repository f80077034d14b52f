import ArgumentParser
import Foundation
import SyncEngine
import SyncModel
import SyncServer

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve a published directory over HTTP, for a LAN or to try things out.",
        discussion: """
            Prints the URL to pull from, then answers GET and HEAD with ranges and conditional requests until \
            SIGINT or SIGTERM. There is no TLS, no directory listing and no access control; dot files and symbolic \
            links are not served. To publish on the internet, copy the directory to a web server instead.

            With --cache, it caches a set that is published elsewhere, for the machines of a site: what several of \
            them request is fetched once, verified against its SHA-256, kept in --store, and sent to each. GET \
            /metrics reports the bytes fetched, sent and kept.

            Examples:

              syncagent serve site --bind 0.0.0.0 --port 8080
              syncagent serve --cache https://cdn.example.com/tower/ --store /srv/cache
            """)

    @Argument(help: "The directory to serve; not with --cache.", completion: .directory) var directory: String?

    @Option(
        name: .customLong("cache"),
        help: """
            Cache the set that is published here: the URL of its manifest.json, s3://BUCKET/PREFIX or \
            oci://HOST/NAME:TAG.
            """.taking("origin"))
    var origin: String?

    @Option(
        help: "The directory for what the cache has fetched; nothing else may use it.".taking("dir"),
        completion: .directory)
    var store: String?

    @Option(
        name: .customLong("max"),
        help: "The maximum size of the store; the least recently used bytes are removed first.  (default: 100G)".taking(
            "size"),
        transform: positiveByteCount)
    var most: ByteCount?

    @Option(help: "The port; 0 picks a free one.".taking("n")) var port = 8080

    @Option(help: "The address to listen on; 0.0.0.0 or :: for all.".taking("address")) var bind = "127.0.0.1"

    @Option(help: "The most connections at a time; others wait.".taking("n")) var maxConnections = 1_024

    @Option(help: "The most connections per client address; others are closed.".taking("n")) var maxPerAddress = 256

    @Option(
        help: "Drop a client that reads nothing, or sends no request, for this long.  (default: 60s)".taking("time"),
        transform: duration)
    var timeout = Duration.seconds(60)

    @Flag(name: .shortAndLong, help: "Print a line to standard error for each request.") var verbose = false

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port takes 0 to 65535, not \(port).") }
        guard maxConnections > 0 else {
            throw ValidationError("--max-connections takes at least 1, not \(maxConnections).")
        }
        guard maxPerAddress > 0 else {
            throw ValidationError("--max-per-address takes at least 1, not \(maxPerAddress).")
        }
        if bind.isEmpty { throw ValidationError("--bind needs an address, not an empty string.") }
        if let directory, urlScheme(of: directory) != nil {
            throw ValidationError(
                "DIRECTORY is a directory of this machine, not '\(redacted(url: directory))'; --cache with --store "
                    + "serves what is published elsewhere.")
        }
        try validateCache()
    }

    func run() async throws {
        if let origin, let store { return try await runCache(of: origin, in: store) }
        guard let directory else { throw ValidationError("Give a directory to serve, or --cache with the URL of one.") }
        let output = Output()
        let server = try StaticServer(
            directory: directory, settings(output, atMost: StaticServer.connectionsThatFit()),
            idle: { releaseMemory() })
        let path = server.serves("/manifest.json") ? "/manifest.json" : "/"
        let stop = StopSignals.firstRequest()
        try await server.run(
            listening: { [bind, directory] port in
                output.line(Self.url(address: bind, port: port, path: path))
                output.message("Serving \(escaped(directory)). Stop with ^C.")
            }, until: stop)
    }

    func settings(_ output: Output, atMost connections: Int) -> ServerSettings {
        var settings = ServerSettings()
        (settings.address, settings.port, settings.timeout) = (bind, port, timeout)
        (settings.maximumConnections, settings.maximumPerAddress) = (min(maxConnections, connections), maxPerAddress)
        if verbose { settings.log = { output.message(Self.line($0)) } }
        return settings
    }

    /// The URL under which clients reach the server. "All addresses" is shown as this host's name.
    static func url(address: String, port: Int, path: String) -> String {
        let isAny = address == "0.0.0.0" || address == "::"
        let host = isAny ? ProcessInfo.processInfo.hostName : address
        return "http://\(host.contains(":") ? "[\(host)]" : host):\(port)\(path)"
    }

    /// One line of the access log.
    static func line(_ record: AccessRecord) -> String {
        let milliseconds = Int64(record.duration / .milliseconds(1))
        let range = record.range.map { " [\(escaped($0))]" } ?? ""
        return "\(record.client) \(escaped(record.method)) \(redacted(url: record.target))\(range) \(record.status) "
            + "\(record.bytes) B \(milliseconds) ms" + (record.isComplete ? "" : " (cut off)")
    }
}
