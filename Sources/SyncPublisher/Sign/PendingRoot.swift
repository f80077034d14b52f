import SyncModel
import SyncSystem
package import SyncTrust

/// A root that still needs signatures of keys kept elsewhere: `N.root.pending`, carried from machine to machine. With
/// the last signature it becomes `N.root`.
package struct PendingRoot {
    package let path: String
    package let content: RootStatement
    /// The previous root, whose keys have to sign it, too; `nil` for the first one.
    package let before: TrustPin.Root?
    /// The file that vouches for ``before``; `nil` for a first root, and for one just made.
    package let reference: String?
    package private(set) var statement: SignedStatement

    package static let ending = ".pending"

    /// The number of a root, how many of its keys have signed, how many must, and which have not.
    package typealias Count = (root: UInt64, signed: Int, needed: Int, missing: [PublicKey])

    /// A new pending root in a key directory, not yet written.
    init(_ content: RootStatement, signedBy keys: [PrivateKey], after before: TrustPin.Root?, in directory: String)
        throws(TrustFault)
    {
        path = "\(directory)/\(content.number).root\(Self.ending)"
        (self.content, self.before, reference) = (content, before, nil)
        statement = try SignedStatement([], json: content.json)
        for key in keys where isRootKey(key.publicKey) { try add(key) }
    }

    /// Reads a pending root, and finds the root before it. Files that came along with it prove nothing: the chain
    /// begins with the root that the signer has kept, or names, and each later root must be signed by the keys of the
    /// one before.
    ///
    /// - Parameters:
    ///   - named: A root that the signer vouches for; `nil` for the newest one in `directory`.
    ///   - directory: The signer's directory, with the key; `nil` where a program signs.
    ///   - isFirst: Whether it is the first root of new keys, although it is not root 1.
    package init(_ path: String, after named: String?, heldIn directory: String?, isFirst: Bool) throws(PublishError) {
        self.path = path
        guard path.hasSuffix(".root" + Self.ending) else {
            throw .usage(
                "\(shown(path)) is not a root that waits for signatures", "name a file such as 2.root\(Self.ending)")
        }
        let bytes = try KeyDirectory.bytes(ofRoot: path, isOwn: false)
        do throws(TrustFault) {
            statement = try SignedStatement(bytes, limit: Role.root.limit, mayBeUnsigned: true)
            content = try RootStatement(json: statement.json)
        } catch { throw KeyDirectory.unusable(path, error.reason) }
        let known = try Self.known(named, directory)
        if let known {
            let (root, held) = (known.root.content, named.map(shown) ?? shown(directory ?? ""))
            guard root.project == content.project else {
                throw KeyDirectory.unusable(path, "it is of \(content.project), and \(held) is of \(root.project)")
            }
            guard root.number < content.number else {
                throw KeyDirectory.unusable(
                    path, "\(held) holds root \(root.number) already: there is one root of each number")
            }
        }
        guard content.number > 1, !isFirst else {
            if let known {
                throw KeyDirectory.unusable(
                    path,
                    "it is to be a first root, but \(shown(known.file)) is there: its key belongs to other keys; make a new one"
                )
            }
            (before, reference) = (nil, nil)
            return
        }
        guard let known else {
            throw .notFound(
                "there is no root to compare \(shown(path)) with\(directory.map { " in \(shown($0))" } ?? "")",
                "name the root that your machines have pinned with --from FILE, and keep a copy next to the key; one that came with "
                    + "it proves nothing. If new keys begin with it because the former ones are lost, add --first")
        }
        reference = known.file
        before = try Self.chain(from: known, to: content, beside: path)
    }

    /// The root that the signer vouches for; `nil` if there is none.
    private static func known(_ named: String?, _ directory: String?) throws(PublishError) -> (
        root: TrustPin.Root, file: String
    )? {
        if let named { return (try KeyDirectory.root(named, isOwn: true), named) }
        guard let directory, let newest = try KeyDirectory.roots(in: directory).last else { return nil }
        return (newest, "\(directory)/\(newest.content.number).root")
    }

    /// The root before a pending one. Each root after the known one must be signed by the keys of the root before it.
    private static func chain(
        from known: (root: TrustPin.Root, file: String), to content: RootStatement, beside path: String
    ) throws(PublishError) -> TrustPin.Root {
        let folder = parent(of: path)
        var newest = known.root
        let beside = "\(folder)/\(newest.content.number).root"
        if try !KeyDirectory.isFree(beside) {
            let other = try KeyDirectory.root(newest.content.number, in: folder, isOwn: false)
            guard other.statement.digest == newest.statement.digest else {
                throw KeyDirectory.unusable(
                    path,
                    "\(shown(beside)) is not \(shown(known.file)), but a root with other keys under the same number: whoever "
                        + "sent it may be an attacker")
            }
        }
        while newest.content.number + 1 < content.number {
            let number = newest.content.number + 1
            guard try !KeyDirectory.isFree("\(folder)/\(number).root") else {
                throw .notFound(
                    "\(number).root, which follows \(shown(known.file)), is not next to \(shown(path))", "copy it there"
                )
            }
            let next = try KeyDirectory.root(number, in: folder, isOwn: false)
            guard next.content.project == content.project, next.statement.isSigned(.root, by: newest.content.root)
            else {
                throw KeyDirectory.unusable(
                    "\(folder)/\(number).root",
                    "the keys of root \(number - 1) have not signed it; whoever sent it may be an attacker")
            }
            newest = next
        }
        return newest
    }

    /// The directory of the file.
    package var folder: String { parent(of: path) }

    /// The directory of a key that is named by its file, or by the directory itself.
    package static func keyDirectory(_ place: String) -> String {
        KeyDirectory.isDirectory(place) ? place : parent(of: place)
    }

    /// The signatures so far, by root: the previous one, and its own if its keys differ.
    package var counts: [Count] {
        var roots = [(content.number, content.root)]
        if let before, before.content.root == content.root {
            roots = [(before.content.number, content.root)]
        } else if let before {
            roots.insert((before.content.number, before.content.root), at: 0)
        }
        return roots.map { number, keys in
            let signers = statement.signers(.root, of: keys)
            return (number, signers.count, keys.threshold, keys.keys.filter { !signers.contains($0) })
        }
    }

    package var isComplete: Bool { counts.allSatisfy { $0.signed >= $0.needed } }

    private func isRootKey(_ key: PublicKey) -> Bool {
        content.root.keys.contains(key) || before?.content.root.keys.contains(key) == true
    }

    private func hasSigned(_ key: PublicKey) -> Bool {
        !statement.signers(.root, of: RoleKeys(keys: [key], threshold: 1)).isEmpty
    }

    private mutating func add(_ key: PrivateKey) throws(TrustFault) {
        guard !hasSigned(key.publicKey) else { return }
        try add([try SSHSignature(of: statement.json, namespace: Role.root.namespace, by: key)])
    }

    private mutating func add(_ signatures: [SSHSignature]) throws(TrustFault) {
        statement = try SignedStatement(statement.signatures + signatures, json: statement.json)
    }

    /// The root keys of a signer: in a file, or all of a directory.
    ///
    /// - Parameter leavesLocked: Whether to leave out keys with a passphrase, because a program signs with them.
    /// - Throws: ``PublishError`` when there is no key file, or no key is a root key.
    package func keys(at place: String, leavesLocked: Bool) throws(PublishError) -> [PrivateKey] {
        let files =
            KeyDirectory.isDirectory(place)
            ? try KeyDirectory.names(.root, in: place).map { "\(place)/\($0)" } : [place]
        guard !files.isEmpty else {
            throw .notFound(
                "there is no root.key in \(shown(place))", "name the key's file, or the directory that has it")
        }
        let keys = try files.map { file throws(PublishError) in try KeyDirectory.key(file, leavesLocked: leavesLocked) }
            .compactMap { $0 }
        let counting = keys.filter { isRootKey($0.publicKey) }
        if let key = keys.first, counting.isEmpty {
            throw KeyDirectory.unusable(
                place,
                "its key \(key.publicKey.fingerprint) is not a root key of \(content.project): those of "
                    + "\(before.map { "root \($0.content.number) and " } ?? "")root \(content.number) are "
                    + rootKeys.map(\.fingerprint).joined(separator: ", "))
        }
        return counting
    }

    /// Adds signatures: by keys of ``keys(at:leavesLocked:)``, and by a program that runs with these environment
    /// variables, until `isStopped`.
    ///
    /// - Throws: ``PublishError`` for a program that does not sign with a root key; nothing is written then.
    package mutating func sign(
        by keys: [PrivateKey], program: (path: String, variables: [String])?, isStopped: () -> Bool
    ) throws(PublishError) {
        do throws(TrustFault) {
            for key in keys { try add(key) }
            guard let program else { return }
            let made = try Signing.signatures(of: statement.json, .root, by: program, isStopped: isStopped)
            for one in made where !isRootKey(one.key) {
                throw TrustFault(
                    "\(shown(program.path)) has signed with \(one.key.fingerprint), which is not a root key")
            }
            let new = made.filter { $0.isOf(statement.json) && !hasSigned($0.key) }
            try add(new)
        } catch { throw KeyDirectory.unusable(path, error.reason) }
    }

    /// Every key that may sign.
    private var rootKeys: [PublicKey] {
        var keys = before?.content.root.keys ?? []
        keys += content.root.keys.filter { !keys.contains($0) }
        return keys
    }

    /// Writes the root: as `N.root` if complete, else under its old name with the signatures so far.
    ///
    /// - Returns: The path of the file.
    package func write() throws(PublishError) -> String {
        let target = isComplete ? String(path.dropLast(Self.ending.count)) : path
        if isComplete, try !KeyDirectory.isFree(target) { throw KeyDirectory.unusable(target, "it already exists") }
        do throws(FileError) { try replaceFile(target, with: statement.bytes, mode: 0o644) } catch {
            throw KeyDirectory.unwritten(error)
        }
        // A pending file that is left over would only be signed in vain.
        if isComplete { removeFile(path) }
        return target
    }

    /// The changes in the root, for people about to sign it.
    package var changes: [String] {
        guard let old = before?.content else {
            return [
                content.number == 1
                    ? "the first root of \(content.project)"
                    : "new keys of \(content.project) begin with root \(content.number); no key of the roots before counts any more"
            ]
        }
        var lines: [String] = []
        for role in Role.allCases {
            let (was, becomes) = (old[role], content[role])
            lines += was.keys.filter { !becomes.keys.contains($0) }.map {
                "\(role.rawValue): \($0.fingerprint) is no longer valid"
            }
            lines += becomes.keys.filter { !was.keys.contains($0) }.map { "\(role.rawValue): \($0.fingerprint) is new" }
            if was.threshold != becomes.threshold {
                lines.append("\(role.rawValue): \(becomes.threshold) must sign, instead of \(was.threshold)")
            }
        }
        if lines.isEmpty { lines.append("every key stays") }
        lines.append("until: \(timestamp(milliseconds: old.until)) → \(timestamp(milliseconds: content.until))")
        if old.mirrors != content.mirrors {
            func shown(_ mirrors: [String]) -> String {
                mirrors.isEmpty ? "none" : mirrors.map(redacted(url:)).joined(separator: ", ")
            }
            lines.append("mirrors: \(shown(old.mirrors)) → \(shown(content.mirrors))")
        }
        return lines
    }
}
