/// What a transfer is at. The spelling is that of `status --requests`, the control API and the record on disk.
public enum RequestState: String, Sendable, CaseIterable, Codable {
    /// It waits for its turn: for a connection, or for another transfer that finds something out for it.
    case queued
    /// A resolver plugin is asked where to send it, or its host's name is looked up.
    case resolving
    /// A connection is made, or the request is sent and nothing has been said to it yet.
    case connecting
    /// Bytes come.
    case receiving
    /// No byte has come for some seconds on a connection that is there.
    case stalled
    /// Nothing is sent before some time: its host cannot be reached, asked for a pause, or the last attempt failed.
    case waiting
}
