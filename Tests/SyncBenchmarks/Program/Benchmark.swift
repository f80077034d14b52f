/// One inner piece, what it works on, and what it may cost.
///
/// Times are told and never judged: they depend on the machine and on the moment. What is judged are counts, which are
/// the same on every machine for the same code and input.
struct Benchmark: Sendable {
    /// What one run of the piece did, beside the time it took.
    typealias Counts = [String: Double]

    let name: String
    /// What `work` counts: bytes or things.
    let unit: Unit
    /// Units that one run handles.
    let work: Double
    /// What counts must lie in, by name; a count that is missing is a failure.
    let limits: [Limit]
    /// Makes the input and returns one run. Not timed, not counted.
    let prepare: @Sendable () throws -> () throws -> Counts

    enum Unit: Sendable {
        case bytes
        case things(String)
    }

    init(
        _ name: String, unit: Unit, work: Double, limits: [Limit],
        prepare: @escaping @Sendable () throws -> () throws -> Counts
    ) {
        self.name = name
        self.unit = unit
        self.work = work
        self.limits = limits
        self.prepare = prepare
    }
}

/// A threshold on a count.
struct Limit: Sendable {
    let count: String
    let range: ClosedRange<Double>

    /// At most so many; a build without optimisation may need more.
    static func most(_ count: String, _ limit: Double, debug: Double? = nil) -> Limit {
        Limit(count: count, range: 0...(isDebug ? debug ?? limit : limit))
    }

    /// Exactly so many: another number means that the result has changed.
    static func exactly(_ count: String, _ number: Double) -> Limit { Limit(count: count, range: number...number) }
}

#if DEBUG
    let isDebug = true
#else
    let isDebug = false
#endif

/// A piece that did not do what it is measured for.
struct WrongResult: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
