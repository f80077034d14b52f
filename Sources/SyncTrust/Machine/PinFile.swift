import SyncModel

/// A pin as text: strict JSON, with the statements in it as they were published.
extension TrustPin {
    private static let format = "syncagent-pin/1"
    /// Most **bytes** of the text.
    package static let fileLimit = 4 << 20

    /// The text, with a newline at its end.
    package var file: [UInt8] {
        func text(_ statement: SignedStatement) -> String { String(decoding: statement.bytes, as: UTF8.self) }
        return statementText(Self.format, of: project) { line in
            line.field("origin", basis)
            line.time("pinned", pinned)
            line.time("looked", looked)
            line.time("seen", seen)
            line.field("serial", newest.serial)
            line.field("revision", newest.revision)
            line.field("fallen", fallen)
            line.field("root", text(root.statement))
            line.field("roots", roots.map(\.hex))
            line.field("fresh", optional: newest.fresh.map(text))
            line.field("release", optional: newest.release.map(text))
            if !channels.isEmpty {
                line.list("channels", channels.sorted(by: { $0.key < $1.key })) { pair, line in
                    let (name, track) = pair
                    line.field("channel", name)
                    line.field("serial", track.serial)
                    line.field("revision", track.revision)
                    line.field("fresh", optional: track.fresh.map(text))
                    line.field("release", optional: track.release.map(text))
                }
            }
            line.list("graces", graces) { grace, line in
                line.time("used", grace.used)
                line.time("until", grace.until)
            }
            line.field("places", places.map(\.hex))
            if !asked.isEmpty { line.field("x-asked", asked.map(text)) }
            if !made.isEmpty { line.field("x-made", made.map(\.hex)) }
            guard !penalties.isEmpty else { return }
            line.list("x-penalties", penalties) { penalty, line in
                line.field("place", penalty.place.hex)
                line.time("until", penalty.until)
            }
        }
    }

    package init(file: [UInt8]) throws(TrustFault) {
        var (basis, pinned, roots) = (Basis.file, Int64(0), [SHA256Digest]())
        var (looked, seen, fallen) = (Int64(0), Int64(0), UInt64(0))
        var (root, newest, channels) = (SignedStatement?.none, Track(), [String: Track]())
        var (graces, places, penalties) = ([Grace](), [SHA256Digest](), [Penalty]())
        var (asked, made) = ([SignedStatement](), [SHA256Digest]())
        func release(_ reader: inout StatementReader) throws(TrustFault) -> SignedStatement {
            try SignedStatement(of: .release, &reader)
        }
        func digest(_ reader: inout StatementReader) throws(TrustFault) -> SHA256Digest { try reader.digest() }
        try StatementReader.read(file, format: Self.format, required: ["root", "roots"]) {
            key, reader throws(TrustFault) in
            switch key {
            // The root has the project, too.
            case "project": _ = try reader.project()
            case "origin": basis = Basis(rawValue: try reader.string()) ?? .file
            case "pinned": pinned = try reader.time()
            case "looked": looked = try reader.time()
            case "seen": seen = try reader.time()
            case "fallen": fallen = try reader.integer()
            case "root": root = try SignedStatement(of: .root, &reader)
            case "channels":
                let read = try reader.array(most: Self.mostChannels, Track.named)
                for (name, track) in read { channels[name] = track }
            case "x-asked": asked = try reader.array(most: Self.mostAsked, release)
            case "x-made": made = try reader.array(most: Self.mostMade, digest)
            case "x-penalties": penalties = try reader.array(most: Self.mostPenalties, Penalty.read)
            case "roots": roots = try reader.array(most: Self.mostRoots, digest)
            case "places": places = try reader.array(most: Self.mostPlaces, digest)
            case "graces": graces = try reader.array(most: Self.mostGraces, Grace.read)
            default: return try newest.read(key, &reader)
            }
            return true
        }
        guard let root else { throw TrustFault("it has no root") }
        let content = try RootStatement(json: root.json)
        self.init(
            basis: basis, pinned: pinned, root: Root(statement: root, content: content), roots: roots, asked: asked)
        (self.looked, self.seen, self.fallen) = (looked, seen, fallen)
        (self.newest, self.channels, self.made) = (newest, channels, made)
        (self.graces, self.places, self.penalties) = (graces, places, penalties)
    }
}

extension SignedStatement {
    /// Reads a statement that a pin has as text.
    fileprivate init(of role: Role, _ reader: inout StatementReader) throws(TrustFault) {
        try self.init(Array(reader.string().utf8), limit: role.limit)
    }
}

extension TrustPin.Track {
    /// Reads a member of an object with a track.
    ///
    /// - Returns: Whether the key is one of a track's own.
    fileprivate mutating func read(_ key: String, _ reader: inout StatementReader) throws(TrustFault) -> Bool {
        switch key {
        case "serial": serial = try reader.integer()
        case "revision": revision = try reader.integer()
        case "fresh": fresh = try SignedStatement(of: .fresh, &reader)
        case "release": release = try SignedStatement(of: .release, &reader)
        default: return false
        }
        return true
    }

    /// Reads the track of a channel, and its name.
    fileprivate static func named(_ reader: inout StatementReader) throws(TrustFault) -> (
        name: String, track: TrustPin.Track
    ) {
        var (name, track) = ("", TrustPin.Track())
        try reader.object(required: ["channel"]) { key, reader throws(TrustFault) in
            guard key == "channel" else { return try track.read(key, &reader) }
            name = try reader.channel()
            return true
        }
        return (name, track)
    }
}

extension TrustPin.Grace {
    fileprivate static func read(_ reader: inout StatementReader) throws(TrustFault) -> TrustPin.Grace {
        var grace = TrustPin.Grace(used: 0, until: 0)
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
}

extension TrustPin.Penalty {
    fileprivate static func read(_ reader: inout StatementReader) throws(TrustFault) -> TrustPin.Penalty {
        var penalty = TrustPin.Penalty(place: .zero, until: 0)
        try reader.object(required: ["place", "until"]) { key, reader throws(TrustFault) in
            switch key {
            case "place": penalty.place = try reader.digest()
            case "until": penalty.until = try reader.time()
            default: return false
            }
            return true
        }
        return penalty
    }
}
