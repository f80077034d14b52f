import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Moves the needed blobs of small or mostly unused packs into new packs, in path order.
///
/// Stored bytes are copied unchanged. Each old pack is opened when its first blob is moved, and checked against the
/// digest in its name before that; only a few are open at once.
struct Repacker {
    /// Most packs open at once.
    static let mostOpen = 64
    /// Most packs of a store that are fetched and held at once.
    static let mostFetched = 4

    /// The packs that are given up, by the base's index.
    let worthRepacking: Set<Int>
    let packs: [Manifest.Pack]
    let output: OutputDirectory
    /// By the base's index.
    private(set) var files: [UInt32: SharedDescriptor] = [:]
    /// Whether the packs opened so far have the digest in their name.
    private(set) var isWhole: [UInt32: Bool] = [:]
    /// The packs that stay as they are because they are missing or damaged.
    var left: [SHA256Digest] { isWhole.filter { !$0.value }.keys.sorted().map { packs[Int($0)].sha256 } }
    /// **Bytes** that were moved.
    private(set) var bytes: UInt64 = 0

    /// Moves blobs by their numbers in the catalogue.
    mutating func repack(_ blobs: [UInt32], of catalogue: Catalogue, to writer: PackWriter) throws(PublishError) {
        guard !worthRepacking.isEmpty else { return }
        let places = catalogue.places
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { buffer.deallocate() }
        for number in blobs {
            let place = places[Int(number)]
            guard let pack = try open(place.pack) else { continue }
            let length = Int(place.storedLength)
            let large = length > buffer.count
            let target =
                large
                ? UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 16)
                : UnsafeMutableRawBufferPointer(rebasing: buffer[..<length])
            defer { if large { target.deallocate() } }
            guard readFully(pack.raw, into: target, at: place.offset) == length else {
                throw .writing("\(output.path)/packs", "read back", code: .last)
            }
            let new = try writer.append(UnsafeRawBufferPointer(target))
            catalogue.move(number, toPack: new.pack, offset: new.offset)
            bytes = bytes.saturatingAdd(UInt64(place.storedLength))
        }
    }

    /// Opens a pack again, or checks and opens it for the first time; `nil` if it is missing or damaged.
    private func reopened(_ index: UInt32) throws(PublishError) -> SharedDescriptor? {
        let digest = packs[Int(index)].sha256
        guard isWhole[index] == true, output.home == nil else { return try output.openWhole(pack: digest) }
        return SharedDescriptor(try output.open(.packs, digest.packName))
    }

    /// Opens a pack that is to be replaced; `nil` for a pack that stays as it is, such as a missing or damaged one.
    mutating func open(_ index: UInt32) throws(PublishError) -> SharedDescriptor? {
        guard worthRepacking.contains(Int(index)), isWhole[index] != false else { return nil }
        if let file = files[index] { return file }
        if files.count >= (output.home == nil ? Self.mostOpen : Self.mostFetched) { files = [:] }
        guard let file = try reopened(index) else {
            isWhole[index] = false
            return nil
        }
        isWhole[index] = true
        files[index] = file
        return file
    }
}
