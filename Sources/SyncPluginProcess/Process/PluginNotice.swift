/// What is told about a plugin besides its answers.
package struct PluginNotice: Sendable, Equatable {
    /// What kind of thing it is.
    package enum Kind: String, Sendable {
        /// A line that the plugin wrote to standard error.
        case output
        /// It did something the protocol does not allow; it goes on.
        case warning
        /// It ended, or was ended; it is started again when it is asked for.
        case ended
        /// It is not started again.
        case givenUp
    }

    /// The plugin's name.
    package var plugin: String
    package var kind: Kind
    /// One line for people, safe for a terminal.
    package var text: String
}
