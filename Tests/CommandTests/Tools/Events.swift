import CommandTestSupport
import Testing

extension Tool.Outcome {
    /// The JSON lines on standard output, which must give no reason to complain.
    func events(sourceLocation: SourceLocation = #_sourceLocation) throws -> [[String: Any]] {
        #expect(complaints == [], sourceLocation: sourceLocation)
        return try objects()
    }
}
