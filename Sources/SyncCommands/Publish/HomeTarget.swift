import ArgumentParser
import SyncAssembly
import SyncModel
import SyncPublisher
import SyncSystem

/// Where a set is published, as a command line names it: a directory of this machine, or the URL of a store.
struct HomeTarget {
    let name: String

    init(_ name: String) { self.name = name }

    /// Refuses what is neither.
    ///
    /// - Parameters:
    ///   - option: What names it.
    ///   - remedy: What to do with a directory of another machine.
    func check(_ option: String, _ remedy: String) throws {
        if name.isEmpty { throw ValidationError("\(option) needs a directory, not an empty string.") }
        guard !Homes.isNamed(by: name) else { return }
        try requireLocal(name, option, remedy)
    }

    /// The store; `nil` for a directory.
    ///
    /// - Parameters:
    ///   - limits: How much of the network it may take.
    ///   - isWriting: Whether anything may be put there.
    ///   - notice: Told what is waited for where it takes long.
    func home(
        _ limits: TransferSettings = TransferSettings(), isWriting: Bool,
        notice: @escaping @Sendable (String) -> Void
    ) throws -> HomePlace? {
        guard Homes.isNamed(by: name) else { return nil }
        let environment = EnvironmentPaths.ofProcess
        let options = try TransferOptions.parse([])
        var settings = try options.settings(environment.pathBase)
        settings.limitRate = limits.limitRate
        let request = EngineRequest(nil, try options.runSettings(settings, environment))
        return try Homes.open(
            name, request, on: environment.host, isWriting: isWriting, notice: notice,
            isStopped: { StopSignals.requestedStatus != nil })
    }

    /// The place, for whoever works on both alike.
    func place(isWriting: Bool) throws -> TargetPlace {
        try home(isWriting: isWriting) { Output().warning($0) }.map { .store($0) } ?? .directory(name)
    }

    /// Works on the place, on a thread of its own where that may wait for a network, until a signal.
    ///
    /// - Parameter isWriting: Whether anything may be put there.
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
}
