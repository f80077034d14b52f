import SyncModel

/// `GET /v1/sessions`.
package struct SessionsAnswer: Sendable, Codable {
    package var sessions: [SessionStatus]

    package init(_ sessions: [SessionStatus]) { self.sessions = sessions }
}

/// `GET /v1/hooks`.
package struct HooksAnswer: Sendable, Codable {
    package var hooks: [HookStatus]

    package init(_ hooks: [HookStatus]) { self.hooks = hooks }
}

/// `POST /v1/agent/stop`.
package struct StopCommand: Sendable, Codable, ControlRequest {
    package var mode: AgentStop

    package init(_ mode: AgentStop) { self.mode = mode }

    package static let keys = ControlKeys(["mode"])
}

/// `POST /v1/sessions/{id}/prioritize`.
package struct PriorityCommand: Sendable, Codable, ControlRequest {
    package var paths: [String]

    package init(_ paths: [String]) { self.paths = paths }

    package static let keys = ControlKeys(["paths"])
}

/// The body of every answer that is an error.
package struct ErrorAnswer: Sendable, Codable {
    package struct Content: Sendable, Codable {
        package var code: String
        package var message: String
        package var exitStatus: Int32
    }

    package var error: Content

    package init(_ error: ControlError) {
        self.error = Content(
            code: error.code.rawValue,
            message: error.message,
            exitStatus: error.exitStatus.rawValue
        )
    }

    /// The error it tells of; a code that a newer agent has made up is `internal` here.
    package var value: ControlError {
        ControlError(
            ControlError.Code(rawValue: error.code) ?? .internal,
            escaped(error.message),
            exitStatus: ExitStatus(rawValue: error.exitStatus) ?? .internalError
        )
    }
}
