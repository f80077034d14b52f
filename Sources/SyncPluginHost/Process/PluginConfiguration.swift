package import SyncPlugins
package import SyncSystem

/// The limits on a plugin's resources and time.
package struct PluginLimits: Sendable {
    /// From a start to the answer to `initialize`.
    package var start = Duration.seconds(10)
    /// From a request to its answer, unless the caller sets another time.
    package var request = Duration.seconds(30)
    /// Longest time of a request that reports progress, as a multiple of ``request``.
    package var progressFactor = 10
    /// From a missed deadline to the end of a plugin that has answered nothing since.
    package var grace = Duration.seconds(5)
    /// For each step of a shutdown: request, input closed, SIGTERM, SIGKILL.
    package var shutdown = Duration.seconds(2)
    /// Resource limits of each of its processes.
    package var process = ProgramStart.Limits(data: 1 << 30, processorTime: 3600, descriptors: 1024)
    /// Most **bytes** of a line in either direction.
    package var line = 1 << 20
    /// Invalid lines after which the process is ended.
    package var garbageLines = 100
    /// **Bytes** of unsolicited output: at once, and each second.
    package var unasked = Allowance(most: 4 << 20, perSecond: 256 << 10)
    /// Lines of standard error that are reported: at once, and each second.
    package var errorLines = Allowance(most: 100, perSecond: 10)
    /// Most requests in progress at a time.
    package var requests = 1024
    /// Most **bytes** waiting to be written to it.
    package var queue = 8 << 20
}

/// One use of a plugin: its program, point and settings.
package struct PluginConfiguration: Sendable {
    package var program: PluginProgram
    /// The point that it serves; `nil` only to query its points.
    package var point: PluginPoint?
    /// Its own settings: the text of a JSON object.
    package var settings = "{}"
    package var limits = PluginLimits()
    package var restart = RestartPolicy()
    /// This process's variables; the plugin gets the same few as a hook.
    package var environment: [String: String]
    /// The tree from which nothing may run; `nil` if nothing is pulled.
    package var destination: String?
    /// Absolute; the parent of its private directory for reports and pipes. Not the destination.
    package var runtimeDirectory = "/tmp"
    package var version: String
    /// Receives notices, on the plugin's thread; must not block.
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
