import SyncModel

/// A checksum list as sha256sum(1) writes and reads it, and lists of other digests like it: lines with two spaces, ` *`
/// or one space before the name, `SHA256 (name) = …`, names with escapes, lines that end with a zero byte.
package enum ChecksumList {
    /// The longest list, in **bytes**.
    package static let limit = 32 << 20
    /// The longest line, in **bytes**: a name with every byte escaped, and a digest.
    private static let longestLine = 9_000

    /// Most **bytes** of comments and empty lines before the first entry.
    private static let longestStart = 64 << 10

    /// Whether a text looks like a list: its first line that is no comment is an entry.
    package static func isList(_ text: [UInt8]) -> Bool {
        var lines = Lines(Array(text.prefix(longestStart + longestLine)))
        var hasOneBlank: Bool?
        while let line = lines.next() {
            if Self.isSilent(line) { continue }
            return (try? entry(line, isEscapable: !lines.endWithZero, &hasOneBlank)) != nil
        }
        return false
    }

    /// Reads a list.
    ///
    /// - Parameter base: The prefix that makes a name a URL; empty for URLs relative to the list.
    package static func read(_ text: [UInt8], base: String) throws(ListingError) -> SourceListing {
        guard text.count <= limit else {
            throw ListingError(
                "",
                "the list has \(text.count) bytes, above the limit of \(limit); keep some of its lines in a file, and pull "
                    + "that with --base")
        }
        var listing = SourceListing()
        var lines = Lines(text)
        var hasOneBlank: Bool?
        while let line = lines.next() {
            if line.starts(with: "-----BEGIN PGP SIGNATURE-----".utf8) { break }
            if isSilent(line) { continue }
            let number = lines.number
            do throws(ListingError) {
                let (digest, path) = try entry(line, isEscapable: !lines.endWithZero, &hasOneBlank)
                var file = SourceListing.File(path: path, digest: digest, urls: [base + percentEncoded(bytes: path)])
                // Only an empty file has this digest.
                if digest.hex == SHA256Digest.ofNothing.hex { file.size = 0 }
                try listing.add(file, at: "")
            } catch { throw error.at("line \(number)") }
        }
        return listing
    }

    /// Whether a line has no entry: a comment, an empty line, or the frame of a list that is signed in place.
    private static func isSilent(_ line: ArraySlice<UInt8>) -> Bool {
        line.isEmpty || line.first == UInt8(ascii: "#") || line.starts(with: "-----BEGIN PGP SIGNED".utf8)
            || line.starts(with: "Hash: ".utf8)
    }

    /// The digest in a line, and the path as in a manifest.
    ///
    /// - Parameter hasOneBlank: As for ``plain(_:_:)``.
    private static func entry(_ line: ArraySlice<UInt8>, isEscapable: Bool, _ hasOneBlank: inout Bool?)
        throws(ListingError) -> (digest: (algorithm: ContentCheck.Algorithm, hex: String), path: [UInt8])
    {
        guard line.count <= longestLine else { throw ListingError("", "the line has \(line.count) bytes") }
        var rest = line.drop { $0 == 0x20 || $0 == 0x09 }
        let isEscaped = isEscapable && rest.first == UInt8(ascii: "\\")
        if isEscaped { rest = rest.dropFirst() }
        guard let (algorithm, hex, name) = tagged(rest) ?? plain(rest, &hasOneBlank) else {
            throw ListingError(
                "", "\(quoted(String(decoding: line.prefix(80), as: UTF8.self))) is not a digest and a name")
        }
        var path = isEscaped ? try unescaped(name) : Array(name)
        while path.starts(with: "./".utf8) { path = Array(path.dropFirst(2).drop { $0 == 0x2F }) }
        if path == [0x2D] { throw ListingError("", "“-” is standard input, not a file") }
        return ((algorithm, hex), path)
    }

    /// `SHA256 (name) = digest`, as BSD and `--tag` have it.
    private static func tagged(_ line: ArraySlice<UInt8>) -> (ContentCheck.Algorithm, String, ArraySlice<UInt8>)? {
        let words: [(String, ContentCheck.Algorithm)] = [
            ("SHA256", .sha256), ("SHA512", .sha512), ("SHA384", .sha384), ("SHA1", .sha1), ("MD5", .md5),
        ]
        for (word, algorithm) in words where line.starts(with: word.utf8) {
            let rest = line.dropFirst(word.utf8.count)
            guard let open = rest.firstIndex(where: { $0 != 0x20 }), rest[open] == UInt8(ascii: "("),
                let (_, hex) = ContentCheck.digest(algorithm, rest.suffix(algorithm.byteCount * 2))
            else { return nil }
            var name = rest[(open + 1)...].dropLast(algorithm.byteCount * 2)
            while name.last == 0x20 { name = name.dropLast() }
            guard name.last == UInt8(ascii: "=") else { return nil }
            name = name.dropLast()
            while name.last == 0x20 { name = name.dropLast() }
            guard name.last == UInt8(ascii: ")") else { return nil }
            return (algorithm, hex, name.dropLast())
        }
        return nil
    }

    /// `digest  name` or `digest *name`; with one blank, as `sha256 -r` of BSD has it.
    ///
    /// - Parameter hasOneBlank: Whether the lines before have one blank; `nil` before the first. If they have, a second
    ///   blank, or a `*`, is part of the name. One list does not mix the two forms, so that no name is taken for
    ///   another.
    private static func plain(_ line: ArraySlice<UInt8>, _ hasOneBlank: inout Bool?) -> (
        ContentCheck.Algorithm, String, ArraySlice<UInt8>
    )? {
        let digits = line.prefix { hexadecimalValue($0) != nil }
        let rest = line[digits.endIndex...]
        let algorithm = [ContentCheck.Algorithm.sha256, .sha512, .sha384, .sha1, .md5].first {
            $0.byteCount * 2 == digits.count
        }
        guard let algorithm, let (_, hex) = ContentCheck.digest(algorithm, digits), rest.first == 0x20 else {
            return nil
        }
        var name = rest.dropFirst()
        let isMarked = name.first == 0x20 || name.first == UInt8(ascii: "*")
        let isBare = hasOneBlank ?? !isMarked
        guard isBare || isMarked else { return nil }
        hasOneBlank = isBare
        if !isBare { name = name.dropFirst() }
        return name.isEmpty ? nil : (algorithm, hex, name)
    }

    /// A name in which a line feed, a carriage return and a backslash are written as `\n`, `\r` and `\\`.
    private static func unescaped(_ name: ArraySlice<UInt8>) throws(ListingError) -> [UInt8] {
        var result: [UInt8] = []
        var rest = name
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\") else {
                result.append(byte)
                continue
            }
            switch rest.popFirst() {
            case UInt8(ascii: "n"): result.append(0x0A)
            case UInt8(ascii: "r"): result.append(0x0D)
            case UInt8(ascii: "\\"): result.append(byte)
            default: throw ListingError("", "an unknown escape in a name")
            }
        }
        return result
    }

    /// The lines of a text, each without its end.
    private struct Lines {
        private var rest: ArraySlice<UInt8>
        /// Whether a zero byte ends each line: then names have no escapes.
        let endWithZero: Bool
        /// Counted from 1.
        private(set) var number = 0

        init(_ text: [UInt8]) {
            rest = text[...]
            endWithZero = text.contains(0)
        }

        mutating func next() -> ArraySlice<UInt8>? {
            guard !rest.isEmpty else { return nil }
            number += 1
            let end = rest.firstIndex(of: endWithZero ? 0 : 0x0A) ?? rest.endIndex
            var line = rest[..<end]
            rest = rest[min(end + 1, rest.endIndex)...]
            if !endWithZero, line.last == 0x0D { line = line.dropLast() }
            return line
        }
    }
}
