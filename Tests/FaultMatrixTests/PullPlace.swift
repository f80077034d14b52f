import SyncModel
import SyncSystem
import SyncTestKit
import SyncTransfer

/// One published set behind the servers of a fault, and pulls of it.
struct PullPlace: Sendable {
    let servers: MatrixServers
    let set: PublishedSet
    let fault: MatrixFault
    private let runner: PullRunner

    var destination: String { runner.destination }

    init(servers: MatrixServers, set: PublishedSet, fault: MatrixFault) throws {
        self.servers = servers
        self.set = set
        self.fault = fault
        runner = try PullRunner()
        try runner.root.write(servers.trusted, to: "ca.pem")
        servers.replace("/tower/manifest.json", with: ServedObject(set.manifest))
    }

    /// Puts the neighbours of a span in place, so that only its middle is wanted.
    func prepare(_ situation: Situation) throws {
        guard situation.shape == .span else { return }
        for path in ["a-before", "z-after"] {
            if let bytes = set.tree.bytes(path) { try runner.root.write(bytes, to: "files/\(path)") }
        }
    }

    /// Why files failed, as the events told.
    var reasons: String { runner.reasons }

    /// Runs a pull to its end.
    func pull(isUnderFault: Bool) async throws -> PullRunner.Ending {
        let base = fault.host.flatMap { isUnderFault ? "http://\($0)" : nil } ?? servers.stage.server.url("")
        return try await runner.pull(base + "/tower/manifest.json", configuration(isUnderFault: isUnderFault))
    }

    private func configuration(isUnderFault: Bool) -> TransportConfiguration {
        var configuration = TransportConfiguration.quick
        configuration.adopt(fault.setting, servers, authorities: runner.root.path("ca.pem"))
        if isUnderFault { fault.configure(&configuration) }
        return configuration
    }

    // MARK: What is on disk

    /// No file has other bytes than published; some may be missing.
    func requireNothingWrong(_ when: String) throws {
        let problems = set.tree.problems(in: runner.destination, partial: true)
        try require(problems.isEmpty, "\(when): \(problems)")
    }

    /// Every file is there with the bytes that were published.
    func requireWhole(_ when: String) throws {
        let problems = set.tree.problems(in: runner.destination)
        try require(problems.isEmpty, "\(when): \(problems)")
    }
}

extension TransportConfiguration {
    /// What a client needs to know to reach a server in this setting.
    mutating func adopt(_ setting: MatrixFault.Setting, _ servers: MatrixServers, authorities: String) {
        switch setting {
        case .plain: break
        case .tls(let kind):
            tls.authorities = authorities
            if kind == .http2 || kind == .oneStream { http2 = .always }
        case .proxy:
            proxy = ProxyConfiguration(
                url: servers.stage.server.url(""), user: "proxy-user", password: "proxy-password")
        }
    }
}
