import Dispatch
import SyncModel
import SyncPlugins
import SyncSystem

package struct CheckResult: Sendable, Equatable {
    /// What a good plugin does.
    package var rule: String
    /// What this one did instead; `nil` when it kept the rule.
    package var failure: String?
    /// What its author can do about it.
    package var advice: String

    package var passed: Bool { failure == nil }
}

extension [CheckResult] {
    /// Tries one more rule; `body` says what was wrong, or nothing.
    mutating func rule(_ rule: String, _ advice: String, _ body: () -> String?) {
        append(CheckResult(rule: rule, failure: body(), advice: advice))
    }

    /// The rules that were not kept, one line each; for tests.
    package var failures: [String] { compactMap { result in result.failure.map { "\(result.rule): \($0)" } } }
}

/// What is wrong with a text that goes into one line of a request; `nil` for nothing.
func lineFault(_ text: String, _ what: String) -> String? {
    text.isOneLine ? nil : "\(what) has a control character in it"
}

func headerFault(_ fields: [HeaderField]) -> String? {
    for field in fields {
        guard !field.name.isEmpty, field.name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x3A }) else {
            return "a header's name is not a token (RFC 9110, section 5.6.2)"
        }
        if let fault = lineFault(field.value, "the header \(field.name)") { return fault }
    }
    return nil
}

/// Runs something on several threads at once; the first fault there was.
func together(_ count: Int, _ body: @Sendable (Int) -> String?) -> String? {
    let faults = Mutex<[String]>([])
    DispatchQueue.concurrentPerform(iterations: count) { number in
        if let fault = body(number) { faults.withLock { $0.append(fault) } }
    }
    return faults.withLock { $0.first }
}
