import SyncModel
import SyncSystem
package import SyncTrust

/// The keys that sign a publish, and how long its statements are valid.
package struct Signing: Sendable {
    /// The roots, oldest first.
    package let roots: [TrustPin.Root]
    /// The keys that can sign, by role.
    private let keys: [Role: [PrivateKey]]
    /// A program that signs, absolute; and its environment, `NAME=value`.
    package var program: (path: String, variables: [String])?
    /// **Milliseconds** since 1970.
    package var now: Int64
    /// The validity of a fresh statement, **milliseconds**.
    package var validity: Int64
    /// Where this machine remembers the roots that it has signed under; `nil` for nowhere.
    package var memory: SigningMemory?
    /// Asked while a program signs: whether to end it.
    package var isStopped: @Sendable () -> Bool = { false }

    /// 30 days, **milliseconds**: long enough for a holiday, short enough that a frozen mirror is noticed.
    package static let usualValidity: Int64 = 30 * 86_400_000
    /// A person may have to touch a token.
    private static let patience = Duration.seconds(120)

    /// - Parameters:
    ///   - directory: The directory with the roots, and with the keys of `roles`.
    ///   - roles: The roles that will sign; the keys of other roles are not even read.
    package init(
        _ directory: KeyDirectory, _ roles: [Role], program: (path: String, variables: [String])?, now: Int64,
        validity: Int64 = usualValidity
    ) throws(PublishError) {
        roots = directory.roots
        var keys: [Role: [PrivateKey]] = [:]
        // A signing program signs for every key that has no file here, or one with a passphrase.
        for role in roles { keys[role] = try directory.keys(role, leavesLocked: program != nil) }
        (self.keys, self.program) = (keys, program)
        (self.now, self.validity) = (now, validity)
        for role in roles { try requireEnough(role, in: directory) }
        // Whoever names a program trusts that no key in a file signs in its place.
        guard program == nil || roles.contains(where: { counting($0).count < root[$0].threshold }) else {
            throw .usage(
                "the keys in \(shown(directory.path)) sign alone, and the program that --signer names would not be called",
                "leave --signer out, or name a directory that has only the roots")
        }
    }

    package var root: RootStatement { roots[roots.count - 1].content }

    /// The keys at hand that count for a role.
    private func counting(_ role: Role) -> Set<PublicKey> {
        Set((keys[role] ?? []).map(\.publicKey)).intersection(root[role].keys)
    }

    /// Checks, before anything is written, that there are enough keys to sign it.
    private func requireEnough(_ role: Role, in directory: KeyDirectory) throws(PublishError) {
        guard program == nil else { return }
        let counting = counting(role)
        guard counting.count < root[role].threshold else { return }
        let folder = shown(directory.path)
        guard keys[role]?.isEmpty == false else {
            throw .refused(
                "there is no \(folder)/\(role.rawValue).key",
                "put it there, or name a program that signs with --signer; if it is lost: "
                    + "syncagent keys rotate \(folder) --role \(role.rawValue)")
        }
        guard counting.isEmpty else {
            throw .refused(
                "root \(root.number) requires \(root[role].threshold) \(role.rawValue) keys, and \(folder) has "
                    + "\(counting.count) of them", "put the others there, or name a program that signs with --signer")
        }
        let names = try KeyDirectory.names(role, in: directory.path).map { "\(folder)/\(shown($0))" }
        let kind = names.count == 1 ? "a \(role.rawValue) key" : "\(role.rawValue) keys"
        throw .refused(
            "root \(root.number) does not name \(names.joined(separator: ", ")) as \(kind)",
            "use the key that the root names, or change the root with 'syncagent keys rotate'")
    }

    func sign(_ json: [UInt8], _ role: Role) throws(PublishError) -> SignedStatement {
        let counting = root[role]
        do throws(TrustFault) {
            var signatures: [SSHSignature] = []
            for key in keys[role] ?? [] where counting.keys.contains(key.publicKey) {
                signatures.append(try SSHSignature(of: json, namespace: role.namespace, by: key))
            }
            if signatures.count < counting.threshold, let program {
                signatures += try Self.signatures(of: json, role, by: program, isStopped: isStopped)
            }
            let statement = try SignedStatement(signatures, json: json)
            let count = statement.signers(role, of: counting).count
            guard count >= counting.threshold else {
                throw TrustFault(
                    "\(count) of the \(counting.threshold) \(role.rawValue) keys that root \(root.number) requires have signed"
                )
            }
            return statement
        } catch {
            let status = isStopped() ? ExitStatus.interrupted : .refused
            throw PublishError(
                status, "cannot sign: \(error.reason)",
                "what was signed before stays valid" + (isStopped() ? "" : "; correct this"))
        }
    }

    /// The signatures that a program makes. The program gets the namespace as its argument and the bytes on standard
    /// input, and writes blocks to standard output.
    static func signatures(
        of json: [UInt8], _ role: Role, by program: (path: String, variables: [String]),
        isStopped: () -> Bool
    ) throws(TrustFault) -> [SSHSignature] {
        let name = shown(program.path)
        var start = ProgramStart([program.path, role.namespace], variables: program.variables)
        start.error = 2
        let text: Descriptor
        do throws(FileError) { text = try unnamedFile("syncagent-input", holding: json) } catch {
            throw TrustFault("cannot run \(name): \(error.reason)")
        }
        start.input = text.raw
        let (end, output, _) = start.run(deadline: patience, isStopped: isStopped)
        switch end {
        case .exited(0): break
        case .exited(let status): throw TrustFault("\(name) exited with status \(status)")
        case .signalled(let number): throw TrustFault("\(name) was killed by signal \(number)")
        case .stopped: throw TrustFault("\(name) was stopped")
        case .timedOut, .silent, .overflowed:
            throw TrustFault("\(name) did not exit within \(patience.components.seconds) s")
        case .unknown: throw TrustFault("the exit status of \(name) is not known")
        case .notRun(let reason): throw TrustFault("cannot run \(name): \(reason)")
        }
        do throws(TrustFault) {
            let text = output.hasSuffix("\n") ? output : output + "\n"
            return try SignedStatement(Array((text + "\n").utf8), limit: role.limit).signatures
        } catch { throw TrustFault("the output of \(name) is not an ssh-keygen signature: \(error.reason)") }
    }
}
