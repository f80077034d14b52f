import ArgumentParser
import CPosix
import Foundation
import SyncControl
import SyncControlServer
import SyncEngine
import SyncModel
import SyncSystem

/// The process's entry: parses the command line, runs the verb, exits with its status.
///
/// Not an asynchronous `main`: that starts libdispatch's threads, and the agent does without (``TaskThreads``).
package func runSyncagent() -> Never {
    StopSignals.ignoreBrokenPipes()
    boundHeaps(processors: ProcessInfo.processInfo.activeProcessorCount)
    do {
        let words = WeeklyWords.joined(arguments())
        try VerbCheck.check(words)
        var command = try SyncagentCommand.parseAsRoot(words)
        guard let asynchronous = command as? any AsyncParsableCommand else {
            try command.run()
            exit(ExitStatus.done.rawValue)
        }
        // libdispatch's pool reads /proc once a second, and ends the process where it is not mounted.
        if command is AgentRunCommand || access("/proc/self/stat", R_OK) != 0 { TaskThreads.takeOver() }
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

/// The arguments, without the program's name. Swift's own need /proc; without it every one would be lost.
private func arguments() -> [String] {
    var count: Int32 = 0
    guard let first = sa_arguments(&count) else {
        return keptArguments() ?? Array(CommandLine.arguments.dropFirst())
    }
    return (1..<max(1, Int(count))).compactMap { first[$0].map { String(cString: $0) } }
}

/// The arguments as the kernel keeps them. proc(5). A library that was loaded before us, such as faketime's, may have put the
/// environment elsewhere; then Swift finds them no more than we do.
private func keptArguments() -> [String]? {
    guard let file = FileHandle(forReadingAtPath: "/proc/self/cmdline"),
        let bytes = try? file.readToEnd(), bytes.last == 0
    else { return nil }
    return bytes.dropLast().split(separator: 0, omittingEmptySubsequences: false).dropFirst().map {
        String(decoding: $0, as: UTF8.self)
    }
}

private func exit(because error: any Error) -> Never {
    switch error {
    case let failure as CommandFailure:
        // Help in place of an error needs no name before it.
        if failure.message.hasPrefix("OVERVIEW:") {
            Output().message(HelpText.arranged(failure.message))
        } else if !failure.message.isEmpty {
            Output().error(failure.message)
        }
        exit(failure.status.rawValue)
    case let error as ControlError:
        Output().error(error.message)
        exit(error.exitStatus.rawValue)
    case let error as ThreadError:
        Output().error("\(error)")
        exit(ExitStatus.ioError.rawValue)
    default:
        // Wrong arguments, and --help and --version, which end a parse by throwing.
        let words = arguments()
        if words.first == "pull", words.contains("--json") { PullEnd().tell(error, on: Output()) }
        guard SyncagentCommand.exitCode(for: error).isSuccess else { SyncagentCommand.exit(withError: error) }
        Output().line(HelpText.arranged(SyncagentCommand.fullMessage(for: error)))
        exit(ExitStatus.done.rawValue)
    }
}
