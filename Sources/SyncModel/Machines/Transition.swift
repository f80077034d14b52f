/// What a life cycle answers to an input: pure, for the caller to carry out.
package enum Transition<State: Sendable & Equatable>: Sendable, Equatable {
    /// Go there.
    case to(State)
    /// Nothing to do: the input asks for what is already so, or comes too late to matter.
    case stays
    /// The input makes no sense here; the caller is told and nothing changes.
    case refused
}
