import Foundation
import SyncModel
import SyncSystem

/// Where an agent is: the paths of its socket and state, according to the XDG Base Directory Specification 0.8. It is a
/// process in its own session that outlives the process that starts it.
public struct AgentPlace: Sendable, Equatable {
    /// The socket of the control API, absolute.
    public let socketPath: String
    /// Sessions, events and cached manifests, absolute.
    public let stateDirectory: String

    /// Determines the place from environment variables: `XDG_RUNTIME_DIR`, `XDG_STATE_HOME`, `HOME`.
    ///
    /// - Parameter environment: The variables, such as `ProcessInfo.processInfo.environment`.
    /// - Returns: `nil` if there is neither a home nor a state directory.
    public init?(environment: [String: String]) {
        let directories = BaseDirectories { environment[$0] }
        guard let state = directories.state else { return nil }
        self = Self.found(stateDirectory: state + "/syncagent", runtimeDirectory: directories.runtime)
    }

    /// The place of the agent. The lock of a running agent names the socket on which it listens, whatever environment
    /// it was started in, as by cron, by a service or in another login.
    package static func found(stateDirectory: String, runtimeDirectory: String?) -> AgentPlace {
        let place = own(stateDirectory: stateDirectory, runtimeDirectory: runtimeDirectory)
        // The lock of an ended agent may name a socket that an agent with another state directory has by now.
        if let socket = place.signedSocket, place.isLocked, isListening(socket) {
            let signed = AgentPlace(stateDirectory: stateDirectory, socketPath: socket)
            // For up to a second it may be another agent's by now. If the socket's lock is lost or empty, this place
            // counts.
            if [nil, "", signed.stateIdentity].contains(signed.owner) { return signed }
        }
        return place.served ?? place.unshared
    }

    /// This place, or one in the state directory if another agent has this one: all state directories of a user share
    /// the runtime directory. For an agent that does not listen yet.
    package var unshared: AgentPlace {
        owner != nil || Self.isListening(socketPath)
            ? AgentPlace(stateDirectory: stateDirectory, runtimeDirectory: nil) : self
    }

    /// The text of the lock beside the agent's socket: its process and its state directory.
    package var claim: String { "\(CurrentProcess.identifier)\n\(stateIdentity ?? "")" }

    /// The identity of the state directory, whatever path leads to it; `nil` if it cannot be examined. inode(7)
    private var stateIdentity: String? {
        // Tries twice: an agent without this identity would be taken for another one as long as it lives.
        (status(following: stateDirectory) ?? status(following: stateDirectory)).map { "\($0.device):\($0.inode)" }
    }

    /// The place, here or in the state directory, where an agent with this state directory listens, according to the
    /// lock beside its socket; `nil` if there is none.
    private var served: AgentPlace? {
        guard let identity = stateIdentity else { return nil }
        return [self, AgentPlace(stateDirectory: stateDirectory, runtimeDirectory: nil)].first { $0.owner == identity }
    }

    /// Whether an agent with this state directory listens, whatever happened to its own lock.
    package var isServed: Bool { served != nil }

    /// The state directory of the agent that listens here, as its ``claim`` says; `nil` if no agent listens.
    private var owner: String? {
        guard let file = try? openFile(socketPath + ".lock", trust: .state) else { return nil }
        guard FileLock.isTaken(file, orUnknown: false) else { return nil }
        let text = (try? readFile(file.raw, limit: 4_096, shown: socketPath)) ?? []
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n")
        return lines.count == 2 ? String(lines[1]) : ""
    }

    /// The place for an agent of this environment. Its socket is in the state directory if there is no runtime
    /// directory, as in a container or after a login has ended.
    package static func own(stateDirectory: String, runtimeDirectory: String?) -> AgentPlace {
        AgentPlace(
            stateDirectory: stateDirectory, runtimeDirectory: runtimeDirectory.flatMap { exists($0) ? $0 : nil })
    }

    /// The text of the agent's lock: its process and its socket.
    package var signature: String { "\(CurrentProcess.identifier)\n\(socketPath)" }

    /// The socket of the agent whose ``signature`` is in the lock; `nil` if the lock does not name one.
    private var signedSocket: String? {
        guard let text = try? readFile(stateDirectory + "/agent.lock", trust: .state, limit: 4_096) else { return nil }
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n")
        return lines.count == 2 && lines[1].hasPrefix("/") ? String(lines[1]) : nil
    }

