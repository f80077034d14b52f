import Dispatch
import SyncModel
import SyncPlugins
import SyncSystem

package struct CheckResult: Sendable, Equatable {
    /// The rule that was checked.
    package var rule: String
    /// How the plugin broke it; `nil` if it passed.
    package var failure: String?
    /// Advice for the plugin's author.
    package var advice: String

    package var passed: Bool { failure == nil }
}

extension [CheckResult] {
    /// Checks one more rule; `body` returns the fault, or `nil`.
    mutating func rule(_ rule: String, _ advice: String, _ body: () -> String?) {
        append(CheckResult(rule: rule, failure: body(), advice: advice))
    }

    /// The broken rules, one line each; for tests.
    package var failures: [String] { compactMap { result in result.failure.map { "\(result.rule): \($0)" } } }
}

/// The fault of a text that goes into one line of a request; `nil` for none.
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

/// Runs a function on several threads at once; returns the first fault.
func together(_ count: Int, _ body: @Sendable (Int) -> String?) -> String? {
    let faults = Mutex<[String]>([])
    DispatchQueue.concurrentPerform(iterations: count) { number in
        if let fault = body(number) { faults.withLock { $0.append(fault) } }
    }
    return faults.withLock { $0.first }
}
