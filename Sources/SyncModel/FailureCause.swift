/// The cause of a failure, as far as it determines the remedy: part of each failure, read by reports. The raw value is
/// used in events and reports.
public enum FailureCause: String, Sendable, CaseIterable, Codable {
    /// A server has no such object.
    case notThere = "not_there"
    /// A server or proxy denies access: credentials are missing or wrong.
    case access
    /// A server is overloaded or out of order.
    case serverTrouble = "server_trouble"
    /// Name resolution, route or port failed, or a connection broke or fell silent.
    case unreachable
    /// A server's certificate cannot be trusted (TLS).
    case trust
    /// A web page arrived instead of the object.
    case loginPage = "login_page"
    /// The publisher is not trusted: a signature is missing, wrong, or for something else.
    case signature
    /// A redirect breaks a rule, or a policy forbids its target.
    case refusedRedirect = "refused_redirect"
    /// Bytes that differ from the manifest, or a contradictory answer.
    case wrongBytes = "wrong_bytes"
    /// The disk is full.
    case diskFull = "disk_full"
    /// The destination, or something in it, may not be written to.
    case noPermission = "no_permission"
    /// The disk fails.
    case diskTrouble = "disk_trouble"
    /// A foreign entry has the file's name.
    case inTheWay = "in_the_way"
    /// More would be removed than is allowed.
    case pruneRefused = "prune_refused"
    /// The manifest is older than the installed one.
    case olderRevision = "older_revision"
    /// The set was shown and rolled back, and is held until a newer one comes.
    case held
    /// The manifest is invalid.
    case badManifest = "bad_manifest"
    /// A verifier refuses the file.
    case rejected
    /// A plugin refused its request.
    case cancelled
    /// The deadline has passed.
    case late
    /// The process that worked on it ended without reporting.
    case lostWorker = "lost_worker"
    /// A person stopped it.
    case stoppedByPerson = "stopped_by_person"
    /// Another process works there.
    case busy
    /// A hook failed.
    case hookFailed = "hook_failed"
    /// A hook's program is missing, or may not be run.
    case hookNotStarted = "hook_not_started"
    /// A schedule did not run when it should have.
    case notRun = "not_run"
    /// The configuration cannot be used.
    case configuration
    /// Anything else, including causes of later versions.
    case other

    /// Decodes a cause as in events.
    public init(from decoder: any Decoder) throws {
        self = FailureCause(rawValue: try decoder.singleValueContainer().decode(String.self)) ?? .other
    }

    /// The cause that an exit status implies, if nothing else is known.
    package init(_ status: ExitStatus) {
        self =
            switch status {
            case .unavailable: .unreachable
            case .dataInvalid, .noInput: .badManifest
            case .ioError: .diskTrouble
            case .busy: .busy
            case .configuration: .configuration
            default: .other
            }
    }

    /// Whether a server denies access, or a policy forbids its redirect: the object exists, and a retry does not help.
    package var isRefusal: Bool { self == .access || self == .refusedRedirect }

    /// Whether the local disk or its contents are at fault, not a server.
    package var isOfDisk: Bool { [.diskFull, .noPermission, .diskTrouble, .inTheWay].contains(self) }

    /// Whether writing to the disk fails. A foreign entry with a file's name is excluded: it only leaves a pull
    /// incomplete.
    package var isDiskFault: Bool { isOfDisk && self != .inTheWay }
}
