package import SyncModel

/// A store behind a network that sets are published to. Its objects have names; each is put as a whole, and read as a
/// whole or by a range.
///
/// The names are those of a published directory: `manifest.json`, `packs/SHA256.pack`, `trust/1.root`. An
/// implementation retries where that may help, waits as long as the server asks, and says in errors what happened and
/// what to do. Several threads use it at once.
package protocol ObjectStore: Sendable {
    /// For people, without secrets: `s3://bucket/prefix`. No final slash.
    var shown: String { get }

    /// Whether an object is visible once it is put; otherwise nothing of a release is visible before ``commit()``.
    var namesAtOnce: Bool { get }

    /// Checks the store before anything is put. Called once, and not where nothing is to be written.
    ///
    /// - Returns: Warnings for the user, such as that two publishers would not notice each other.
    func prepare() throws(PublishError) -> [String]

    /// The objects whose names begin with `prefix`: `packs/`, or `manifest.json`.
    func list(_ prefix: String) throws(PublishError) -> [String: StoredObject]

    /// The size and tag of an object; `nil` if there is none.
    func stat(_ name: String) throws(PublishError) -> StoredObject?

    /// The tag that an object with these bytes has in the store; `nil` if only a put can show it.
    func tag(of bytes: [UInt8]) -> String?

    /// A whole object of at most `limit` **bytes**, with its size and tag; `nil` if there is none.
    func read(_ name: String, limit: Int) throws(PublishError) -> (bytes: [UInt8], object: StoredObject)?

    /// A range of an object.
    func read(_ name: String, _ range: Range<UInt64>) throws(PublishError) -> [UInt8]

    /// Puts an object, atomically.
    ///
    /// - Returns: The object's tag; `nil` if `condition` does not hold, and nothing was put.
    func put(_ object: NewObject, as name: String, if condition: PutCondition) throws(PublishError) -> String?

    /// Whether a set at this URL is in the same store, so that its packs can be copied without being sent.
    func isBeside(_ location: String) -> Bool

    /// Adds a pack of another set in the same store to this set.
    ///
    /// - Parameter pack: The pack, read from the other set and sent if the store cannot copy it.
    func take(_ pack: NewObject, from location: String) throws(PublishError)

    /// Returns the manifests of releases, among these names, that must stay because something outside the set names
    /// them.
    func namedElsewhere(_ names: [String]) throws(PublishError) -> Set<String>

    /// Removes objects, as far as they exist, in this order or at once.
    func remove(_ names: [String]) throws(PublishError)

    /// Makes a release visible, where puts alone do not. Called once everything has been put, the manifest last.
    func commit() throws(PublishError)
}

extension ObjectStore {
    package var namesAtOnce: Bool { true }

    package func prepare() throws(PublishError) -> [String] { [] }

    package func commit() throws(PublishError) {}

    package func isBeside(_ location: String) -> Bool { false }

    package func take(_ pack: NewObject, from location: String) throws(PublishError) {
        throw PublishError(.internalError, "\(shown) takes nothing from elsewhere", "report this as a bug")
    }

    package func tag(of bytes: [UInt8]) -> String? { nil }

    package func namedElsewhere(_ names: [String]) throws(PublishError) -> Set<String> { [] }
}

/// The size and tag of an object in a store.
package struct StoredObject: Sendable, Equatable {
    /// **Bytes**.
    package let size: UInt64
    /// Differs for other contents; only the store knows what it means.
    package let tag: String

    package init(size: UInt64, tag: String) { (self.size, self.tag) = (size, tag) }
}

/// An object to be put.
package struct NewObject: Sendable {
    /// **Bytes**.
    package let size: UInt64
    package let digest: SHA256Digest
    /// Copies bytes from `offset` on, as many as fit, and returns their number; `nil` where they cannot be read. May be
    /// called again from the beginning.
    package let read: @Sendable (_ offset: UInt64, _ target: UnsafeMutableRawBufferPointer) -> Int?

    package init(
        size: UInt64, digest: SHA256Digest,
        read: @escaping @Sendable (_ offset: UInt64, _ target: UnsafeMutableRawBufferPointer) -> Int?
    ) { (self.size, self.digest, self.read) = (size, digest, read) }
}

/// The condition of a put.
package enum PutCondition: Sendable, Equatable {
    /// If there is no object of this name.
    case absent
    /// If the object of this name has this tag.
    case unchanged(String)
    case always
}
