import ArgumentParser
import SyncAssembly
import SyncModel
import SyncPublisher

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
    func home(_ limits: TransferSettings = TransferSettings(), isWriting: Bool) throws -> HomePlace? {
        guard Homes.isNamed(by: name) else { return nil }
        let environment = EnvironmentPaths.ofProcess
        let options = try TransferOptions.parse([])
        var settings = try options.settings(environment.pathBase)
        settings.limitRate = limits.limitRate
        let request = EngineRequest(nil, try options.runSettings(settings, environment))
        return try Homes.open(
            name, request, on: environment.host, isWriting: isWriting,
            isStopped: { StopSignals.requestedStatus != nil })
    }

    /// The place, for whoever works on both alike.
    func place(isWriting: Bool) throws -> TargetPlace {
        try home(isWriting: isWriting).map { .store($0) } ?? .directory(name)
    }
}
