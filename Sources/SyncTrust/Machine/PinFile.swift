import SyncModel

/// A pin as text: strict JSON, with the statements in it as they were published.
extension TrustPin {
    private static let format = "syncagent-pin/1"
    /// Most **bytes** of the text.
    package static let fileLimit = 1 << 20

    /// The text, with a newline at its end.
    package var file: [UInt8] {
        func text(_ statement: SignedStatement) -> String { String(decoding: statement.bytes, as: UTF8.self) }
        return JSONLine.object { line in
            line.field("format", Self.format)
            line.field("project", project)
            line.field("origin", origin)
            line.field("pinned", timestamp(milliseconds: pinned))
            line.field("looked", timestamp(milliseconds: looked))
            line.field("seen", timestamp(milliseconds: seen))
            line.field("serial", serial)
            line.field("revision", revision)
            line.field("has_fallen", hasFallen)
            line.field("root", text(root.statement))
            line.key("roots")
            line.array { array in for digest in roots { array.value(digest.hex) } }
            if let fresh { line.field("fresh", text(fresh)) }
            if let release { line.field("release", text(release)) }
            line.key("graces")
            line.array { array in
                for grace in graces {
                    array.object {
                        $0.field("used", timestamp(milliseconds: grace.used))
                        $0.field("until", timestamp(milliseconds: grace.until))
                    }
                }
            }
            line.key("places")
            line.array { array in for digest in places { array.value(digest.hex) } }
        }.bytes + [0x0A]
    }

    /// Reads a text.
    package init(file: [UInt8]) throws(TrustFault) {
        var (origin, pinned, roots) = (Origin.file, Int64(0), [SHA256Digest]())
        var (looked, seen, serial, revision, hasFallen) = (Int64(0), Int64(0), UInt64(0), UInt64(0), false)
        var (root, fresh, release) = (SignedStatement?.none, SignedStatement?.none, SignedStatement?.none)
        var (graces, places) = ([Grace](), [SHA256Digest]())
        func statement(_ reader: inout StatementReader, _ role: Role) throws(TrustFault) -> SignedStatement {
            try SignedStatement(Array(reader.string().utf8), limit: role.limit)
        }
        func digest(_ reader: inout StatementReader) throws(TrustFault) -> SHA256Digest {
            try reader.digest()
        }
        try StatementReader.read(file, required: ["format", "root", "roots"]) {
            key,
            reader throws(TrustFault) in
            switch key {
            case "format": try reader.expect(Self.format)
            // It stands in the root, too.
            case "project": _ = try reader.project()
            case "origin": origin = Origin(rawValue: try reader.string()) ?? .file
            case "pinned": pinned = try reader.time()
            case "looked": looked = try reader.time()
            case "seen": seen = try reader.time()
            case "serial": serial = try reader.integer()
            case "revision": revision = try reader.integer()
            case "has_fallen": hasFallen = try reader.bool()
            case "root": root = try statement(&reader, .root)
            case "fresh": fresh = try statement(&reader, .fresh)
            case "release": release = try statement(&reader, .release)
            case "roots": roots = try reader.array(most: Self.mostRoots, digest)
            case "places": places = try reader.array(most: Self.mostPlaces, digest)
            case "graces":
                graces = try reader.array(most: Self.mostGraces) { reader throws(TrustFault) in
                    var grace = Grace(used: 0, until: 0)
                    try reader.object(required: ["used", "until"]) { key, reader throws(TrustFault) in
                        switch key {
                        case "used": grace.used = try reader.time()
                        case "until": grace.until = try reader.time()
                        default: return false
                        }
                        return true
                    }
                    return grace
                }
            default: return false
            }
            return true
        }
        guard let root else { throw TrustFault("it has no root") }
        let content = try RootStatement(json: root.json)
        self.init(
            origin: origin,
            pinned: pinned,
            root: Root(statement: root, content: content),
            roots: roots
        )
        (self.looked, self.seen, self.serial, self.revision) = (looked, seen, serial, revision)
        (self.hasFallen, self.fresh, self.release) = (hasFallen, fresh, release)
        (self.graces, self.places) = (graces, places)
    }
}
