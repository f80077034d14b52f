import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PathOrderTests {
    /// In order.
    private static let paths = [
        "", "a", "a/", "a/\u{1}", "a/b", "a/b/c", "a/b!", "a/é", "a\u{1}", "a!", "a-/x", "a.txt", "a0", "aa", "b", "é",
        "日",
    ]

    @Test("A directory comes directly before what is in it, whatever other names start like it [F107]")
    func total() {
        for (i, a) in Self.paths.enumerated() {
            for (j, b) in Self.paths.enumerated() {
                let difference = Self.compare(a, b)
                #expect(difference.signum() == (i - j).signum(), "\(a) \(b)")
                #expect(Self.with(a, b, PathOrder.precedes) == (i < j))
            }
        }
    }

    @Test(
        "A directory is told by its slash, not by its letters [V12]",
        arguments: [
            ("a", "a/b", true), ("a", "a/b/c", true), ("a/b", "a/b/c", true), ("dst", "dst-evil/x", false),
            ("a", "a", false), ("a/b", "a", false), ("a", "b/a", false), ("ab", "a/b", false),
        ])
    func directories(_ parent: String, _ child: String, _ expected: Bool) {
        #expect(Self.with(parent, child, PathOrder.isDirectory(_:of:)) == expected)
    }

    private static func compare(_ a: String, _ b: String) -> Int { with(a, b, PathOrder.compare) }

    private static func with<R>(
        _ a: String, _ b: String, _ body: (UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>) -> R
    ) -> R {
        Array(a.utf8).withUnsafeBufferPointer { first in Array(b.utf8).withUnsafeBufferPointer { body(first, $0) } }
    }
}
