import Synchronization

/// Whole and broken files of the kinds that the example verifier knows.
enum VerifierSamples {
    struct Sample: Sendable {
        let name: String
        let bytes: [UInt8]
        let isWhole: Bool
    }

    /// One grey pixel; PNG specification, third edition.
    private static let png: [UInt8] = [
        0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1,
        8, 0, 0, 0, 0, 0x3A, 0x7E, 0x9B, 0x55, 0, 0, 0, 0x0A, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9C, 0x63, 0x60, 0, 0, 0,
        2, 0, 1, 0x48, 0xAF, 0xA4, 0x71, 0, 0, 0, 0, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82,
    ]
    /// "hello\n", RFC 1952.
    private static let gzip: [UInt8] = [
        0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 2, 0xFF, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0xE7, 2, 0, 0x20, 0x30, 0x3A, 0x36, 6, 0,
        0, 0,
    ]
    private static let jpeg: [UInt8] = [0xFF, 0xD8, 0xFF, 0xDB, 0, 2, 0xFF, 0xD9]

    private static func changed(_ bytes: [UInt8], at index: Int) -> [UInt8] {
        var copy = bytes
        copy[index] ^= 1
        return copy
    }

    static let all: [Sample] = [
        Sample(name: "whole.png", bytes: png, isWhole: true),
        Sample(name: "cut.png", bytes: Array(png.dropLast(6)), isWhole: false),
        Sample(name: "changed.png", bytes: changed(png, at: 18), isWhole: false),
        Sample(name: "text.PNG", bytes: Array("not a picture".utf8), isWhole: false),
        Sample(name: "whole.jpg", bytes: jpeg, isWhole: true),
        Sample(name: "cut.jpeg", bytes: Array(jpeg.dropLast(2)), isWhole: false),
        Sample(name: "whole.gz", bytes: gzip, isWhole: true), Sample(name: "two.gz", bytes: gzip + gzip, isWhole: true),
        Sample(name: "cut.gz", bytes: Array(gzip.dropLast(3)), isWhole: false),
        Sample(name: "changed.gz", bytes: changed(gzip, at: 19), isWhole: false),
        Sample(name: "whole.json", bytes: Array("{\"a\":[1]}".utf8), isWhole: true),
        Sample(name: "cut.json", bytes: Array("{\"a\":[1".utf8), isWhole: false),
        Sample(name: "empty.png", bytes: [], isWhole: false), Sample(name: "empty.bin", bytes: [], isWhole: true),
        Sample(name: "no-ending", bytes: [1, 2, 3], isWhole: true),
    ]
}

/// The methods of requests that a server saw.
final class PostLog: Sendable {
    private let seen = Mutex<[String]>([])

    func add(_ method: String) { seen.withLock { $0.append(method) } }
    var methods: [String] { seen.withLock { $0 } }
}
