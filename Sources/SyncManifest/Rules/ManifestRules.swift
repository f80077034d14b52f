import SyncModel

/// The rules of ``ManifestAssembly`` for those who write manifests: what they let through, it reads.
package enum ManifestRules {
    /// Why a path cannot stand in a manifest, or `nil`.
    package static func objection(path: UnsafeBufferPointer<UInt8>) -> String? {
        guard path.allSatisfy({ $0 < 0x80 }) || String(validating: path, as: UTF8.self) != nil else {
            return "the name is not UTF-8"
        }
        do throws(ManifestFault) {
            _ = try PathRules.check(path)
            return nil
        } catch { return error.reason }
    }

    /// What ``judge(link:at:)`` found.
    package enum LinkVerdict: Sendable, Equatable {
        /// It stays inside the tree when each of these is a directory of the manifest, and no link.
        case allowed(directories: [[UInt8]])
        /// Why it cannot stand in a manifest.
        case refused(String)
    }

    /// Judges a link by its own path and its target, both as bytes.
    package static func judge(link target: UnsafeBufferPointer<UInt8>, at path: UnsafeBufferPointer<UInt8>)
        -> LinkVerdict
    {
        guard String(validating: target, as: UTF8.self) != nil else {
            return .refused("the link's target is not UTF-8")
        }
        do throws(ManifestFault) { return .allowed(directories: try LinkRules.check(target: target, of: path)) } catch {
            return .refused(error.reason)
        }
    }

    /// Why text cannot name a project, group or hook, or `nil`; `what` it is to name is said in the message.
    package static func objection(identifier: String, what: String) -> String? {
        check(identifier) { bytes throws(ManifestFault) in _ = try NameRules.check(bytes, what: what) }
    }

    /// Why text cannot be a manifest's `created`, or `nil`.
    package static func objection(time: String) -> String? {
        check(time) { bytes throws(ManifestFault) in _ = try NameRules.checkTime(bytes) }
    }

    /// Why text cannot be a URL in a manifest, or `nil`.
    package static func objection(url: String) -> String? {
        check(url) { bytes throws(ManifestFault) in try URLRules.check(bytes, limit: ManifestLimits.standard.urlBytes) }
    }

    private static func check(_ text: String, _ rule: (UnsafeBufferPointer<UInt8>) throws(ManifestFault) -> Void)
        -> String?
    {
        Array(text.utf8).withUnsafeBufferPointer { bytes in
            do throws(ManifestFault) {
                try rule(bytes)
                return nil
            } catch { return error.reason }
        }
    }
}
