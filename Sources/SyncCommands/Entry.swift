import ArgumentParser
import Foundation
import SyncControl
import SyncEngine
import SyncModel

/// The process's entry: parses the command line, runs the verb, exits with its status.
package func runSyncagent() async -> Never {
    StopSignals.ignoreBrokenPipes()
    boundHeaps(processors: ProcessInfo.processInfo.activeProcessorCount)
    do {
        var command = try SyncagentCommand.parseAsRoot()
        if var asynchronous = command as? any AsyncParsableCommand {
            try await asynchronous.run()
        } else {
            try command.run()
        }
        exit(ExitStatus.done.rawValue)
    } catch let failure as CommandFailure {
        if !failure.message.isEmpty { Output().error(failure.message) }
        exit(failure.status.rawValue)
    } catch let error as ControlError {
        Output().error(error.message)
        exit(error.exitStatus.rawValue)
    } catch {
        // Wrong arguments, and --help and --version, which end a parse by throwing.
        SyncagentCommand.exit(withError: error)
    }
}
