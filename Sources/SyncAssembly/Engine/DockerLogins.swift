import Foundation
import SyncModel
import SyncPlugins
import SyncSystem

/// The user's logins for registries, from docker's `config.json` or else podman's `auth.json`: from the file itself, or
/// from a credential helper that it names.
struct DockerLogins: Sendable {
    enum Login: Sendable, Equatable {
        case password(user: String, password: String)
        /// A token that the token server gets instead of user and password.
        case identity(token: String)
    }

    /// The paths of possible configurations, absolute; the first one with a login counts.
    private let paths: [String]
    /// The environment of helpers, and where they are looked for.
    private let variables: [String: String]
    private let programs: String
    private let isStopped: @Sendable () -> Bool

    init(_ host: HostEnvironment, isStopped: @escaping @Sendable () -> Bool) {
        let docker = host.path("DOCKER_CONFIG", "/config.json") ?? host.path("HOME", "/.docker/config.json")
        let podman =
            host.path("XDG_CONFIG_HOME", "/containers/auth.json") ?? host.path("HOME", "/.config/containers/auth.json")
        paths = [docker, host.path("XDG_RUNTIME_DIR", "/containers/auth.json"), podman].compactMap(\.self)
        (variables, programs, self.isStopped) = (host.variables, host.variable("PATH") ?? "", isStopped)
    }

    private struct Configuration: Decodable {
        struct Entry: Decodable {
            var auth, username, password, identitytoken: String?
        }
        var auths: [String: Entry]?
        var credHelpers: [String: String]?
        var credsStore: String?
    }

    private static let longest = 1 << 20
    /// The longest time of a helper.
    private static let patience = Duration.seconds(20)

    /// The login for a registry, and the file that has it, for people; `nil` if there is none.
    ///
    /// - Parameter registry: Host and port.
    func login(_ registry: String) throws(PluginError) -> (login: Login, place: String)? {
        for path in paths where exists(path) {
            if let login = try login(registry, in: path) { return (login, escaped(path)) }
        }
        return nil
    }

    private func login(_ registry: String, in path: String) throws(PluginError) -> Login? {
        func failed(_ reason: String, _ code: PluginError.Code = .refused) -> PluginError {
            PluginError(plugin: "registry", code: code, message: "\(escaped(path)): \(reason)")
        }
        let configuration: Configuration
        do {
            // The file may name programs that are run.
            try checkUnchangeable(path)
            let bytes = try readFile(path, trust: .input, limit: Self.longest)
            configuration = try JSONDecoder().decode(Configuration.self, from: Data(bytes))
        } catch let error as FileError {
            // These errors persist.
            let isLasting = error.cause == .noPermission || error.code == .fileTooLarge
            throw failed(error.reason, isLasting ? .refused : .unavailable)
        } catch {
            throw failed("it is not a configuration of docker or podman")
        }
        let isHub = registry == "registry-1.docker.io"
        let names: Set = isHub ? ["docker.io", "index.docker.io", registry] : [registry]
        func isMeant(_ key: String) -> Bool { names.contains(Self.host(key)) }
        let helper = configuration.credHelpers?.first { isMeant($0.key) }?.value ?? configuration.credsStore
        if let helper, !helper.isEmpty,
            let login = try ask(helper, about: isHub ? "https://index.docker.io/v1/" : registry)
        {
            return login
        }
        let entries = (configuration.auths ?? [:]).filter { isMeant($0.key) }.sorted { $0.key < $1.key }
        for (_, entry) in entries {
            if let token = entry.identitytoken, !token.isEmpty { return .identity(token: token) }
            if let user = entry.username, let password = entry.password, !user.isEmpty {
                return .password(user: user, password: password)
            }
            guard let text = entry.auth, !text.isEmpty else { continue }
            guard let data = Data(base64Encoded: text), let colon = data.firstIndex(of: UInt8(ascii: ":")) else {
                throw failed("its entry for \(escaped(registry)) is not a user name and password")
            }
            return .password(
                user: String(decoding: data[..<colon], as: UTF8.self),
                // Some have zero bytes at the end.
                password: String(decoding: data[data.index(after: colon)...].prefix { $0 != 0 }, as: UTF8.self))
        }
        return nil
    }

    /// Host and port of a key, which may be a URL.
    private static func host(_ key: String) -> String {
        var rest = key.lowercased()[...]
        for scheme in ["https://", "http://"] where rest.hasPrefix(scheme) { rest = rest.dropFirst(scheme.utf8.count) }
        return String(rest.prefix { $0 != "/" })
    }

    // MARK: Helpers

    /// Asks `docker-credential-NAME get`; `nil` if the helper has no login.
    private func ask(_ name: String, about server: String) throws(PluginError) -> Login? {
        let program = "docker-credential-\(name)"
        func failed(_ reason: String, _ code: PluginError.Code = .unavailable) -> PluginError {
            PluginError(plugin: "registry", code: code, message: "\(escaped(program)): \(reason)")
        }
        guard name.utf8.count <= 64, name.utf8.allSatisfy({ isAlphanumeric($0) || [0x2D, 0x2E, 0x5F].contains($0) })
        else { throw failed("this is not the name of a helper", .refused) }
        let places = programs.split(separator: ":").filter { $0.hasPrefix("/") }.map { "\($0)/\(program)" }
        guard let found = places.first(where: { isPermitted(.execute, $0) }) else {
            throw failed("it is not in PATH", .refused)
        }
        do throws(FileError) { try checkUnchangeable(found) } catch { throw failed(error.reason, .refused) }
        guard let input = Pipe() else { throw failed(errnoText) }
        // The line is shorter than a pipe's capacity, so the write does not block.
        let written = Array("\(server)\n".utf8).withUnsafeBytes { writeAll($0, to: input.writer.raw) }
        guard written == nil else { throw failed("it cannot be asked") }
        var start = ProgramStart([found, "get"], variables: variables.map { "\($0.key)=\($0.value)" }.sorted())
        start.input = input.reader.raw
        let (end, output, errors) = withExtendedLifetime(input) {
            start.run(deadline: Self.patience, keeping: 64 << 10, keepsErrors: true, isStopped: isStopped)
        }
        switch end {
        case .exited(0): break
        case .exited:
            if (output + errors).contains("credentials not found") { return nil }
            let words = (output + errors).split(whereSeparator: \.isNewline).first.map {
                ": \(escaped(String($0.prefix(200))))"
            }
            throw failed("\(end)\(words ?? "")")
        case .timedOut: throw failed("it has not answered within \(Self.patience.components.seconds) s and was ended")
        case .signalled, .notRun: throw failed("\(end)")
        case .overflowed: throw failed("it has written more than 64 KiB")
        case .stopped, .silent, .unknown: throw failed("it gave no answer")
        }
        let answer = JSONValue(text: output)
        // As the protocol of helpers spells them.
        guard let user = answer?["Username"]?.string, let secret = answer?["Secret"]?.string else {
            throw failed("its answer cannot be read")
        }
        guard !secret.isEmpty else { return nil }
        return user == "<token>" ? .identity(token: secret) : .password(user: user, password: secret)
    }
}
