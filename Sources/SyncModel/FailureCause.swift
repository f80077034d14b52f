/// What went wrong, as far as it matters for what to do: part of each failure, read by reports. The raw value is used
/// in events and reports.
public enum FailureCause: String, Sendable, CaseIterable, Codable {
    /// A server has no such object.
    case notThere = "not_there"
    /// A server or proxy denies access: credentials are missing or wrong.
    case access
    /// A server is overloaded or out of order.
    case serverTrouble = "server_trouble"
    /// Name, route or port, or a connection that breaks or falls silent.
    case unreachable
    /// A server cannot be trusted (TLS).
    case trust
    /// A web page came instead of the object.
    case loginPage = "login_page"
    /// The publisher is not trusted: a signature is missing, wrong, or for something else.
    case signature
    /// A redirect breaks a rule, or a policy forbids its target.
    case refusedRedirect = "refused_redirect"
    /// Other bytes than the manifest names, or an answer that contradicts itself.
    case wrongBytes = "wrong_bytes"
    /// There is no room on the disk.
    case diskFull = "disk_full"
    /// The destination, or something in it, may not be written to.
    case noPermission = "no_permission"
    /// The disk fails.
    case diskTrouble = "disk_trouble"
    /// Something that is not ours is at the file's place.
    case inTheWay = "in_the_way"
    /// More would be removed than is allowed.
    case pruneRefused = "prune_refused"
    /// The manifest is older than what is installed.
    case olderRevision = "older_revision"
    /// It was shown and taken back, and is held until a newer one comes.
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
    /// Somebody stopped it.
    case stoppedByPerson = "stopped_by_person"
    /// Another process is at work there.
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

    /// Reads a cause as events have it.
    public init(from decoder: any Decoder) throws {
        self = FailureCause(rawValue: try decoder.singleValueContainer().decode(String.self)) ?? .other
    }

    /// The cause that an exit status implies, if nothing more is known.
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

    /// Whether a server denies access, or a policy forbids to go where it leads: it is there, and asking again does not help.
    package var isRefusal: Bool { self == .access || self == .refusedRedirect }

    /// Whether the local disk, or what is on it, is at fault, and no server.
    package var isOfDisk: Bool { [.diskFull, .noPermission, .diskTrouble, .inTheWay].contains(self) }

    /// Whether the disk does not take what it is given: more than that something else has a file's place, which leaves a pull
    /// incomplete.
    package var isDiskFault: Bool { isOfDisk && self != .inTheWay }
}
