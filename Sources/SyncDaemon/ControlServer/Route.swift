import SyncModel

/// A parsed request: method, path and query in, a value out. Pure.
enum Route: Equatable, Sendable {
    case agent
    case stopAgent
    case sessions
    case session(String)
    case enqueue
    case pause(String)
    case resume(String)
    case cancel(String)
    case prioritize(String)
    case remove(String, files: Bool)
    case requests(String)
    case tasks(String, state: TaskState?, path: String?)
    case events(String, since: Int64, follow: Bool, progress: Bool)
    case hooks(session: String?)
    case replay(Int64)
    case metrics

    /// Why a request has no route.
    enum Refusal: Error, Equatable, Sendable {
        case notFound
        case methodNotAllowed(allowed: String)
        case badQuery(String)
    }

    /// - Parameters:
    ///   - method: `GET`, `POST` or `DELETE`.
    ///   - target: The request's target: a percent-encoded path and an optional query.
    init(method: String, target: String) throws(Refusal) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var query = try Query(parts.count > 1 ? parts[1] : "")
        var path: [String] = []
        for part in (parts.first ?? "").split(separator: "/") {
            guard let name = decoded(part) else { throw .notFound }
            path.append(name)
        }
        guard path.first == "v1" else { throw .notFound }
        path.removeFirst()

        func only(_ allowed: String, _ route: @autoclosure () -> Route) throws(Refusal) -> Route {
            guard method == allowed else { throw .methodNotAllowed(allowed: allowed) }
            return route()
        }
        switch (path.count, path.first, path.last) {
        case (1, "agent", _): self = try only("GET", .agent)
        case (2, "agent", "stop"): self = try only("POST", .stopAgent)
        case (1, "sessions", _): self = try only("GET", .sessions)
        case (1, "runs", _): self = try only("POST", .enqueue)
        case (1, "metrics", _): self = try only("GET", .metrics)
        case (1, "hooks", _): self = try only("GET", .hooks(session: query.text("session")))
        case (2, "sessions", _) where method == "DELETE": self = .remove(path[1], files: try query.flag("files"))
        case (2, "sessions", _):
            guard method == "GET" else { throw .methodNotAllowed(allowed: "GET, DELETE") }
            self = .session(path[1])
        case (3, "sessions", "requests"): self = try only("GET", .requests(path[1]))
        case (3, "sessions", "tasks"):
            guard method == "GET" else { throw .methodNotAllowed(allowed: "GET") }
            self = .tasks(path[1], state: try query.taskState("state"), path: query.text("path"))
        case (3, "sessions", "events"):
            guard method == "GET" else { throw .methodNotAllowed(allowed: "GET") }
            self = .events(
                path[1], since: try query.number("since"), follow: try query.flag("follow"),
                progress: try query.flag("progress"))
        case (3, "sessions", let verb):
            let commands: [String: (String) -> Route] = [
                "pause": Route.pause, "resume": Route.resume, "cancel": Route.cancel, "prioritize": Route.prioritize,
            ]
            guard let command = verb.flatMap({ commands[$0] }) else { throw .notFound }
            self = try only("POST", command(path[1]))
        case (3, "hooks", "replay"):
            guard let number = Int64(path[1]) else { throw .notFound }
            self = try only("POST", .replay(number))
        default: throw .notFound
        }
        try query.finish()
    }
}

/// The query of a target: each name at most once, and every name known.
private struct Query {
    private var values: [String: String] = [:]

    init(_ text: Substring) throws(Route.Refusal) {
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

    mutating func flag(_ name: String) throws(Route.Refusal) -> Bool {
        switch values.removeValue(forKey: name) {
        case nil, "0": return false
        case "1": return true
        case .some: throw .badQuery("'\(name)' must be 0 or 1.")
        }
    }

    mutating func taskState(_ name: String) throws(Route.Refusal) -> TaskState? {
        guard let text = values.removeValue(forKey: name) else { return nil }
        guard let state = TaskState(rawValue: text) else {
            let words = TaskState.allCases.map(\.rawValue).joined(separator: ", ")
            throw .badQuery("'\(name)' must be one of \(words).")
        }
        return state
    }

    mutating func number(_ name: String) throws(Route.Refusal) -> Int64 {
        guard let text = values.removeValue(forKey: name) else { return 0 }
        guard let number = Int64(text), number >= 0 else { throw .badQuery("'\(name)' must be a number, 0 or more.") }
        return number
    }

    /// - Throws: If a parameter was given that the route does not use.
    func finish() throws(Route.Refusal) {
        if let name = values.keys.min() { throw .badQuery("Unknown parameter '\(escaped(name))'.") }
    }
}

/// Percent-decoded text; `nil` for broken encoding, invalid UTF-8, and a NUL.
private func decoded(_ text: Substring) -> String? {
    percentDecoded(text.utf8).flatMap { String(validating: $0, as: UTF8.self) }
}
