import SyncModel
package import SyncSystem

/// A file system mounted below a destination. A file can only be moved into place from the file system that it is on, so there is a
/// `.syncagent/` of ours at its top, too, for staging.
package final class MountedPlace: Sendable {
    /// Relative to the destination.
    package let path: [UInt8]
    /// For messages.
    package let shown: String
    /// Its top directory.
    package var root: Int32 { top.raw }
    private let top: Descriptor
    private let staging = Mutex<SharedDescriptor?>(nil)

    /// - Parameter opened: The top directory, which somebody else closes.
    init?(_ path: [UInt8], opened: Int32, below destination: String) {
        guard let top = openDirectory(".", in: opened) else { return nil }
        self.path = path
        self.top = top
        shown = "\(destination)/\(String(decoding: path, as: UTF8.self))"
    }

    /// Its staging directory; `nil` unless ``openStaging(create:)`` has opened it.
    var staged: Int32? { staging.withLock { $0?.raw } }

    /// Opens the staging directory.
    ///
    /// - Parameter create: Whether to make it if missing.
    package func openStaging(create: Bool) throws(FileError) {
        let shown = "\(shown)/\(Destination.stateName)"
        let state = try openPrivateDirectory(Destination.stateName, in: root, create: create, shown: shown)
        let opened = SharedDescriptor(
            try openPrivateDirectory("staging", in: state.raw, create: create, shown: "\(shown)/staging"))
        dropInheritance(opened.raw)
        staging.withLock { $0 = opened }
    }

    /// Why nothing can be staged there; `nil` if it can, as far as one can know without trying.
    package var objection: Errno? {
        if FileSystemSpace(of: root)?.isReadOnly == true { return .readOnlyFileSystem }
        return isPermitted(.change, ".", in: root) ? nil : .last
    }

    /// Whether names that differ only in case are the same there; see ``Destination/foldsCase``.
    package var foldsCase: Bool { Destination.foldsCase(root) }
}
