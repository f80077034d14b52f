/// Whether a text is HTML or the like, which no manifest is: that is JSON, or a zstd frame.
package func isWebPage(_ text: some Sequence<UInt8>) -> Bool {
    let space: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF]
    return text.first { !space.contains($0) } == 0x3C
}
