import SyncEngine
import SyncModel
import SyncPluginProcess
import SyncPlugins

/// Tells what plugins do besides answering, as events that belong to no run's record.
struct PluginTeller: Sendable {
    private let listener: @Sendable (SyncEvent) -> Void

    init(_ listener: @escaping @Sendable (SyncEvent) -> Void) { self.listener = listener }

    /// One line for people.
    static func line(_ notice: PluginNotice) -> String { "plugin \(notice.plugin): \(notice.text)" }

    func tell(_ notice: PluginNotice) {
        listener(
            SyncEvent("plugin.notice", time: EngineAssembly.milliseconds(), note: Self.line(notice)) {
                $0.field("plugin", notice.plugin)
                $0.field("kind", notice.kind.rawValue)
                $0.field("text", notice.text)
            }
        )
    }
}
