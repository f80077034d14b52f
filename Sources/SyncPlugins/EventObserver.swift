/// An event, as it is printed and kept.
public struct ObservedEvent: Sendable, Equatable {
    /// Such as `group.completed`.
    public var name: String
    /// The event as one line of JSON, without a line end.
    public var json: String

    /// Makes an event; see the properties.
    public init(name: String, json: String) {
        self.name = name
        self.json = json
    }
}

/// Is told of events: metrics, chat, a journal elsewhere.
///
/// It is never waited for: events queue up to a bound, and what does not fit is dropped and counted. When it fails,
/// a warning is told once.
public protocol EventObserver: Sendable {
    /// Takes events in their order; blocks a thread of its own.
    func observe(_ events: [ObservedEvent]) throws(PluginError)
}
