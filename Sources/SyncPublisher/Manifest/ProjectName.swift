import SyncManifest
import SyncModel

/// Which name the project gets.
enum ProjectName {
    /// The one asked for, the base's, or the directory's own with what no identifier can hold replaced by `-`.
    static func choose(_ options: PublishOptions, base: Manifest?) throws(PublishError) -> String {
        if let wanted = options.project {
            if let reason = ManifestRules.objection(identifier: wanted, what: "project") {
                throw PublishError(.usage, reason, remedy: "choose a name such as com.example.tower")
            }
            if options.base == .inOutput, let base, base.project != wanted {
                throw PublishError(
                    .usage,
                    "\(shown(options.output)) holds the project \(shown(base.project)), not \(shown(wanted))",
                    remedy: "name another output directory"
                )
            }
            return wanted
        }
        if let base { return base.project }
        let name = options.directory.split(separator: "/").last { $0 != "." && $0 != ".." } ?? ""
        let plain = name.utf8.prefix(100).map { byte -> UInt8 in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: byte
            default: 0x2D
            }
        }
        let text = String(decoding: plain.drop { $0 == 0x2E || $0 == 0x2D }, as: UTF8.self)
        guard ManifestRules.objection(identifier: text, what: "project") == nil else {
            throw PublishError(
                .usage,
                "\(shown(options.directory)) gives no name for the project",
                remedy: "name it, such as com.example.tower"
            )
        }
        return text
    }
}
