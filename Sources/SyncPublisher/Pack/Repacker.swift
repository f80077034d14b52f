import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Moves what is still needed from small or mostly unused packs into new ones, in path order.
///
/// Stored bytes are copied unchanged; the old pack is first checked against the digest in its name.
struct Repacker {
    let output: OutputDirectory
    let catalogue: Catalogue
    let writer: PackWriter

    func repack(_ usage: PackUsage, _ base: BaseSet?, _ ledger: Ledger) throws(PublishError) {
        guard let base, !usage.worthRepacking.isEmpty else { return }
        var packs = OldPacks(worthRepacking: usage.worthRepacking, packs: base.packs, output: output)
        let places = catalogue.places
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { buffer.deallocate() }
        for number in ledger.blobsInOrder(count: places.count) {
            let place = places[Int(number)]
            guard let pack = try packs.open(place.pack) else { continue }
            let new = try copy(place, from: pack, buffer)
            catalogue.move(number, toPack: new.pack, offset: new.offset)
        }
    }

    /// - Returns: The new place.
    private func copy(_ place: Catalogue.Entry, from pack: SharedDescriptor, _ buffer: UnsafeMutableRawBufferPointer)
        throws(PublishError) -> (pack: UInt32, offset: UInt64)
    {
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
        return try writer.append(UnsafeRawBufferPointer(target))
    }
}

/// The packs to be rewritten. Each is opened when its first blob is moved, and only a few are open at once.
struct OldPacks {
    /// Most packs open at once.
    static let mostOpen = 64

    let worthRepacking: Set<Int>
    let packs: [Manifest.Pack]
    let output: OutputDirectory
    /// By the base's index.
    private(set) var files: [UInt32: SharedDescriptor] = [:]
    /// Whether the packs opened so far have the digest in their name.
    private(set) var isWhole: [UInt32: Bool] = [:]

    /// A pack of the base; `nil` if it stays as it is, as a missing or damaged one does.
    mutating func open(_ index: UInt32) throws(PublishError) -> SharedDescriptor? {
        guard worthRepacking.contains(Int(index)), isWhole[index] != false else { return nil }
        if let file = files[index] { return file }
        if files.count >= Self.mostOpen { files = [:] }
        let digest = packs[Int(index)].sha256
        guard let file = SharedDescriptor(output.open(.packs, digest.hex + ".pack")) else {
            isWhole[index] = false
            return nil
        }
        if isWhole[index] == nil { isWhole[index] = try OutputDirectory.digest(file.raw) == digest }
        guard isWhole[index] == true else { return nil }
        files[index] = file
        return file
    }
}
