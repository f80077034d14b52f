import SyncModel

/// The rules for a path, a link, a name, a time and a URL in a manifest. ``ManifestAssembly`` throws the error; writers
/// of manifests ask for the objection.
package enum ManifestRules {
    /// Why a path cannot be in a manifest, or `nil`.
    package static func objection(path: UnsafeBufferPointer<UInt8>) -> String? {
        guard path.allSatisfy({ $0 < 0x80 }) || String(validating: path, as: UTF8.self) != nil else {
            return "the name is not UTF-8"
        }
        do throws(ManifestError) { _ = try check(path: path) } catch { return error.reason }
        return nil
    }

    /// Why text cannot name a project, group or hook, or `nil`; the message says `what` it cannot name.
    package static func objection(identifier: String, what: String) -> String? {
        check(identifier) { bytes throws(ManifestError) in _ = try check(identifier: bytes, what: what) }
    }

    /// Why text cannot be a manifest's `created`, or `nil`.
    package static func objection(time: String) -> String? {
        check(time) { bytes throws(ManifestError) in _ = try check(time: bytes) }
    }

    /// Why text cannot be a URL in a manifest, or `nil`.
    package static func objection(url: String) -> String? {
        check(url) { bytes throws(ManifestError) in try check(url: bytes, limit: ManifestLimits.standard.urlBytes) }
    }

    private static func check(_ text: String, _ rule: (UnsafeBufferPointer<UInt8>) throws(ManifestError) -> Void)
        -> String?
    {
        Array(text.utf8).withUnsafeBufferPointer { bytes in
            do throws(ManifestError) { try rule(bytes) } catch { return error.reason }
            return nil
        }
    }
}
