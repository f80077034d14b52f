import SyncSystem

extension Sync {
    /// A pull and its events. Each time it is walked through it is pulled again, and what is there is only looked at.
    public struct Pull: AsyncSequence, Sendable {
        /// What happens.
        public typealias Element = Event
        /// ``Sync/Failure``, or `CancellationError`.
        public typealias Failure = any Error

        let subject: PullWork.Subject
        let destination: String
        let options: Options
        let plugins: Plugins

        init(_ subject: PullWork.Subject, destination: String, options: Options, plugins: Plugins) {
            self.subject = subject
            self.destination = destination
            self.options = options
            self.plugins = plugins
        }

        /// A new walk through it; it begins with the first event that is asked for.
        public func makeAsyncIterator() -> Iterator { Iterator(PullWork(self)) }

        /// Its events, one after another.
        public struct Iterator: AsyncIteratorProtocol {
            private let work: Owner

            init(_ work: PullWork) { self.work = Owner(work) }

            /// The next event; `nil` after the last.
            public mutating func next() async throws -> Event? { try await work.work.next() }

            /// The same, for whoever is isolated to an actor.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Event? {
                try await work.work.next()
            }
        }

        /// Stops the work when nobody asks for events any more.
        private final class Owner: Sendable {
            let work: PullWork

            init(_ work: PullWork) { self.work = work }

            deinit { work.abandon() }
        }
    }
}
