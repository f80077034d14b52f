import ArgumentParser
import SyncAssembly
import SyncModel
import SyncPublisher
import SyncSystem

/// The place of a published set, as named on a command line: a directory of this machine, or the URL of a store.
struct HomeTarget {
    let name: String

    init(_ name: String) { self.name = name }

    /// Refuses a name that is neither.
    ///
    /// - Parameters:
    ///   - option: The option or argument with the name.
    ///   - remedy: What to do for a directory of another machine.
    func check(_ option: String, _ remedy: String) throws {
        if name.isEmpty { throw ValidationError("\(option) needs a directory, not an empty string.") }
        guard !Homes.isNamed(by: name) else { return }
        try requireLocal(name, option, remedy)
    }

    /// Refuses a channel in a registry.
    func check(channel: String) throws {
        guard !Homes.hasChannels(name) else { return }
        throw ValidationError(
            "channel \(escaped(channel)): a registry has tags in place of channels; publish to a tag of that name, such as oci://HOST/NAME:\(escaped(channel))."
        )
    }

    /// The store; `nil` for a directory.
    ///
    /// - Parameters:
    ///   - isWriting: Whether the store may be written to.
    ///   - limitRate: The most **bytes** a second; `nil` for no limit.
    ///   - notice: Called with the reason for a long wait.
    func home(
        isWriting: Bool, limitRate: UInt64? = nil, notice: @escaping @Sendable (String) -> Void
    ) throws -> HomePlace? {
        guard Homes.isNamed(by: name) else { return nil }
        let environment = EnvironmentPaths.ofProcess
        let options = try TransferOptions.parse([])
        var settings = try options.settings(environment.pathBase)
        settings.limitRate = limitRate
        var request = EngineRequest(nil, try options.runSettings(settings, environment))
        request.hasOptions = false
        return try Homes.open(
            name, request, on: environment.host, isWriting: isWriting, notice: notice,
            isStopped: { StopSignals.requestedStatus != nil })
    }

    /// The place, for work that is the same for both.
    func place(isWriting: Bool) throws -> TargetPlace {
        try home(isWriting: isWriting) { Output().warning($0) }.map { .store($0) } ?? .directory(name)
    }

    /// Works on the place until a signal; on a thread of its own if it is a store, which may wait for the network, or
    /// if a program may sign.
    ///
    /// - Parameters:
    ///   - isWriting: Whether the place may be written to.
    ///   - isSigning: Whether something is signed.
    func working<R: Sendable>(
        isWriting: Bool, isSigning: Bool = false, _ work: @escaping @Sendable (TargetPlace) throws -> R
    ) async throws -> R {
        let place = try place(isWriting: isWriting)
        if case .directory = place, !isSigning { return try work(place) }
        do {
            return try await StopSignals.cancelling(notice: {}, atOnce: {}) {
                try await onThread("releases") { _ in try work(place) }
            }
        } catch let error as PublishError {
            if let status = StopSignals.requestedStatus, error.exitStatus == .interrupted {
                // The details say what is in place without a signature.
                throw CommandFailure(status, error.details.isEmpty ? "" : error.description)
            }
            throw error
        }
    }
}

/// The published set, as an argument of the commands that work on it, and the service of its bucket.
struct PublishedOptions: ParsableArguments {
    @Argument(
        help: "The published directory, s3://BUCKET/PREFIX or oci://HOST/NAME:TAG.".taking("target"),
        completion: .directory)
    var place: String

    @OptionGroup(title: "Transfer") var bucket: BucketOptions

    /// The place, with the options for its bucket.
    var target: HomeTarget { HomeTarget((try? bucket.named(place)) ?? place) }

    func validate() throws {
        try HomeTarget(bucket.named(place)).check("TARGET", "run this where the set is published")
    }
}
