import CPosix
package import SyncPlugins
import SyncSystem

/// Shows each file to a program before it takes its name: 0 accept, 1 refuse, anything else that it could not tell.
package struct ProgramVerifier: FileVerifier {
    private let program: SmallProgram

    /// Longest time for one file, unless something else is said.
    package static let limit = Duration.seconds(60)

    /// - Parameter program: With the limit for one file.
    package init(_ program: SmallProgram) { self.program = program }

    package func verify(_ files: [StagedFile]) -> [FileVerdict] { files.map(verdict) }

    private func verdict(_ file: StagedFile) -> FileVerdict {
        guard let bytes = Descriptor(opened: sa_openat(AT_FDCWD, file.stagedPath, O_RDONLY | O_NOFOLLOW, 0))
        else {
            return .unchecked(reason: "it cannot be shown to \(program.name): \(errorText(sa_errno()))")
        }
        let answer = program.ask(
            reading: bytes.raw,
            variables: [
                "SYNCAGENT_PATH=\(file.path)", "SYNCAGENT_FILE=\(file.stagedPath)",
                "SYNCAGENT_SIZE=\(file.size)",
                "SYNCAGENT_SHA256=\(file.sha256)",
            ]
        )
        return switch answer {
        case .yes: .accepted
        case .no(let reason): .refused(reason: reason ?? "\(program.name) refuses it")
        case .trouble(let reason): .unchecked(reason: "\(program.name): \(reason)")
        }
    }
}
