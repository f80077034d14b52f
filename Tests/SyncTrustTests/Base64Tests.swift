import SyncContent
import Testing

@testable import SyncTrust

@Suite("Base64", .timeLimit(.minutes(10)))
struct Base64Tests {
    /// RFC 4648, section 10.
    @Test(
        "The examples of RFC 4648 are written and read",
        arguments: [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ])
    func examples(plain: String, text: String) {
        #expect(base64(Array(plain.utf8)) == text)
        #expect(bytesOfBase64(text.utf8) == Array(plain.utf8))
    }

    @Test(
        "Only the one text that bytes have is read: no blanks, nothing under the padding, no other letters",
        arguments: [
            "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "=", "Zg==Zg==", "Z=g=", "Zm=v", " Zm9v", "Zm9v ",
            "Zm9v\n", "\nZm9", "Zm 9v", "Zm9v    ", "Zm9v\r\n\r\n", "Zm-v", "Zm_v", "Zm9vYg", "Zm9\0",
        ])
    func others(text: String) { #expect(bytesOfBase64(text.utf8) == nil) }
}
