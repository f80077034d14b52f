/// What went wrong, as far as it matters for what to do: told with each failure, read by reports. The raw value is that of
/// events and reports.
package enum FailureCause: String, Sendable, CaseIterable {
    /// A server has no such object.
    case notThere = "not_there"
    /// A server or proxy asks for other credentials.
    case access
    /// A server is overloaded or out of order.
    case serverTrouble = "server_trouble"
    /// Name, route, port, or a connection that breaks or says nothing.
    case unreachable
    /// A server cannot be trusted (TLS).
    case trust
    /// A web page came in place of the object.
    case loginPage = "login_page"
    /// A redirect breaks a rule, or a policy forbids where it leads.
    case refusedRedirect = "refused_redirect"
    /// Other bytes than the manifest names, or an answer that contradicts itself.
    case wrongBytes = "wrong_bytes"
    case diskFull = "disk_full"
    case noPermission = "no_permission"
    case diskTrouble = "disk_trouble"
    /// Something that is not ours stands at the file's place.
    case inTheWay = "in_the_way"
    case pruneRefused = "prune_refused"
    case olderRevision = "older_revision"
    case badManifest = "bad_manifest"
    /// A verifier refuses the file.
    case rejected
    /// A plugin does not want it to be asked for.
    case cancelled
    /// The deadline has passed.
    case late
    case lostWorker = "lost_worker"
    case stoppedByPerson = "stopped_by_person"
    /// Another process is at work there.
    case busy
    case hookFailed = "hook_failed"
    case notRun = "not_run"
    case configuration
    case other

    /// Whether this machine's disk, or what is on it, is at fault, and no server.
    package var isOfDisk: Bool { [.diskFull, .noPermission, .diskTrouble, .inTheWay].contains(self) }
}
