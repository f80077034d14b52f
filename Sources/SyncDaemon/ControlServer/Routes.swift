import SyncAgent
import SyncModel
import SyncServer

// The routes of the control API: what a request asks of the agent.
extension ControlServer {
    /// Does what a request asks for.
    private typealias Call = () async throws(ControlError) -> HTTPResponse

    /// Why a request has no route.
    enum Refusal: Error, Equatable, Sendable {
        case notFound
        case methodNotAllowed(allowed: String)
        case badQuery(String)
    }

    /// Does what a request asks for, once all of its method and its target is understood.
    func answer(routed request: HTTPRequest) async throws(ControlError) -> HTTPResponse {
        let call: Call
        do throws(Refusal) { call = try self.call(request) } catch { return Self.response(error, request) }
        return try await call()
    }

    private func call(_ request: HTTPRequest) throws(Refusal) -> Call {
        let (method, target) = (request.method, request.target)
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var query = try Query(parts.count > 1 ? parts[1] : "")
        var path: [String] = []
        for part in (parts.first ?? "").split(separator: "/") {
            guard let name = decoded(part) else { throw .notFound }
            path.append(name)
        }
        guard path.first == "v1" else { throw .notFound }
        path.removeFirst()

        func only(_ allowed: String) throws(Refusal) {
            guard method == allowed else { throw .methodNotAllowed(allowed: allowed) }
        }
        let name = path.count > 1 ? path[1] : ""
        let call: Call
        switch (path.count, path.first, path.last) {
        case (1, "agent", _):
            try only("GET")
            call = { () async throws(ControlError) in try Self.json(await control.status()) }
        case (2, "agent", "stop"):
            try only("POST")
            call = { () async throws(ControlError) in
                let command = try body([String: AgentStop].self, ControlKeys(only: "mode"), of: request)
                if let mode = command["mode"] { await control.stop(mode) }
                return HTTPResponse(status: 202)
            }
        case (1, "sessions", _):
            try only("GET")
            call = { () async throws(ControlError) in try Self.json(["sessions": await control.sessions()]) }
        case (1, "runs", _):
            try only("POST")
            call = { () async throws(ControlError) in
                let reply = try await control.enqueue(body(EnqueueRequest.self, EnqueueRequest.keys, of: request))
                return try Self.json(reply, status: reply.isNew ? 201 : 200)
            }
        case (1, "metrics", _):
            try only("GET")
            call = { () async throws(ControlError) in
                let text = try await control.metrics()
                return HTTPResponse(
                    status: 200, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
                    body: .bytes(Array(text.utf8)))
            }
        case (1, "hooks", _):
            try only("GET")
            let session = query.text("session")
            call = { () async throws(ControlError) in try Self.json(["hooks": await control.hooks(session: session)]) }
        case (2, "sessions", _) where method == "DELETE":
            let files = try query.flag("files")
            call = { () async throws(ControlError) in
                try requireNothing(of: request)
                try await control.remove(name, files: files)
                return HTTPResponse(status: 204)
            }
        case (2, "sessions", _):
            guard method == "GET" else { throw .methodNotAllowed(allowed: "GET, DELETE") }
            call = { () async throws(ControlError) in try Self.json(await control.session(name)) }
        case (3, "sessions", "requests"):
            try only("GET")
            call = { () async throws(ControlError) in try Self.json(await control.requests(of: name)) }
        case (3, "sessions", "tasks"):
            try only("GET")
            let (state, glob) = (try query.taskState("state"), query.text("path"))
            call = { () async throws(ControlError) in
                try stream(await control.tasks(of: name, state: state, path: glob))
            }
        case (3, "sessions", "events"):
            try only("GET")
            let (since, follow) = (try query.number("since"), try query.flag("follow"))
            let progress = try query.flag("progress")
            call = { () async throws(ControlError) in
                try stream(await control.events(of: name, since: since, follow: follow, progress: progress))
            }
        case (3, "sessions", "pause"):
            try only("POST")
            call = { () async throws(ControlError) in try Self.json(await control.pause(alone(name, in: request))) }
        case (3, "sessions", "resume"):
            try only("POST")
            call = { () async throws(ControlError) in try Self.json(await control.resume(alone(name, in: request))) }
        case (3, "sessions", "cancel"):
            try only("POST")
            call = { () async throws(ControlError) in try Self.json(await control.cancel(alone(name, in: request))) }
        case (3, "sessions", "prioritize"):
            try only("POST")
            call = { () async throws(ControlError) in
                let command = try body([String: [String]].self, ControlKeys(only: "paths"), of: request)
                return try Self.json(await control.prioritize(name, paths: command["paths"] ?? []))
            }
        case (3, "hooks", "replay"):
            guard let number = Int64(name) else { throw .notFound }
            try only("POST")
            call = { () async throws(ControlError) in
                try Self.json(await control.replay(hook: alone(number, in: request)))
            }
        default: throw .notFound
        }
        try query.finish()
        return call
    }

