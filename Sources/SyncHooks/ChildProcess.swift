import CPosix
import SyncPlugins
import SyncSystem

/// A hook's program that has been started, with the reading end of its output.
struct ChildProcess {
    let program: StartedProgram
    /// Standard output and error in one, so that their order is kept. Not blocking.
    var output: Int32 { reader.raw }
    private let reader: SharedDescriptor

    /// Starts the invocation's program.
    ///
    /// - Throws: ``ProgramError``; nothing is left running.
    init(start invocation: HookInvocation, environment: HookEnvironment) throws(ProgramError) {
        let path = try resolveProgram(
            invocation.arguments.first ?? "",
            relativeTo: "/",
            destination: invocation.directory
        )
        guard let directory = openDirectory(invocation.directory) else {
            throw .system("open the destination", invocation.directory, sa_errno())
        }
        let input: Descriptor
        do throws(FileError) {
            input = try unnamedFile("syncagent-report", holding: invocation.input)
        } catch {
            throw .system("keep a report for", "a hook", error.code)
        }
        guard let pipe = Pipe() else { throw .system("make a pipe for", path, sa_errno()) }
        var start = ProgramStart(invocation.arguments, variables: environment.variables(for: invocation))
        start.program = path
        start.directory = directory.raw
        start.input = input.raw
        start.output = pipe.writer.raw
        do throws(FileError) {
            program = try withExtendedLifetime(pipe) { () throws(FileError) in try start.start() }
        } catch {
            throw ProgramError(error)
        }
        reader = pipe.reader
    }
}
