import SyncModel
import SyncTrust

/// Reads any bytes as what stands in `trust/`, as a pin, and as a key file. Nothing may trap or read outside the bytes, and what
/// is accepted must come back as it was. Built by `run.sh`, with AddressSanitizer.
@_cdecl("LLVMFuzzerTestOneInput") public func fuzzStatement(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    check { () throws(TrustFault) in
        let statement = try SignedStatement(bytes, limit: Role.root.limit)
        precondition(statement.bytes == bytes && bytes.suffix(statement.json.count) == statement.json[...])
        let again = try SignedStatement(statement.signatures, json: statement.json)
        precondition(again.json == statement.json)
        contents(statement.json)
    }
    contents(bytes)
    check { () throws(TrustFault) in
        let pin = try TrustPin(file: bytes)
        let again = try TrustPin(file: pin.file)
        precondition(again == pin)
    }
    check { () throws(TrustFault) in
        let text = String(decoding: bytes, as: UTF8.self)
        let half = try PrivateKey.halves(of: text)
        let key = try PrivateKey(file: text)
        precondition(key.publicKey == half.key && !half.isEncrypted)
    }
    return 0
}

private func contents(_ json: [UInt8]) {
    check { () throws(TrustFault) in
        let root = try RootStatement(json: json)
        let again = try RootStatement(json: root.json)
        precondition(again == root && root.number > 0)
        for role in Role.allCases { precondition((1...root[role].keys.count).contains(root[role].threshold)) }
    }
    check { () throws(TrustFault) in
        let release = try ReleaseStatement(json: json)
        let again = try ReleaseStatement(json: release.json)
        precondition(again == release && release.revision > 0)
    }
    check { () throws(TrustFault) in
        let fresh = try FreshStatement(json: json)
        let again = try FreshStatement(json: fresh.json)
        precondition(again == fresh && fresh.serial > 0 && fresh.root > 0)
    }
}

private func check(_ read: () throws(TrustFault) -> Void) {
    do throws(TrustFault) { try read() } catch {
        precondition(!error.reason.isEmpty && error.reason.utf8.count < 2_000)
        precondition(!error.reason.unicodeScalars.contains(where: isUnsafeOnTerminal))
    }
}
