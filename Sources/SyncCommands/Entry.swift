import ArgumentParser
import Foundation
import SyncControl
import SyncControlServer
import SyncEngine
import SyncModel

/// The process's entry: parses the command line, runs the verb, exits with its status.
///
/// Not an asynchronous `main`: that starts libdispatch's threads, and the agent does without (``TaskThreads``).
package func runSyncagent() -> Never {
    StopSignals.ignoreBrokenPipes()
    boundHeaps(processors: ProcessInfo.processInfo.activeProcessorCount)
    do {
        var command = try SyncagentCommand.parseAsRoot()
        guard let asynchronous = command as? any AsyncParsableCommand else {
            try command.run()
            exit(ExitStatus.done.rawValue)
        }
        if command is AgentRunCommand { TaskThreads.takeOver() }
        Task {
            var command = asynchronous
            do {
                try await command.run()
                exit(ExitStatus.done.rawValue)
            } catch {
                exit(because: error)
            }
        }
        // The task ends the process; signals only interrupt the wait.
        while true { pause() }
    } catch {
        exit(because: error)
    }
}

private func exit(because error: any Error) -> Never {
    switch error {
    case let failure as CommandFailure:
        if !failure.message.isEmpty { Output().error(failure.message) }
        exit(failure.status.rawValue)
    case let error as ControlError:
        Output().error(error.message)
        exit(error.exitStatus.rawValue)
    default:
        // Wrong arguments, and --help and --version, which end a parse by throwing.
        SyncagentCommand.exit(withError: error)
    }
}
