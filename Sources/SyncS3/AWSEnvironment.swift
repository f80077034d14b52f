import SyncModel
import SyncSystem

/// What variables and files say of AWS: as its own programs read them.
///
/// <https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html>
package struct AWSEnvironment: Sendable {
    /// Gives a variable's value; an empty one is as none.
    package let variable: @Sendable (String) -> String?
    /// The settings of the profile that counts.
    private let profile: [String: String]
    /// Its name.
    package let profileName: String
    /// Whether somebody has named it.
    package let isNamed: Bool

    private static let limit = 1 << 20

    /// - Parameters:
    ///   - home: The user's directory.
    ///   - lookup: Gives a variable's value.
    package init(home: String?, lookup: @escaping @Sendable (String) -> String?) throws(S3Fault) {
        let variable: @Sendable (String) -> String? = { name in lookup(name).flatMap { $0.isEmpty ? nil : $0 } }
        self.variable = variable
        let named = variable("AWS_PROFILE") ?? variable("AWS_DEFAULT_PROFILE")
        (profileName, isNamed) = (named ?? "default", named != nil)
        func path(_ name: String, _ usual: String) -> String? {
            guard let path = variable(name) ?? home.map({ $0 + usual }) else { return nil }
            return path.hasPrefix("~/") ? home.map { $0 + path.dropFirst() } : path
        }
        var profile: [String: String] = [:]
        let files = [
            (path("AWS_CONFIG_FILE", "/.aws/config"), profileName == "default" ? "default" : "profile \(profileName)"),
            (path("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"), profileName),
        ]
        var isKnown = false
        for case (let path?, let section) in files {
            guard let found = try Self.read(path)[section] else { continue }
            isKnown = true
            profile.merge(found) { $1 }
        }
        guard isKnown || named == nil else {
            throw S3Fault(.settings, "AWS_PROFILE is '\(escaped(profileName))', and no file of AWS has such a profile")
        }
        self.profile = profile
    }

    /// A setting of the profile.
    package func setting(_ name: String) -> String? { profile[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// The region that somebody has named.
    package var region: String? { variable("AWS_REGION") ?? variable("AWS_DEFAULT_REGION") ?? setting("region") }

    /// Where the service is, if not at AWS.
    package var endpoint: String? {
        guard variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")?.lowercased() != "true" else { return nil }
        return variable("AWS_ENDPOINT_URL_S3") ?? variable("AWS_ENDPOINT_URL") ?? setting("endpoint_url")
    }

    /// Sections and what they say; none for a file that is not there.
    private static func read(_ path: String) throws(S3Fault) -> [String: [String: String]] {
        let bytes: [UInt8]
        do throws(FileError) { bytes = try readFile(path, trust: .input, limit: limit) } catch {
            if error.isMissing { return [:] }
            throw S3Fault(.settings, "\(error)")
        }
        var sections: [String: [String: String]] = [:]
        var section: String?
        for line in String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline) {
            let text = line.drop { $0 == " " || $0 == "\t" }
            guard let first = text.first, first != "#", first != ";" else { continue }
            if first == "[" {
                let name = text.dropFirst().prefix { $0 != "]" }
                section = name.split(whereSeparator: { $0 == " " || $0 == "\t" }).joined(separator: " ")
                continue
            }
            // What is indented belongs to the setting above.
            guard let section, text.startIndex == line.startIndex, let sign = text.firstIndex(of: "=") else { continue }
            let name = text[..<sign].trimmed.lowercased()
            sections[section, default: [:]][name] = String(text[text.index(after: sign)...].trimmed)
        }
        return sections
    }
}
