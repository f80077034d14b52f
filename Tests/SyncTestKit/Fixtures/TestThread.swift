import SyncSystem

/// Starts a thread of a server: servers block in system calls, which a task's thread must not do.
func startServerThread(_ body: @escaping @Sendable () -> Void) throws(TestKitError) -> WorkerThread {
    do throws(ThreadError) {
        return try WorkerThread(name: "test-server") {
            // OpenSSL writes with write(2), which would end the process when a client has gone.
            CurrentProcess.blockPipeSignal()
            body()
        }
    } catch { throw TestKitError(error.description) }
}
