import SyncAgent
import SyncModel

/// Transfers and tasks in words.
extension SessionText {
    /// The lines for a transfer: its state, its URL, and the hops that led there. Fits 80 columns except for URLs.
    func lines(of request: RequestStatus) -> [String] {
        var lines = ["#\(request.transfer) \(what(request)): \(state(of: request))"]
        if request.current != request.original || !request.hops.isEmpty {
            lines.append("  from \(escaped(request.original))")
            for hop in request.hops { lines.append("  \(escaped(hop.reason)) to \(escaped(hop.to))") }
        } else {
            lines.append("  \(escaped(request.current))")
        }
        return lines
    }

    /// The first transfers, one line each, for below the progress bar.
    func top(_ list: RequestList, _ most: Int) -> [String] {
        let lines = list.requests.prefix(most).map { "  \(what($0)): \(state(of: $0)), \(escaped($0.source))" }
        let more = list.requests.count - lines.count &+ list.more
        return more > 0 ? lines + ["  and \(more) more"] : lines
    }

    private func what(_ request: RequestStatus) -> String {
        if let path = request.path { return escaped(path) }
        guard let object = request.object else { return "?" }
        let isDigest = object.utf8.count == 64 && object.allSatisfy(\.isHexDigit)
        let name = isDigest ? "pack \(object.prefix(12))" : escaped(object)
        switch request.tasks {
        case 0: return name
        case 1: return "\(name), 1 file"
        case let count: return "\(name), \(count) files"
        }
    }

    private func state(of request: RequestStatus) -> String {
        let seconds = max(0, (now - request.since.milliseconds) / 1_000)
        let attempt = request.attempt > 1 ? ", attempt \(request.attempt) of \(request.attempts)" : ""
        let reason = request.reason.map { ", \(escaped($0))" } ?? ""
        switch request.state {
        case .receiving: return amount(request) + ", \(ByteCount(request.rate))/s" + attempt
        case .stalled: return "\(amount(request)), no data for \(seconds) s" + attempt
        case .connecting: return "connecting to \(escaped(request.source))" + attempt
        case .resolving: return "looking up \(escaped(request.source))" + attempt
        case .queued: return "queued" + reason
        case .waiting:
            let wait = request.until.map { max(0, ($0.milliseconds - now + 999) / 1_000) }
            return (wait.map { "waiting, retrying in \($0) s" } ?? "waiting") + attempt + reason
        }
    }

    private func amount(_ request: RequestStatus) -> String {
        guard let range = request.range, range.count == 2, range[1] >= range[0] else {
            return "\(ByteCount(request.received))"
        }
        return "\(ByteCount(request.received)) of \(ByteCount(range[1] - range[0]))"
    }

    /// The lines for a task: state, size, path, and the reason.
    static func line(of task: TaskStatus) -> String {
        let state = task.state.rawValue
        let size = task.sha256 == nil ? "link" : ByteCount(task.size).description
        let line =
            "\(state) ".padded(to: 11) + String(repeating: " ", count: max(0, 9 - size.count)) + size + "  "
            + escaped(task.path)
        guard let reason = task.reason else { return line }
        return line + "\n" + String(repeating: " ", count: 22) + escaped(reason)
    }
}
