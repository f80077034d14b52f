import COpenSSL

/// Base64 with its padding. RFC 4648 section 4, EVP_EncodeBlock(3).
package func base64(_ bytes: [UInt8]) -> String {
    // A NUL is written after the last digit.
    String(unsafeUninitializedCapacity: (bytes.count + 2) / 3 * 4 + 1) { buffer in
        Int(EVP_EncodeBlock(buffer.baseAddress, bytes, Int32(bytes.count)))
    }
}

/// The bytes of a Base64 text; `nil` unless the text is exactly their encoding.
package func bytesOfBase64(_ text: some Sequence<UInt8>) -> [UInt8]? {
    let digits = Array(text)
    guard let count = Int32(exactly: digits.count) else { return nil }
    let padding = digits.suffix(2).count { $0 == UInt8(ascii: "=") }
    let bytes = [UInt8](unsafeUninitializedCapacity: digits.count / 4 * 3) { buffer, used in
        used = max(0, Int(EVP_DecodeBlock(buffer.baseAddress, digits, count)) - padding)
    }
    // EVP_DecodeBlock skips white space, and accepts other characters in place of padding.
    return base64(bytes).utf8.elementsEqual(digits) ? bytes : nil
}