    /// Whether a process of this user accepts connections at a Unix socket. unix(7)
    private static func isListening(_ path: String) -> Bool {
        guard let socket = UnixAddress(path)?.connected() else { return false }
        return peerUser(of: socket.raw) == CurrentProcess.user
    }

    /// Uses the given directories; without a runtime directory the socket is in the state directory.
    public init(stateDirectory: String, runtimeDirectory: String?) {
        let directory = runtimeDirectory.map { $0 + "/syncagent" } ?? stateDirectory
        self.init(stateDirectory: stateDirectory, socketPath: directory + "/agent.sock")
    }

    private init(stateDirectory: String, socketPath: String) {
        (self.stateDirectory, self.socketPath) = (stateDirectory, socketPath)
    }

    /// Whether a process has the agent's lock, or has lost it and still listens. Takes no lock. If that cannot be found
    /// out, the answer is yes.
    package var isLocked: Bool {
        do throws(FileError) { return try isTaken() } catch {
            // No agent of this user can hold a lock that belongs to another user or that cannot be written to.
            return !(error.isRefusal || error.code == .permissionDenied || error.code == .readOnlyFileSystem)
        }
    }

    /// As ``isLocked``, but throws if it cannot be found out.
    ///
    /// - Parameter orUnknown: Whether a lock counts as taken if the file system cannot tell.
    private func isTaken(orUnknown: Bool = true) throws(FileError) -> Bool {
        do throws(FileError) {
            let file = try openFile("\(stateDirectory)/agent.lock", .readWrite, trust: .state)
            if FileLock.isTaken(file, orUnknown: orUnknown) { return true }
        } catch {
            // Without the file, no agent has the lock.
            guard error.isMissing else { throw error }
        }
        return isServed
    }
}

extension AgentPlace {
    /// The log file of an agent that is started here; truncated at the next start once it exceeds 1 MiB.
    public var logFile: String { stateDirectory + "/agent.log" }

    /// The arguments of an agent that ends when there is nothing left to do.
    public static let onDemand = ["agent", "run", "--on-demand"]

    private static let logLimit: UInt64 = 1 << 20
    /// How the variables begin that belong to one hook or one service.
    private static let foreign = ["SYNCAGENT_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_"]

    /// Starts an agent here and returns at once. Does nothing while another agent is starting or stopping, according to
    /// its lock. Two calls at the same time are safe: the lock lets only one agent survive.
    ///
    /// - Parameters:
    ///   - program: `syncagent`, absolute.
    ///   - arguments: argv without the program's name.
    ///   - environment: The agent's whole environment, such as `ProcessInfo.processInfo.environment`. Variables that
    ///     belong to one hook or one service (`SYNCAGENT_…`, `NOTIFY_SOCKET`, `WATCHDOG_…`, `LISTEN_…`) are left out.
    /// - Throws: `ControlError`, with exit status 73 for a state directory that is not private to this user.
    public func start(_ program: String, _ arguments: [String] = Self.onDemand, environment: [String: String])
        throws(ControlError)
    { _ = try launch([program] + arguments, environment) }

