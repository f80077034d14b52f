package import SyncEngine
import SyncManifest
import SyncModel
package import SyncPluginHost
package import SyncPlugins
import SyncRemotes
import SyncSystem
package import SyncTransfer

/// A published directory behind a cache: on a web server, in a bucket or in a registry.
package struct PublishedDirectory: Sendable {
    private enum Place {
        case web(Origin)
        /// The URL of the directory, with endpoint and region.
        case bucket(String)
        case registry(RegistryAddress)
    }

    /// The beginning of the URLs of its files: with a slash at the end, and without a query.
    package let base: String
    private let place: Place

    /// - Parameter location: Its URL, or that of a manifest in it.
    /// - Throws: ``/SyncEngine/EngineError`` with status 64.
    package init(_ location: String) throws(EngineError) {
        let plain = location.prefix { $0 != "?" && $0 != "#" }
        let file = plain.split(separator: "/", omittingEmptySubsequences: false).last ?? plain
        let isManifest = ["manifest.json", "manifest.json.zst"].contains(file)
        let directory = isManifest ? plain.dropLast(file.count) : plain
        let scheme = urlScheme(of: location)
        // A pull would take the location for another manifest.
        let mayBeManifest = [".json", ".zst"].contains { plain.hasSuffix($0) }
        guard isManifest || !mayBeManifest || scheme == RegistryAddress.scheme else {
            throw EngineError(
                .usage,
                "\(redacted(url: location)): the manifest of a published directory is manifest.json; write a directory of "
                    + "such a name with a slash at the end")
        }
        switch scheme {
        case S3Address.scheme:
            do throws(S3Fault) {
                var address = try S3Address("\(directory)\(location[plain.endIndex...])")
                place = .bucket(address.text)
                (address.endpoint, address.region) = (nil, nil)
                base = address.text + "/"
            } catch { throw EngineError(error) }
        case RegistryAddress.scheme:
            do throws(ListingError) {
                let address = try RegistryAddress(location)
                (place, base) = (.registry(address), RegistryTransport.base(address))
            } catch { throw EngineError(.usage, "\(redacted(url: location)): \(error)") }
        case "https", "http":
            let url: CurlURL
            do throws(URLError) { url = try CurlURL(location) } catch {
                throw EngineError(.usage, "\(redacted(url: location)): \(error)")
            }
            guard plain.count == location.count else {
                throw EngineError(.usage, "\(redacted(url: location)): a directory has no query or fragment")
            }
            let text = isManifest ? String(url.directory) : url.text
            (place, base) = (.web(url.origin), text.hasSuffix("/") ? text : text + "/")
        default: throw EngineError(.usage, "\(redacted(url: location)): not an http(s), s3 or oci URL")
        }
    }

    /// Makes the transport for the directory.
    ///
    /// - Parameters:
    ///   - configuration: How servers are asked. Its headers and certificate are for the servers of this directory.
    ///   - notice: Receives a warning if a bucket is in another region than the one that was asked.
    /// - Returns: The transport, and the name by which a store knows the directory: two endpoints may each have a
    ///   bucket of that name.
    /// - Throws: ``/SyncEngine/EngineError`` with status 78 for settings that cannot be used.
    package func transport(
        _ configuration: TransportConfiguration, on host: HostEnvironment,
        notice: @escaping @Sendable (PluginNotice) -> Void, isStopped: @escaping @Sendable () -> Bool
    ) throws(EngineError) -> (transport: any Transport, name: String) {
        var configuration = configuration
        func web() throws(EngineError) -> CurlTransport {
            do throws(TransferError) { return try CurlTransport(configuration: configuration) } catch {
                throw EngineError(.configuration, "\(error)")
            }
        }
        switch place {
        case .web(let origin):
            configuration.homes = [origin]
            return (try web(), base)
        case .bucket(let location):
            let buckets = try Buckets(location, host, configuration, notice: notice, isStopped: isStopped)
            configuration.homes = buckets.home.map { [$0] }
            configuration.credentialProviders += buckets.providers
            return (buckets.around(try web()), buckets.home.map { "\($0) \(base)" } ?? base)
        case .registry(let address):
            let tokens = RegistryTokens(host, configuration, isStopped: isStopped)
            configuration.homes = Set(address.endpoints.compactMap { (try? CurlURL($0))?.origin })
            configuration.challenges = tokens
            return (RegistryTransport(try web(), address, tokens.access), base)
        }
    }
}
