package import SyncPlugins
package import SyncSystem

/// What a plugin's process may take up and how long it may take.
package struct PluginLimits: Sendable {
    /// From a start to its `initialize` answer.
    package var start = Duration.seconds(10)
    /// From a request to its answer, where the caller says nothing else.
    package var request = Duration.seconds(30)
    /// How many times ``request`` a request may take that tells progress.
    package var progressFactor = 10
    /// From a deadline to the plugin's end, when it has answered nothing since.
    package var grace = Duration.seconds(5)
    /// For each step of an end: asked to shut down, input closed, SIGTERM, SIGKILL.
    package var shutdown = Duration.seconds(2)
    /// What the system lets each of its processes have.
    package var process = ProgramStart.Limits(data: 1 << 30, processorTime: 3600, descriptors: 1024)
    /// Most **bytes** of a line in either direction.
    package var line = 1 << 20
    /// Lines that are no message, after which the process is ended.
    package var garbageLines = 100
    /// **Bytes** of output that nobody asked for: at once, and each second.
    package var unasked = Allowance(most: 4 << 20, perSecond: 256 << 10)
    /// Lines of standard error that are told: at once, and each second.
    package var errorLines = Allowance(most: 100, perSecond: 10)
    /// Requests that are on their way at a time.
    package var requests = 1024
    /// **Bytes** that wait to be written to it.
    package var queue = 8 << 20
}

/// One use of a plugin: which program, for which point, with which settings.
package struct PluginConfiguration: Sendable {
    package var program: PluginProgram
    /// What it extends; `nil` only asks what it can.
    package var point: PluginPoint?
    /// Its own settings: the text of a JSON object.
    package var settings = "{}"
    package var limits = PluginLimits()
    package var restart = RestartPolicy()
    /// This process's variables; the plugin gets the few that a hook gets.
    package var environment: [String: String]
    /// The tree nothing may be run from; `nil` when nothing is pulled.
    package var destination: String?
    /// Absolute; where it gets a private directory for reports and pipes. Not the destination.
    package var runtimeDirectory = "/tmp"
    package var version: String
    /// Told of what happens; called from the plugin's thread, and must not block.
    package var notice: @Sendable (PluginNotice) -> Void
    package var startThread = WorkerThread.system

    package init(
        program: PluginProgram, point: PluginPoint?, environment: [String: String], version: String,
        notice: @escaping @Sendable (PluginNotice) -> Void
    ) {
        (self.program, self.point, self.environment, self.version) = (program, point, environment, version)
        self.notice = notice
    }
}
