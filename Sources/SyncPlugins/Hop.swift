import SyncModel

/// A step of a transfer from one URL to the next. URLs are redacted.
public struct Hop: Sendable, Equatable {
    /// Why a request goes elsewhere.
    public enum Cause: Sendable, Equatable {
        /// An answer pointed there.
        case redirect(status: Int)
        /// A rewriting rule, its place counted from 1.
        case rule(Int)
        /// A resolver, by name.
        case resolver(String)
        /// The transfer asks another of its URLs than before, or begins with another than the first.
        case mirror
    }

    /// Why the request goes elsewhere.
    public var cause: Cause
    /// The URL before it.
    public var from: String
    /// The URL after it.
    public var to: String
    /// The redirects of the request by then, this one included.
    public var number: Int
    /// Whether the step is remembered from an earlier request.
    public var isRemembered: Bool

    /// See the properties.
    public init(_ cause: Cause, from: String, to: String, number: Int = 0, isRemembered: Bool = false) {
        (self.cause, self.from, self.to) = (cause, from, to)
        (self.number, self.isRemembered) = (number, isRemembered)
    }

    /// Why, in words: `redirect 302`, `redirect 302, remembered`, `rewrite, rule 1`, `rewrite, plugin NAME`, `mirror`.
    public var reason: String {
        switch cause {
        case .redirect(let status): "redirect \(status)" + (isRemembered ? ", remembered" : "")
        case .rule(let place): "rewrite, rule \(place)"
        case .resolver(let name): "rewrite, plugin \(escaped(name))"
        case .mirror: "mirror"
        }
    }
}
