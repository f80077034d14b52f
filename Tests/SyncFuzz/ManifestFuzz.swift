import SyncManifest
import SyncModel

/// Reads any bytes as a manifest. Nothing may trap or read outside the bytes, and what is accepted must keep what
/// the rest of the program relies on. Built by `run.sh`, with AddressSanitizer.
@_cdecl("LLVMFuzzerTestOneInput") public func fuzzManifest(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    var limits = ManifestLimits.standard
    limits.textBytes = 1 << 20
    // A zero byte, which no manifest has, ends a text: what follows are the texts of its parts.
    let texts = UnsafeRawBufferPointer(start: start, count: count).split(separator: 0, omittingEmptySubsequences: false)
        .map { UnsafeRawBufferPointer(rebasing: $0) }
    do throws(ManifestError) {
        if texts.count < 2 { check(try ManifestAssembly(texts[0], digest: .zero, limits: limits).finish()) }
        var assembly = try ManifestAssembly(texts[0], digest: .zero, limits: limits)
        for (text, part) in zip(texts.dropFirst(), assembly.parts) {
            for own in part.chain { _ = assembly.pack(of: own) }
            try assembly.add(text)
        }
        check(try assembly.finish())
    } catch {
        precondition(error.path.hasPrefix("$") && !error.reason.isEmpty && !error.remedy.isEmpty)
        precondition((0...count).contains(error.offset ?? 0))
        precondition(!error.description.unicodeScalars.contains(where: isUnsafeOnTerminal))
        precondition(error.description.utf8.count < 2_000)
    }
    return 0
}

private func check(_ manifest: Manifest) {
    let files = manifest.files
    for row in files.indices {
        files.withPath(row) { path in
            precondition((1...4_095).contains(path.count) && path.first != 0x2F && path.last != 0x2F)
            precondition(String(validating: path, as: UTF8.self) != nil)
            for component in path.split(separator: 0x2F, omittingEmptySubsequences: false) {
                precondition((1...255).contains(component.count))
                precondition(!component.elementsEqual(".".utf8) && !component.elementsEqual("..".utf8))
                precondition(String(decoding: component, as: UTF8.self).lowercased() != ".syncagent")
            }
            precondition(files.row(of: path) == row)
        }
        precondition(!files.path(row).unicodeScalars.contains(where: isUnsafeOnTerminal))
        if row > 0 {
            files.withPath(row - 1) { before in
                files.withPath(row) { path in
                    precondition(PathOrder.precedes(before, path) && !PathOrder.isDirectory(before, of: path))
                }
            }
        }
        checkContent(manifest, row)
    }
    precondition((files.totalSize ?? .max) <= UInt64(Int64.max))
    precondition(Set(files.indices.map(files.path)).count == files.count)
    for group in manifest.groups { precondition(manifest.files.rows(of: group).count <= files.count) }
    _ = manifest.caseCollisions()
}

private func checkContent(_ manifest: Manifest, _ row: Int) {
    let files = manifest.files
    let blobs = files.blobs(row)
    var sum: UInt64 = 0
    for blob in blobs {
        precondition(blob.range.upperBound <= manifest.packs[Int(blob.pack)].size && !blob.range.isEmpty)
        precondition(blobs.count == 1 || blob.digestIndex != nil)
        sum += blob.rawLength
        _ = files.digest(of: blob, in: row)
    }
    switch files.kind(row) {
    case .link:
        precondition(blobs.isEmpty && files.size(row) == 0 && files.urls(row).isEmpty)
        precondition(files.linkTarget(row)?.isEmpty == false && files.linkTarget(row)?.hasPrefix("/") == false)
    case .file, .executable:
        precondition(blobs.isEmpty || sum == files.size(row))
        precondition(files.size(row) == 0 || !blobs.isEmpty || !files.urls(row).isEmpty)
        for url in files.urls(row) { precondition(url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x5C }) }
    }
}
