import ArgumentParser
import SyncModel
import SyncPublisher
import SyncSystem

/// What is published, as an argument of the commands that work on it, and where its bucket is.
struct PublishedOptions: ParsableArguments {
    @Argument(
        help: "The published directory, s3://BUCKET/PREFIX or oci://HOST/NAME:TAG.".taking("target"),
        completion: .directory)
    var place: String

    @OptionGroup(title: "Transfer") var bucket: BucketOptions

    /// Where it is, with what options say of its bucket.
    var target: HomeTarget { HomeTarget((try? bucket.named(place)) ?? place) }

    func validate() throws {
        try HomeTarget(bucket.named(place)).check("TARGET", "run this where the set is published")
    }

    /// Works on it, on a thread of its own, because it may wait for a network, until a signal.
    ///
    /// - Parameter isWriting: Whether anything may be put there.
    func working<R: Sendable>(isWriting: Bool, _ work: @escaping @Sendable (TargetPlace) throws -> R) async throws -> R
    {
        try await target.working(isWriting: isWriting, work)
    }
}

extension HomeTarget {
    /// The same of any target.
    func working<R: Sendable>(isWriting: Bool, _ work: @escaping @Sendable (TargetPlace) throws -> R) async throws -> R
    {
        let place = try place(isWriting: isWriting)
        guard case .store = place else { return try work(place) }
        do {
            return try await StopSignals.cancelling(notice: {}, atOnce: {}) {
                try await onThread("releases") { _ in try work(place) }
            }
        } catch let error as PublishError {
            if let status = StopSignals.requestedStatus, error.exitStatus == .interrupted {
                throw CommandFailure(status)
            }
            throw error
        }
    }
}
