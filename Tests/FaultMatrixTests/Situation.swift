import Foundation
import SyncTestKit

/// Where a transfer stands when the fault hits it: how far an earlier one came, and what the object is.
struct Situation: Sendable, CustomStringConvertible {
    /// How many bytes of the wanted ones are here already.
    enum Resume: String, Sendable, CaseIterable {
        /// None, and nothing is known of the object.
        case fresh
        /// None, but its validator is known.
        case atZero = "at 0"
        case atOne = "at 1 byte"
        case atHalf = "at half"
        case atLast = "at size - 1"
        /// All of them.
        case atEnd = "at size"

        /// **Bytes** here already, of `count`.
        func here(of count: Int) -> Int {
            switch self {
            case .fresh, .atZero: 0
            case .atOne: 1
            case .atHalf: count / 2
            case .atLast: count - 1
            case .atEnd: count
            }
        }
    }

    /// What is fetched.
    enum Shape: String, Sendable, CaseIterable {
        /// The middle of a larger object.
        case span = "pack span"
        /// An object of its own.
        case loose = "loose file"
    }

    let resume: Resume
    let shape: Shape

    /// Every situation; with `SYNCAGENT_TEST_SITUATIONS=few` the two that differ most, for slow builds.
    static let all = Shape.allCases.flatMap { shape in
        (isFew ? [.fresh, .atHalf] : Resume.allCases).map { Situation(resume: $0, shape: shape) }
    }

    static let isFew = ProcessInfo.processInfo.environment["SYNCAGENT_TEST_SITUATIONS"] == "few"

    var description: String { "\(shape.rawValue), \(resume.rawValue)" }

    /// The object that the server has.
    static let object = ServedObject.patterned(size: 160_000, seed: 11)
    /// The object of which only a part is wanted, and which part.
    static let wantedOfSpan = 30_000..<130_000

    /// Which **bytes** of the object are wanted in all.
    var wanted: Range<Int> { shape == .span ? Self.wantedOfSpan : 0..<Self.object.bytes.count }

    /// **Bytes** of ``wanted`` that are here already.
    var here: Int { resume.here(of: wanted.count) }

    /// Whether a good transport asks with `Range`.
    var asksForRange: Bool { shape == .span || ![.fresh, .atZero, .atEnd].contains(resume) }

    /// Whether nothing is missing, so that an answer of any kind will do.
    var isDone: Bool { resume == .atEnd }
}
