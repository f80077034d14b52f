package import SyncPlugins

package struct TransportSubject: Sendable {
    /// The URL of an object that can be fetched again and again, of at least 1,000 **bytes**, best of some hundred
    /// thousand.
    package var url: String
    /// The object's bytes where they are known.
    package var bytes: [UInt8]?
    /// A URL of the same kind under which nothing is.
    package var missing: String?

    package init(url: String, bytes: [UInt8]? = nil, missing: String? = nil) {
        self.url = url
        self.bytes = bytes
        self.missing = missing
    }
}

/// Checks a transport over an object that exists. What a server can do wrong is checked by ``SyncTestKit``'s
/// `TransportContract`; here is what holds whatever the server is.
///
/// - Parameters:
///   - subject: What to fetch.
///   - patience: Longest time for one transfer.
///   - make: Makes a transport for each rule; the rule shuts it down.
package func check(transport subject: TransportSubject, patience: Duration = .seconds(60), make: () -> any Transport)
    -> [CheckResult]
{
    var book = RuleBook()
    let whole = CheckedFetch.run(make(), subject, patience)
    let known = subject.bytes ?? whole.bytes

    book.rule(
        "An object arrives whole, in order, and is reported once",
        "Write the whole body, then close the pipe, then answer."
    ) {
        if let fault = whole.fault { return fault }
        if let bytes = subject.bytes, bytes != whole.bytes { return "its bytes differ from the object's" }
        guard let report = whole.report else { return "no report" }
        return report.bytesReceived < UInt64(whole.bytes.count) ? "it reported \(report.bytesReceived) bytes" : nil
    }
    guard whole.fault == nil, known.count >= 1_000 else {
        book.rule("The object is suitable for the other rules", "Give the URL of an object of at least 1,000 bytes.") {
            whole.fault == nil ? "it has \(known.count) bytes" : "it could not be fetched"
        }
        return book.results
    }
    let size = UInt64(known.count)
    let middle = (size / 3)..<(size / 3 * 2)

    func deliver(_ plan: CheckedFetch.Plan, _ wanted: ArraySlice<UInt8>) -> String? {
        let fetched = CheckedFetch.run(make(), subject, patience, plan)
        return fetched.fault ?? (fetched.bytes.elementsEqual(wanted) ? nil : "other bytes arrived than asked for")
    }
    book.rule("A part arrives alone, at its offset", "Honour 'range', or report status 200 and send everything.") {
        deliver(CheckedFetch.Plan(range: middle), known[Int(middle.lowerBound)..<Int(middle.upperBound)])
    }
    book.rule("The first and the last byte can be fetched alone", "'range' is half open: [0, 1] is one byte.") {
        deliver(CheckedFetch.Plan(range: 0..<1), known.prefix(1))
            ?? deliver(CheckedFetch.Plan(range: (size - 1)..<size), known.suffix(1))
    }
    book.rule("A pause holds bytes back, and all arrive after it", "A blocked write is not an error.") {
        deliver(CheckedFetch.Plan(pauses: true), known[...])
    }
    func end(_ code: TransferError.Code, most: Int = .max, _ plan: CheckedFetch.Plan) -> String? {
        let fetched = CheckedFetch.run(make(), subject, patience, plan)
        if fetched.bytes.count > most { return "\(fetched.bytes.count) bytes arrived" }
        return fetched.error?.code == code ? nil : "it ended with \(fetched.error?.code.name ?? "success")"
    }
    book.rule("No byte beyond the limit arrives", "Nothing to do for a plugin: the excess is cut off.") {
        end(.tooLarge, most: 500, CheckedFetch.Plan(limit: 500))
    }
    book.rule("A receiver that stops ends the transfer", "A closed pipe (EPIPE) is not an error.") {
        end(.stoppedBySink, CheckedFetch.Plan(stopsAfter: 1))
    }
    book.rule("A cancelled transfer ends soon", "Answer after $/cancelRequest.") {
        end(.cancelled, CheckedFetch.Plan(isCancelled: true))
    }
    book.rule("Sixteen transfers at a time arrive whole", "Handle several at a time, or report 'concurrency': 1.") {
        let transport = make()
        let all = CheckedFetch.several(16, transport, subject, patience)
        return all.compactMap(\.fault).first ?? (all.allSatisfy { $0.bytes == known } ? nil : "other bytes arrived")
    }
    if let missing = subject.missing {
        book.rule("A missing object is a failure without a byte", "Answer an error with data.code 'status-404'.") {
            let fetched = CheckedFetch.run(make(), TransportSubject(url: missing), patience)
            if !fetched.bytes.isEmpty { return "\(fetched.bytes.count) bytes arrived" }
            return fetched.error == nil ? "it succeeded" : nil
        }
    }
    return book.results
}
