import SyncModel
import SyncPlugins
package import SyncSystem

/// Why a program cannot be a hook, or could not be started.
package struct ProgramError: Error, Sendable, Equatable {
    package enum Code: Sendable, Equatable {
        /// Nothing exists at the path.
        case missing
        /// It may not be executed, or is not a program.
        case notExecutable
        /// It is not a regular file.
        case notAFile
        /// It is inside the destination tree: a pulled file must never run as a hook.
        case insideDestination
        /// Another user could replace it.
        case changeable
        /// A text that no system call accepts: empty, or with a NUL.
        case unusable
        /// The system temporarily lacks processes, memory or descriptors.
        case exhausted
        /// Any other error of the system.
        case system(Errno)
    }

    package let code: Code
    /// The program or directory concerned, as given.
    package let subject: String
    /// One sentence that says what happened and, if possible, what to do.
    package let message: String

    package init(code: Code, subject: String, message: String) {
        (self.code, self.subject, self.message) = (code, subject, message)
    }

    /// The error of the system for a step with `subject`.
    package static func system(_ step: String, _ subject: String, _ reason: Errno) -> ProgramError {
        let code: Code =
            switch reason {
            case .noSuchFileOrDirectory, .notDirectory: .missing
            case .permissionDenied, .execFormatError, .notPermitted: .notExecutable
            case .resourceTemporarilyUnavailable, .noMemory, .tooManyOpenFiles, .tooManyOpenFilesInSystem,
                .textFileBusy:
                .exhausted
            default: .system(reason)
            }
        let hint =
            switch reason {
            case .execFormatError: " A script needs a first line such as #!/bin/sh."
            case .permissionDenied: " Check its permissions (chmod +x)."
            case .noSuchFileOrDirectory where step == "run" && status(following: subject) != nil:
                " It is there; the interpreter that it names is not."
            default: ""
            }
        return ProgramError(
            code: code, subject: subject, message: "Cannot \(step) '\(escaped(subject))': \(reason).\(hint)")
    }

    package init(_ error: FileError) {
        if let remark = error.remark {
            self.init(code: .unusable, subject: error.path, message: remark)
        } else {
            self = .system(error.step, error.path, error.code ?? .ioError)
        }
    }

    var outcome: HookOutcome {
        let isExhaustion = code == .exhausted
        return HookOutcome(
            end: .notStarted(message), output: "", milliseconds: 0, isTransient: isExhaustion,
            isExhaustion: isExhaustion)
    }
}

extension ProgramError: CustomStringConvertible { package var description: String { message } }
