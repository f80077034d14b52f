package import SyncEngine
import SyncManifest
import SyncModel
package import SyncPublisher
import SyncRemotes
import SyncSystem
import SyncTransfer

/// Opens stores on the network that sets are published to, by their URLs.
package enum Homes {
    /// The schemes of their URLs.
    package static let schemes: Set = [RegistryAddress.scheme, S3Address.scheme]

    /// Whether a place is such a store, and not a directory.
    package static func isNamed(by location: String) -> Bool { urlScheme(of: location).map(schemes.contains) ?? false }

    /// Whether sets there have channels: in a registry each tag is a set of its own.
    package static func hasChannels(_ location: String) -> Bool { urlScheme(of: location) != RegistryAddress.scheme }

    /// The name under which records of a published set are kept: for a store, the same however its URL is written.
    package static func identity(of location: String, on host: HostEnvironment) -> String {
        if let address = try? RegistryAddress(location) { return address.text }
        guard let address = try? S3Address(location) else { return location }
        let endpoint = address.endpoint ?? (try? AWSEnvironment(host))?.endpoint
        // The name of a bucket is unique in all regions.
        let bucket = try? S3Endpoint(address.bucket, endpoint: endpoint, region: "us-east-1")
        return bucket?.url(address.prefix) ?? location
    }

    /// Why nothing can be published to a location; `nil` if something can.
    package static func objection(toPublishingTo location: String) -> String? {
        guard let address = try? RegistryAddress(location), address.isReserved else { return nil }
        return
            "\(redacted(url: location)): a tag that ends in “.r” and a number, or in “.unnamed”, belongs to the set of the tag "
            + "before that, and names one of its releases; publish under another tag"
    }

    /// - Parameters:
    ///   - request: The request whose settings apply.
    ///   - isWriting: Whether anything may be written there.
    ///   - notice: Receives lines for people about long waits.
    /// - Throws: ``/SyncEngine/EngineError``: 64 for a URL that names no store, 78 for settings that cannot be used.
    package static func open(
        _ location: String, _ request: EngineRequest, on host: HostEnvironment, isWriting: Bool,
        notice: @escaping @Sendable (String) -> Void, isStopped: @escaping @Sendable () -> Bool
    ) throws(EngineError) -> HomePlace {
        let temporary = host.lookup("TMPDIR").flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        var configuration = try request.configuration(on: host)
        if urlScheme(of: location) == S3Address.scheme {
            do throws(S3Fault) {
                let store = try S3Store(
                    try S3Address(location), try AWSEnvironment(host), configuration, notice: notice,
                    isStopped: isStopped)
                return HomePlace(store, temporaryDirectory: temporary, now: SystemTime.milliseconds)
            } catch { throw EngineError(error) }
        }
        let address: RegistryAddress
        do throws(ListingError) { address = try RegistryAddress(location) } catch {
            throw EngineError(.usage, "\(redacted(url: location)): \(error)")
        }
        guard address.digest == nil, address.reference.utf8.count <= RegistryAddress.longestTag else {
            throw EngineError(
                .usage,
                "\(redacted(url: location)): a set is published to a tag of at most \(RegistryAddress.longestTag) characters"
            )
        }
        if isWriting, let objection = objection(toPublishingTo: location) { throw EngineError(.usage, objection) }
        let tokens = RegistryTokens(host, configuration, isStopped: isStopped)
        for endpoint in address.endpoints { tokens.access.name(endpoint, address.name) }
        configuration.challenges = tokens
        return HomePlace(
            RegistryStore(address, configuration, isWriting: isWriting, notice: notice, isStopped: isStopped),
            temporaryDirectory: temporary, now: SystemTime.milliseconds)
    }
}

extension AWSEnvironment {
    init(_ host: HostEnvironment) throws(S3Fault) {
        try self.init(home: host.base.home, variables: host.variables, lookup: host.lookup)
    }
}

extension EngineError {
    /// The error for a bucket, or its keys, that cannot be found.
    init(_ fault: S3Fault) { self.init(fault.exitStatus, fault.reason) }
}
