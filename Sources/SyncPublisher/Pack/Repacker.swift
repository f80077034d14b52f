import CPosix
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Moves what is still needed from small or mostly unused packs into new ones, in path order.
///
/// Stored bytes are copied unchanged; the old pack is first checked against the digest in its name.
struct Repacker {
    private let output: OutputDirectory
    private let catalogue: Catalogue
    private let writer: PackWriter
    private let firstPack: Int

    init(_ output: OutputDirectory, _ catalogue: Catalogue, _ writer: PackWriter, firstPack: Int) {
        self.output = output
        self.catalogue = catalogue
        self.writer = writer
        self.firstPack = firstPack
    }

    func repack(_ usage: PackUsage, _ base: BaseSet?, _ ledger: Ledger) throws(PublishError) {
        guard let base else { return }
        var open: [UInt32: OpenPack] = [:]
        for index in usage.worthRepacking.sorted() {
            let name = base.packs[index].sha256.hex + ".pack"
            // A missing or damaged pack stays as it is.
            guard let file = output.open(.packs, name),
                try output.digest(.packs, name) == base.packs[index].sha256
            else { continue }
            open[UInt32(index)] = OpenPack(file)
        }
        let places = catalogue.places
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { buffer.deallocate() }
        for number in ledger.blobsInOrder(count: places.count) {
            let place = places[Int(number)]
            guard let pack = open[place.pack] else { continue }
            try move(number, place, pack, buffer)
        }
    }

    private func move(
        _ number: UInt32,
        _ place: Catalogue.Entry,
        _ pack: OpenPack,
        _ buffer: UnsafeMutableRawBufferPointer
    ) throws(PublishError) {
        let length = Int(place.storedLength)
        let large = length > buffer.count
        let target =
            large
            ? UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 16)
            : UnsafeMutableRawBufferPointer(rebasing: buffer[..<length])
        defer { if large { target.deallocate() } }
        guard readFully(pack.file.raw, into: target, at: place.offset) == length else {
            throw .writing("\(output.path)/packs", "read back", code: sa_errno())
        }
        let new = try writer.append(UnsafeRawBufferPointer(target))
        guard let index = UInt32(exactly: firstPack + new.pack) else { throw .tooManyBlobs }
        catalogue.move(number, toPack: index, offset: new.offset)
    }

    private final class OpenPack {
        let file: Descriptor
        init(_ file: consuming Descriptor) { self.file = file }
    }
}
