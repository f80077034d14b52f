import SyncModel
import SyncSystem

/// The settings for AWS in variables and files, as its own programs read them.
///
/// <https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html>
package struct AWSEnvironment: Sendable {
    /// Returns a variable's value; an empty one counts as none.
    package let variable: @Sendable (String) -> String?
    /// All variables, for programs that give keys.
    let variables: [String: String]
    /// The files with the settings of profiles, and the prefix of profile names in each.
    private let files: [(path: String?, prefix: String)]
    /// The settings of profiles, by their names.
    private var profiles: [String: [String: String]] = [:]
    /// What profiles refer to as `services`, by the names of those sections.
    private var services: [String: [String: String]] = [:]

    private static let limit = 1 << 20

    /// - Parameters:
    ///   - home: The user's directory.
    ///   - variables: The variables that programs get.
    ///   - lookup: Returns a variable's value.
    package init(
        home: String?, variables: [String: String] = [:], lookup: @escaping @Sendable (String) -> String?
    ) throws(S3Fault) {
        let variable: @Sendable (String) -> String? = { name in lookup(name).flatMap { $0.isEmpty ? nil : $0 } }
        (self.variable, self.variables) = (variable, variables)
        func path(_ name: String, _ usual: String) -> String? {
            guard let path = variable(name) ?? home.map({ $0 + usual }) else { return nil }
            return path.hasPrefix("~/") ? home.map { $0 + path.dropFirst() } : path
        }
        files = [
            (path("AWS_CONFIG_FILE", "/.aws/config"), "profile "),
            (path("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"), ""),
        ]
        try readFiles()
    }

    /// Reads the files, which may have changed.
    ///
    /// - Throws: ``S3Fault`` for a file that cannot be used; the former settings stay then.
    mutating func readFiles() throws(S3Fault) {
        var (profiles, services): ([String: [String: String]], [String: [String: String]]) = ([:], [:])
        for case (let path?, let prefix) in files {
            for (section, settings) in try Self.read(path) {
                if !prefix.isEmpty, section.hasPrefix("services ") {
                    services[String(section.dropFirst("services ".utf8.count))] = settings
                    continue
                }
                let isDefault = section == "default"
                guard isDefault || section.hasPrefix(prefix) else { continue }
                let name = isDefault ? section : String(section.dropFirst(prefix.utf8.count))
                profiles[name, default: [:]].merge(settings) { $1 }
            }
        }
        guard namedProfile == nil || profiles[profileName] != nil else {
            throw S3Fault(
                .configuration, "AWS_PROFILE is '\(escaped(profileName))', and no file of AWS has such a profile")
        }
        // Without it the buckets would be looked for at AWS.
        if let wanted = profiles[profileName]?["services"], !wanted.isEmpty, services[wanted] == nil {
            throw S3Fault(
                .configuration,
                "the profile '\(escaped(profileName))' has services = \(escaped(wanted)), and no file of AWS has "
                    + "that section")
        }
        (self.profiles, self.services) = (profiles, services)
    }

    private var namedProfile: String? { variable("AWS_PROFILE") ?? variable("AWS_DEFAULT_PROFILE") }

    /// The name of the selected profile.
    package var profileName: String { namedProfile ?? "default" }

    /// A setting of a profile; without a name, of the selected one.
    package func setting(_ name: String, of profile: String? = nil) -> String? {
        profiles[profile ?? profileName]?[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    func hasProfile(_ name: String) -> Bool { profiles[name] != nil }

    /// The region that a variable or the profile names.
    package var region: String? { variable("AWS_REGION") ?? variable("AWS_DEFAULT_REGION") ?? setting("region") }

    /// The endpoint of buckets, if it is not AWS's.
    package var endpoint: String? { endpoint(of: "S3") }

    private func endpoint(of service: String) -> String? {
        guard variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")?.lowercased() != "true" else { return nil }
        return variable("AWS_ENDPOINT_URL_\(service)") ?? variable("AWS_ENDPOINT_URL")
            ?? setting("services").flatMap { services[$0]?["\(service.lowercased()) endpoint_url"] }
            ?? setting("endpoint_url")
    }

    /// The URL of the server that gives keys for roles: the token service of the region, or of the endpoint that is
    /// configured; and the region that requests are signed for.
    var tokenService: (url: String, region: String) {
        let domain = region?.hasPrefix("cn-") == true ? "amazonaws.com.cn" : "amazonaws.com"
        let usual = region.map { "https://sts.\($0).\(domain)" } ?? "https://sts.amazonaws.com"
        return (endpoint(of: "STS") ?? usual, region ?? "us-east-1")
    }

    /// Sections and what they say; none for a file that is not there. An indented setting has the name of the one
    /// above it before its own.
    private static func read(_ path: String) throws(S3Fault) -> [String: [String: String]] {
        let bytes: [UInt8]
        do throws(FileError) { bytes = try readFile(path, trust: .input, limit: limit) } catch {
            if error.isMissing { return [:] }
            throw S3Fault(.configuration, "\(error)")
        }
        var sections: [String: [String: String]] = [:]
        var section: String?
        var outer = ""
        for line in String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline) {
            let text = line.drop { $0 == " " || $0 == "\t" }
            guard let first = text.first, first != "#", first != ";" else { continue }
            if first == "[" {
                let name = text.dropFirst().prefix { $0 != "]" }
                section = name.split(whereSeparator: { $0 == " " || $0 == "\t" }).joined(separator: " ")
                outer = ""
                continue
            }
            guard let section, let sign = text.firstIndex(of: "=") else { continue }
            let name = text[..<sign].trimmed.lowercased()
            let isIndented = text.startIndex != line.startIndex
            if !isIndented { outer = name }
            sections[section, default: [:]][isIndented ? "\(outer) \(name)" : name] =
                String(text[text.index(after: sign)...].trimmed)
        }
        return sections
    }
}
