package import SyncModel

/// A place behind a network that sets are published to: objects with names, each put and read as a whole or by a range.
///
/// The names are those of a published directory: `manifest.json`, `packs/SHA256.pack`, `trust/1.root`. Whoever implements it
/// tries again what may help, waits as it is told to, and says in errors what happened and what to do. It is used by several
/// threads at once.
package protocol ObjectStore: Sendable {
    /// For people, without secrets: `s3://bucket/prefix`. No final slash.
    var shown: String { get }

    /// Whether what is put can be seen at once; otherwise nothing of a release is, before ``commit()``.
    var namesAtOnce: Bool { get }

    /// What people may want to know before anything is put, such as that two publishers would not notice each other. Called
    /// once, and not where nothing is to be written.
    func prepare() throws(PublishError) -> [String]

    /// The objects whose names begin so: `packs/`, or `manifest.json`.
    func list(_ prefix: String) throws(PublishError) -> [String: StoredObject]

    /// How an object looks; `nil` if there is none.
    func look(at name: String) throws(PublishError) -> StoredObject?

    /// The tag that an object with these bytes has there; `nil` where that cannot be told without putting it.
    func tag(of bytes: [UInt8]) -> String?

    /// A whole object of at most `limit` **bytes**, and how it looks; `nil` if there is none.
    func read(_ name: String, limit: Int) throws(PublishError) -> (bytes: [UInt8], object: StoredObject)?

    /// A range of an object.
    func read(_ name: String, _ range: Range<UInt64>) throws(PublishError) -> [UInt8]

    /// Puts an object, from one moment to the next.
    ///
    /// - Returns: Its tag; `nil` if what it depends on is not so, and nothing was put.
    func put(_ object: NewObject, as name: String, if condition: PutCondition) throws(PublishError) -> String?

    /// Whether a set at this URL is in the same store, so that packs of it can be had without being sent.
    func isBeside(_ location: String) -> Bool

    /// Makes a pack of a set beside this one a pack of this one.
    ///
    /// - Parameter pack: Read where it is and sent, if the store does not do that by itself.
    func take(_ pack: NewObject, from location: String) throws(PublishError)

    /// Which of these manifests of releases stay whatever is removed, because something that is no part of the set names them.
    func namedElsewhere(_ names: [String]) throws(PublishError) -> Set<String>

    /// Removes objects, as far as they exist, in this order or at once.
    func remove(_ names: [String]) throws(PublishError)

    /// Everything of a release has been put, its manifest last: where that alone does not make it visible, this does.
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

/// How an object of a store looks.
package struct StoredObject: Sendable, Equatable {
    /// **Bytes**.
    package let size: UInt64
    /// Another one for other contents; the store alone knows what it means.
    package let tag: String

    package init(size: UInt64, tag: String) { (self.size, self.tag) = (size, tag) }
}

/// What is put.
package struct NewObject: Sendable {
    /// **Bytes**.
    package let size: UInt64
    package let digest: SHA256Digest
    /// Copies as many bytes from an offset as there is room for; `nil` where they cannot be read. May be called again from the
    /// beginning.
    package let read: @Sendable (_ offset: UInt64, _ target: UnsafeMutableRawBufferPointer) -> Int?

    package init(
        size: UInt64, digest: SHA256Digest,
        read: @escaping @Sendable (_ offset: UInt64, _ target: UnsafeMutableRawBufferPointer) -> Int?
    ) { (self.size, self.digest, self.read) = (size, digest, read) }
}

/// When an object is put.
package enum PutCondition: Sendable, Equatable {
    /// If there is none of the name.
    case absent
    /// If the one of the name has this tag.
    case unchanged(String)
    case always
}