    /// The subject of a command that takes nothing else; refuses whatever else is said to it.
    private func alone<Subject>(_ subject: Subject, in request: HTTPRequest) throws(ControlError) -> Subject {
        try requireNothing(of: request)
        return subject
    }

    private func requireNothing(of request: HTTPRequest) throws(ControlError) {
        if request.body?.isEmpty != true { _ = try body([String: Bool].self, ControlKeys(of: [Int]()), of: request) }
    }

    private func body<Value: Decodable>(_ type: Value.Type, _ keys: ControlKeys, of request: HTTPRequest)
        throws(ControlError) -> Value
    {
        guard let bytes = request.body else {
            throw ControlError(.invalid, "The request's body is longer than 1 MiB.", exitStatus: .usage)
        }
        return try keys.decode(type, from: bytes)
    }
}

/// The query of a target: each name at most once, and every name known.
private struct Query {
    private var values: [String: String] = [:]

    init(_ text: Substring) throws(ControlServer.Refusal) {
        for part in text.split(separator: "&") {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = pair.first.flatMap(decoded), let value = decoded(pair.last ?? "") else {
                throw .badQuery("The query has broken percent-encoding, or a NUL character.")
            }
            guard values.updateValue(pair.count == 2 ? value : "", forKey: name) == nil else {
                throw .badQuery("'\(escaped(name))' is given twice.")
            }
        }
    }

    mutating func text(_ name: String) -> String? { values.removeValue(forKey: name) }

    mutating func flag(_ name: String) throws(ControlServer.Refusal) -> Bool {
        switch values.removeValue(forKey: name) {
        case nil, "0": return false
        case "1": return true
        case .some: throw .badQuery("'\(name)' must be 0 or 1.")
        }
    }

    mutating func taskState(_ name: String) throws(ControlServer.Refusal) -> TaskState? {
        guard let text = values.removeValue(forKey: name) else { return nil }
        guard let state = TaskState(rawValue: text) else {
            let words = TaskState.allCases.map(\.rawValue).joined(separator: ", ")
            throw .badQuery("'\(name)' must be one of \(words).")
        }
        return state
    }

    mutating func number(_ name: String) throws(ControlServer.Refusal) -> Int64 {
        guard let text = values.removeValue(forKey: name) else { return 0 }
        guard let number = Int64(text), number >= 0 else { throw .badQuery("'\(name)' must be a number, 0 or more.") }
        return number
    }

    /// - Throws: If a parameter was given that the route does not use.
    func finish() throws(ControlServer.Refusal) {
        if let name = values.keys.min() { throw .badQuery("Unknown parameter '\(escaped(name))'.") }
    }
}

/// Percent-decoded text; `nil` for broken encoding, invalid UTF-8, and a NUL.
private func decoded(_ text: Substring) -> String? {
    percentDecoded(text.utf8).flatMap { String(validating: $0, as: UTF8.self) }
}
