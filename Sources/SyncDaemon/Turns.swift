/// Lets one command at a time work on a session, in the order they came.
actor Turns {
    private var waiting: [String: [CheckedContinuation<Void, Never>]] = [:]
    private var taken: Set<String> = []

    /// Waits for the session's turn; ``leave(_:)`` must follow.
    func enter(_ session: String) async {
        guard !taken.insert(session).inserted else { return }
        await withCheckedContinuation { waiting[session, default: []].append($0) }
    }

    /// Gives the turn to the next one.
    func leave(_ session: String) {
        guard var others = waiting[session], !others.isEmpty else {
            waiting[session] = nil
            taken.remove(session)
            return
        }
        let next = others.removeFirst()
        waiting[session] = others
        next.resume()
    }
}
