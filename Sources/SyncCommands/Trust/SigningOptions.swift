import ArgumentParser
import Foundation
import SyncAssembly
import SyncModel
import SyncPluginHost
import SyncPublisher
import SyncSystem
import SyncTrust

/// The signer, and the validity of what is signed.
struct SigningOptions: ParsableArguments {
    @Option(help: "Sign with the keys in this directory; see 'syncagent keys'.".taking("dir"), completion: .directory)
    var sign: String?

    @Option(
        help:
            "A program that signs: it gets the namespace as its argument and the bytes on standard input, and writes a signature block like ssh-keygen -Y sign."
            .taking("program"), completion: .file())
    var signer: String?

    @Option(help: "How long the release stays valid as the newest, such as 30d.".taking("time"), transform: validity)
    var until: Int64?

    func validate() throws {
        if sign?.isEmpty == true { throw ValidationError("--sign needs a directory, not an empty string.") }
        guard sign == nil, signer == nil else { return }
        if until != nil { throw ValidationError("--until needs --sign.") }
    }

    /// A signing program with its environment. One that cannot be run, or that others could change, is refused.
    static func program(_ signer: String?) throws -> (path: String, variables: [String])? {
        guard let signer else { return nil }
        let path = try EnvironmentPaths.ofProcess.absoluteProgram(signer, option: "--signer")
        do throws(ProgramError) { try physicalProgram(path, role: "signing program", destination: nil) } catch {
            // Before anything is published: a manifest that is in place and not signed is of no use to pinned machines.
            throw CommandFailure(.refused, "--signer: \(error.message)")
        }
        return (path, EnvironmentPaths.ofProcess.host.variables.map { "\($0)=\($1)" }.sorted())
    }

    /// The signer of what is published to `output`; `nil` if none was named.
    ///
    /// - Parameters:
    ///   - source: The published directory.
    ///   - isDryRun: Whether nothing may be written.
    func signing(for output: String, of source: String? = nil, _ roles: [Role], isDryRun: Bool = false) throws
        -> Signing?
    {
        guard sign != nil || signer != nil else { return nil }
        let program = try Self.program(signer)
        let memory = Self.memory(of: output, isDryRun)
        if sign != nil, let fault = Self.fault(of: memory) { Output().warning(fault) }
        let keys = try sign.map { try KeyDirectory($0) } ?? published(output, memory)
        if sign != nil {
            try keys.requireApart(from: [source, output].compactMap(\.self).filter { urlScheme(of: $0) == nil })
        }
        var signing = try Signing(
            keys, roles, program: program, now: SystemTime.milliseconds(), validity: until ?? Signing.usualValidity)
        signing.memory = memory
        signing.isStopped = { StopSignals.requestedStatus != nil }
        if let warning = Self.rootWarning(signing) { Output().warning(warning) }
        if let signed = signing.laterSignature { Output().warning(Self.clockWarning(signed, now: signing.now)) }
        return signing
    }

    /// The record of what was signed; `nil` if it cannot be kept.
    private static func memory(of output: String, _ isDryRun: Bool) -> SigningMemory? {
        guard let state = try? EnvironmentPaths.ofProcess.stateDirectory() else { return nil }
        do throws(FileError) { _ = try openStateDirectory("\(state)/publish", create: !isDryRun) } catch {
            guard isDryRun, error.isMissing else {
                Output().warning("\(error); what is signed is not remembered")
                return nil
            }
        }
        // A statement that was put back must not be confirmed because the URL is written in another way.
        return SigningMemory(
            in: "\(state)/publish", for: Homes.identity(of: output, on: EnvironmentPaths.ofProcess.host))
    }

    /// The warning that the record of earlier signatures cannot be read; `nil` if it can.
    private static func fault(of memory: SigningMemory?) -> String? {
        do throws(PublishError) {
            _ = try memory?.read()
            return nil
        } catch { return "\(error.summary); what this machine has signed before is not known" }
    }

    /// The roots beside the published set: with only a program there are no others.
    private func published(_ output: String, _ memory: SigningMemory?) throws -> KeyDirectory {
        let known = try memory?.read()
        let keys = try KeyDirectory(published: HomeTarget(output).place(isWriting: false), after: known)
        if known == nil {
            Output().warning(
                "\(escaped(output))/trust is trusted on first use, up to root \(keys.newest.content.number), "
                    + "SHA256:\(keys.newest.statement.digest); if others can write there, add --sign with a directory "
                    + "that holds the roots")
        }
        return keys
    }

    /// The warning that something was signed later than the clock says it is now; both in **milliseconds** since 1970.
    static func clockWarning(_ signed: Int64, now: Int64) -> String {
        "this machine's clock says \(timestamp(milliseconds: now)), but something was signed at "
            + "\(timestamp(milliseconds: signed)): if the clock is behind, what is signed now expires too early; "
            + "set it, and run this again"
    }

    /// The warning that the root expires before what is signed now; `nil` if it does not.
    private static func rootWarning(_ signing: Signing) -> String? {
        let (root, time) = (signing.root, timestamp(milliseconds: signing.root.until))
        guard root.until < signing.now + signing.validity else { return nil }
        return
            (root.until < signing.now
            ? "root \(root.number) expired at \(time), and machines refuse releases under it"
            : "root \(root.number) expires at \(time), before what is signed now does")
            + "; put root.key next to the roots and run: syncagent keys rotate DIRECTORY --role ROLE"
    }
}
