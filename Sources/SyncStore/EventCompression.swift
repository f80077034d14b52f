/// Makes stored events smaller; given from outside, so that the store needs no compressor of its own.
package struct EventCompression: Sendable {
    /// `nil` where it does not pay or does not work; the bytes are then kept as they are.
    package var compress: @Sendable (_ bytes: [UInt8]) -> [UInt8]?
    /// `nil` for bytes that ``compress`` did not make.
    package var decompress: @Sendable (_ bytes: [UInt8], _ limit: Int) -> [UInt8]?

    package init(
        compress: @escaping @Sendable (_ bytes: [UInt8]) -> [UInt8]?,
        decompress: @escaping @Sendable (_ bytes: [UInt8], _ limit: Int) -> [UInt8]?
    ) {
        self.compress = compress
        self.decompress = decompress
    }
}
