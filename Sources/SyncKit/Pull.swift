import SyncSystem

extension Sync {
    /// A pull and its events. Each iteration pulls again; files already in place are only checked.
    public struct Pull: AsyncSequence, Sendable {
        /// An event of the pull.
        public typealias Element = Event
        /// ``Sync/Failure``, or `CancellationError`.
        public typealias Failure = any Error

        let subject: PullWork.Subject
        let destination: String
        let options: Options
        let plugins: Plugins

        init(_ subject: PullWork.Subject, destination: String, options: Options, plugins: Plugins) {
            (self.subject, self.destination, self.options, self.plugins) = (subject, destination, options, plugins)
        }

        /// Starts a new iteration; the pull starts when the first event is requested.
        public func makeAsyncIterator() -> Iterator { Iterator(PullWork(self)) }

        /// Pulls to the end, for callers that need no events.
        public func summary() async throws -> Summary {
            var summary: Summary?
            for try await case .finished(let last) in self { summary = last }
            guard let summary else { throw CancellationError() }
            return summary
        }

        /// Iterates over the events.
        public struct Iterator: AsyncIteratorProtocol {
            private let work: Owner

            init(_ work: PullWork) { self.work = Owner(work) }

            /// The next event; `nil` after the last.
            public mutating func next() async throws -> Event? { try await work.work.next() }

            /// The same, for callers isolated to an actor.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Event? {
                try await work.work.next()
            }
        }

        /// Stops the pull when its events are no longer consumed.
        private final class Owner: Sendable {
            let work: PullWork

            init(_ work: PullWork) { self.work = work }

            deinit { work.abandon() }
        }
    }
}
