package import ArgumentParser

/// `syncagent`: the one executable.
package struct SyncagentCommand: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "syncagent",
        abstract: "Bring exactly the files a project names onto this machine, verified, in a handful of requests."
    )

    package init() {}
}

/// The process's entry: parses the command line, runs the verb, exits with its status.
package func runSyncagent() async { await SyncagentCommand.main() }
