import CPosix
import SyncHooks
import SyncSystem

/// A running plugin, and the ends of its three pipes.
final class PluginChild {
    let program: StartedProgram
    private var writer: SharedDescriptor?
    private let outputReader: SharedDescriptor
    private let errorReader: SharedDescriptor

    /// What it reads; -1 once closed. Not blocking.
    var input: Int32 { writer?.raw ?? -1 }
    /// What it writes. Not blocking.
    var output: Int32 { outputReader.raw }
    /// What it logs. Not blocking.
    var error: Int32 { errorReader.raw }

    /// Starts a program with limits; nothing of this process but the pipes is open in it (V61).
    ///
    /// - Throws: ``ProgramError``; nothing is left running.
    init(start path: String, variables: [String], limits: PluginLimits) throws(ProgramError) {
        // A pipe has a reader that does not wait; here the plugin reads, and we must not wait when we write.
        guard let input = Pipe(), let output = Pipe(), let error = Pipe(),
            sa_set_blocking(input.reader.raw, 1) == 0, sa_set_blocking(input.writer.raw, 0) == 0
        else { throw .system("make pipes for", path, sa_errno()) }
        var start = ProgramStart([path], variables: variables)
        start.input = input.reader.raw
        start.output = output.writer.raw
        start.error = error.writer.raw
        start.mask = 0o077
        start.limits = ProgramStart.Limits(
            addressSpace: limits.addressSpace,
            data: limits.memory,
            processorTime: limits.processorTime,
            descriptors: limits.descriptors
        )
        do throws(FileError) {
            program = try withExtendedLifetime((input, output, error)) { () throws(FileError) in
                try start.start()
            }
        } catch {
            throw ProgramError(error)
        }
        writer = input.writer
        outputReader = output.reader
        errorReader = error.reader
    }

    func closeInput() { writer = nil }

    /// Ends what the leader left in its group, then takes its end: in this order the number is its own.
    func reap() -> String {
        program.signalGroup(SIGKILL)
        return switch program.reap() {
        case .exited(let status): status == 0 ? "it ended by itself" : "it ended with status \(status)"
        case .signalled(let number): "signal \(number) ended it (\(String(cString: strsignal(number))))"
        case .unknown, nil: "it ended"
        }
    }
}
