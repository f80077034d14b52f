import SyncModel

extension PlanReport {
    /// Objects beside each other on one server.
    package struct Source: Sendable {
        /// The URL up to the last slash of its path, absolute. Not redacted.
        package let prefix: String
        /// One of the objects: its URL, absolute, not redacted; and its **bytes**.
        package let example: (url: String, size: UInt64)
        /// Different objects.
        package fileprivate(set) var objects: Int
        /// Requests sent there if the servers before it do not fail.
        package fileprivate(set) var requests: Int
    }

    /// The places that the plan's requests can go to, mirrors included, each once, in the order of the plan.
    ///
    /// - Parameter location: The manifest's path or URL, as it was given: what relative URLs are relative to.
    package func sources(of location: String) -> [Source] {
        let base = manifestURL(location)
        var sources: [Source] = []
        var places: [Substring: Int] = [:]
        var seen: Set<String> = []
        for request in requests {
            for (index, written) in request.sources.enumerated() {
                let url = resolve(written, against: base)
                let plain = url.prefix { $0 != "?" && $0 != "#" }
                let prefix = plain[...(plain.lastIndex(of: "/") ?? plain.startIndex)]
                let isNew = seen.insert(url).inserted
                if let place = places[prefix] {
                    sources[place].objects += isNew ? 1 : 0
                    sources[place].requests += index == 0 ? 1 : 0
                } else {
                    places[prefix] = sources.count
                    sources.append(
                        Source(
                            prefix: String(prefix), example: (url, request.size), objects: 1,
                            requests: index == 0 ? 1 : 0))
                }
            }
        }
        return sources
    }
}
