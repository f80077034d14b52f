package import SyncModel
package import SyncSystem

/// What was true of a path when its content was last verified.
///
/// A file whose ``device``, ``inode``, ``size``, ``modified`` and ``changed`` are unchanged holds the bytes of
/// ``digest``; see ``StatIndex/trusts(_:)`` for the exception.
package struct IndexRecord: Equatable, Sendable {
    package enum Kind: UInt8, Sendable {
        /// Nothing known; never stored.
        case none = 0
        case file = 1
        case executable = 2
        /// `digest` is of the target's text.
        case link = 3
        /// A directory named by a manifest; has no content.
        case directory = 4
    }

    /// The part of a file's status that stays the same as long as nobody changes the file.
    package struct Status: Equatable, Sendable {
        package var device: UInt64 = 0
        package var inode: UInt64 = 0
        /// **Bytes**.
        package var size: UInt64 = 0
        /// **Nanoseconds** since 1970.
        package var modified: Int64 = 0
        /// **Nanoseconds** since 1970.
        package var changed: Int64 = 0
    }

    package var status: Status
    package var digest: SHA256Digest
    package var kind: Kind
    /// Whether a pull put it there, rather than found it there. Only such files are ever pruned.
    package var installed: Bool
    /// Whether the latest manifest names it.
    package var isNamed = false

    /// Bytes of a record on disk, little endian: five integers, digest, path offset (4) and length (2),
    /// kind (1), flags (1: installed, 2: named).
    static let byteCount = 80

    package init(_ status: Status, digest: SHA256Digest, kind: Kind, installed: Bool) {
        self.status = status
        self.digest = digest
        self.kind = kind
        self.installed = installed
    }

    package init(status: FileStatus, digest: SHA256Digest, kind: Kind, installed: Bool) {
        self.init(Status(status), digest: digest, kind: kind, installed: installed)
    }

    /// A directory named by the manifest, with its present status.
    ///
    /// - Parameter traits: What the manifest keeps of it; what the file system could take of that is stored in place of the
    ///   size.
    package init(directory status: FileStatus, keeping traits: FileTraits, installed: Bool) {
        self.init(Status(status), digest: .zero, kind: .directory, installed: installed)
        let mode = traits.mode.flatMap { FileTraits(mode: $0).hold(of: status) ? $0 : nil }
        self.status.size =
            (mode.map { UInt64($0) | Self.keepsMode } ?? 0) | (traits.modified == status.modified ? Self.keepsTime : 0)
        isNamed = true
    }

    private static let keepsMode: UInt64 = 1 << 16
    private static let keepsTime: UInt64 = 1 << 17

    /// Whether a directory is still as the manifest wants it, whatever is in it.
    private func isKept(_ directory: FileStatus) -> Bool {
        guard directory.kind == .directory else { return false }
        if status.size & Self.keepsMode != 0, status.size & 0o777 != UInt64(directory.permissions & 0o777) {
            return false
        }
        return status.size & Self.keepsTime == 0 || status.modified == directory.modified
    }

    /// Whether a file with this status is the one that was verified. Where modes can be set, setting one changes
    /// ``Status/changed``; where they cannot, a file need not have the bit that ``kind`` tells.
    package func matches(_ status: FileStatus) -> Bool {
        switch kind {
        case .none: false
        case .file, .executable: status.kind == .file && Status(status) == self.status
        case .link: status.kind == .link && Status(status) == self.status
        case .directory: isKept(status)
        }
    }

    /// Whether the mode that the manifest keeps of a directory is on it: not where modes cannot be set.
    package var keepsMode: Bool { kind == .directory && status.size & Self.keepsMode != 0 }
}

extension IndexRecord {
    init?(_ bytes: UnsafeRawBufferPointer) {
        func word(_ offset: Int) -> UInt64 {
            UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
        guard let kind = Kind(rawValue: bytes[78]), kind != .none,
            let digest = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: bytes[40..<72]))
        else { return nil }
        status = Status(
            device: word(0), inode: word(8), size: word(16), modified: Int64(bitPattern: word(24)),
            changed: Int64(bitPattern: word(32)))
        self.digest = digest
        self.kind = kind
        installed = bytes[79] & 1 != 0
        isNamed = bytes[79] & 2 != 0
    }

    func store(to target: UnsafeMutableRawPointer, pathOffset: UInt32, pathLength: UInt16) {
        func put(_ value: some FixedWidthInteger, _ offset: Int) {
            target.storeBytes(of: value.littleEndian, toByteOffset: offset, as: type(of: value.littleEndian))
        }
        put(status.device, 0)
        put(status.inode, 8)
        put(status.size, 16)
        put(status.modified, 24)
        put(status.changed, 32)
        digest.store(to: target + 40)
        put(pathOffset, 72)
        put(pathLength, 76)
        put(kind.rawValue, 78)
        put(UInt8((installed ? 1 : 0) | (isNamed ? 2 : 0)), 79)
    }
}

extension IndexRecord.Status {
    /// As five integers, in the order of the index.
    var words: [UInt64] { [device, inode, size, UInt64(bitPattern: modified), UInt64(bitPattern: changed)] }

    static let byteCount = 40

    /// - Parameter bytes: ``byteCount`` of them: ``words``, little endian.
    init(_ bytes: ArraySlice<UInt8>) {
        func word(_ number: Int) -> UInt64 {
            (0..<8).reduce(0) { $0 | UInt64(bytes[bytes.startIndex + number * 8 + $1]) << UInt64($1 * 8) }
        }
        self.init(
            device: word(0), inode: word(1), size: word(2), modified: Int64(bitPattern: word(3)),
            changed: Int64(bitPattern: word(4)))
    }

    package init(_ status: FileStatus) {
        self.init(
            device: status.device, inode: status.inode, size: status.size, modified: status.modified,
            changed: status.changed)
    }
}