    /// - Returns: A function for the reason why the agent does not run, `nil` while it runs or after it has left the
    ///   work to another agent; `nil` instead of a function if none was started.
    private func launch(_ words: [String], _ environment: [String: String]) throws(ControlError)
        -> (@Sendable () -> ControlError?)?
    {
        let log: Descriptor
        do throws(FileError) {
            _ = try openStateDirectory(stateDirectory, create: true)
            // An agent that cannot take the lock reports why.
            if try isTaken(orUnknown: false) { return nil }
            log = try openFile(logFile, [.writeOnly, .create, .append], trust: .ownState)
        } catch { throw ControlError(.failed, "Cannot start the agent. \(error.ofState)", exitStatus: .cannotCreate) }
        if let size = status(log.raw)?.size, size > Self.logLimit { _ = setLength(log.raw, 0) }
        let variables = environment.filter { name, _ in
            !name.contains("=") && !Self.foreign.contains { name.hasPrefix($0) }
        }.map { "\($0.key)=\($0.value)" }.sorted()
        var start = ProgramStart(words, variables: variables)
        start.output = log.raw
        let loggedBefore = status(log.raw)?.size ?? 0
        let end = Monitor<StartedProgram.End?>(nil)
        do throws(FileError) {
            let child = try start.start()
            // Waits for the child, so that a caller that lives long keeps no zombie. waitpid(2)
            _ = try? WorkerThread(name: "child") {
                let found = child.wait()
                end.change { $0 = found }
            }
        } catch { throw ControlError(.unreachable, "Cannot start the agent: \(error).", exitStatus: .unavailable) }
        return { [logFile] in
            let (words, status): (String, ExitStatus)
            switch end.withLock({ $0 }) {
            case nil, .unknown, .exited(ExitStatus.done.rawValue), .exited(ExitStatus.busy.rawValue): return nil
            case .exited(let number):
                (words, status) = ("exited with status \(number)", ExitStatus(rawValue: number) ?? .unavailable)
            case .signalled(let number): (words, status) = ("was killed by signal \(number)", .unavailable)
            }
            let said = lastLine(of: logFile, after: loggedBefore)
            let reason = said.map { ": \(escaped($0))" } ?? "; see \(escaped(logFile))"
            return ControlError(.failed, "The agent cannot start: it \(words)\(reason)", exitStatus: status)
        }
    }

    /// As ``ControlClient/reach(starting:_:at:environment:patience:)``, for callers that determine the agent's socket
    /// anew each time: an agent started in another environment, and the next agent after such a one, have their sockets
    /// elsewhere.
    ///
    /// - Parameters:
    ///   - client: Creates a client for the socket where the agent listens now.
    /// - Returns: The agent's status.
    @discardableResult package func reach(
        starting program: String, _ arguments: [String] = Self.onDemand, environment: [String: String],
        patience: Duration = .seconds(10), _ client: @Sendable () -> ControlClient
    ) async throws -> AgentStatus {
        let end = ContinuousClock.now + patience
        var next = ContinuousClock.now
        // One for every agent started here: the first may fail only after the next one was started.
        var failures: [@Sendable () -> ControlError?] = []
        while true {
            var problem = "The agent is stopping."
            do {
                let status = try await client().status()
                if status.state != .stopping { return status }
            } catch let error as ControlError where error.code == .unreachable {
                problem = error.message
                for failure in failures { if let failure = failure() { throw failure } }
                // Again now and then: an agent that was stopping at the last attempt has ended by now.
                if ContinuousClock.now >= next {
                    if let failure = try launch([program] + arguments, environment) { failures.append(failure) }
                    next = .now + .milliseconds(500)
                }
            }
            guard ContinuousClock.now < end else {
                throw ControlError(
                    .unreachable, "\(problem) No new one started in time; see \(escaped(logFile)).",
                    exitStatus: .unavailable)
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}

extension ControlClient {
    /// Makes sure that an agent answers: starts one if none does, and waits until it is ready.
    ///
    /// - Parameters:
    ///   - program: `syncagent`, absolute.
    ///   - arguments: argv without the program's name.
    ///   - place: The agent's state directory, which also holds its log.
    ///   - environment: The agent's variables: see ``AgentPlace/start(_:_:environment:)``.
    ///   - patience: The longest time to wait for it.
    /// - Returns: The agent's status.
    /// - Throws: `ControlError` with code `unreachable` if none answers in time, with `failed` and its exit status at
    ///   once if it cannot start; `CancellationError`.
    @discardableResult public func reach(
        starting program: String, _ arguments: [String] = AgentPlace.onDemand, at place: AgentPlace,
        environment: [String: String], patience: Duration = .seconds(10)
    ) async throws -> AgentStatus {
        try await place.reach(starting: program, arguments, environment: environment, patience: patience) { self }
    }
}

/// The last line that an agent has written to its log, behind the first `others` **bytes**.
private func lastLine(of path: String, after others: UInt64) -> String? {
    guard let log = try? openFile(path, trust: .ownState), let size = status(log.raw)?.size else { return nil }
    let start = max(others < size ? others : 0, size - min(size, 4_096))
    var bytes = [UInt8](repeating: 0, count: Int(size - start))
    let count = bytes.withUnsafeMutableBytes { readFully(log.raw, into: $0, at: start) }
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(whereSeparator: \.isNewline).last {
        line in !line.allSatisfy(\.isWhitespace)
    }.map(String.init)
}
