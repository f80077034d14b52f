import Foundation

/// Writes every byte to a descriptor, however many calls it takes. write(2)
///
/// - Returns: Whether all were taken; `errno` says why not.
func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    bytes.withUnsafeBytes { buffer in
        var rest = buffer[...]
        while !rest.isEmpty {
            let next = UnsafeRawBufferPointer(rebasing: rest)
            let count = write(descriptor, next.baseAddress, next.count)
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                return false
            }
        }
        return true
    }
}
