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
    private var statement: SignedStatement

    package static let ending = ".pending"

    /// How many keys of a root have signed, and how many must.
    package struct Count: Equatable {
        package let root: UInt64
        package let signed: Int
        package let needed: Int
        package let missing: [PublicKey]
    }

    /// A new one in a key directory, not yet written.
    init(
        _ content: RootStatement,
        signedBy keys: [PrivateKey],
        after before: TrustPin.Root?,
        in directory: String
    ) throws(TrustFault) {
        path = "\(directory)/\(content.number).root\(Self.ending)"
        (self.content, self.before) = (content, before)
        statement = try SignedStatement([], json: content.json)
        for key in keys where isRootKey(key.publicKey) { try add(key) }
    }

    /// Reads one. The root before it is looked for beside the file, and in a directory.
    package init(_ path: String, orIn directory: String?) throws(PublishError) {
        self.path = path
        guard path.hasSuffix(".root" + Self.ending) else {
            throw .usage(
                "\(shown(path)) is not a root that waits for signatures",
                "name a file such as 2.root\(Self.ending)"
            )
        }
        let bytes = try KeyDirectory.bytes(ofRoot: path)
        do throws(TrustFault) {
            statement = try SignedStatement(bytes, limit: Role.root.limit, mayBeUnsigned: true)
            content = try RootStatement(json: statement.json)
        } catch {
            throw KeyDirectory.unusable(path, error.reason)
        }
        guard content.number > 1 else {
            before = nil
            return
        }
        let name = "\(content.number - 1).root"
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        let places = [folder, directory].compactMap { $0 }.map { "\($0)/\(name)" }
        guard let place = places.first(where: { exists($0) }) else {
            throw .notFound(
                "\(name) is not next to \(shown(path))",
                "copy it there: its keys must sign the next root"
            )
        }
        let before = try KeyDirectory.root(place)
        guard before.content.project == content.project, before.content.number == content.number - 1 else {
            throw KeyDirectory.unusable(place, "it is not the root before this one")
        }
        self.before = before
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
            return Count(
                root: number,
                signed: signers.count,
                needed: keys.threshold,
                missing: keys.keys.filter { !signers.contains($0) }
            )
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

    /// Adds signatures, by a key file, those of a directory, or a program that signs with its environment.
    ///
    /// - Throws: ``PublishError`` when none of them is a root key; nothing is written then.
    package mutating func sign(
        with place: String?,
        passphrase: [UInt8]?,
        program: (path: String, variables: [String])?
    ) throws(PublishError) {
        var keys: [PrivateKey] = []
        if let place {
            let isDirectory = ((try? directoryEntries(place)) ?? nil) != nil
            let files =
                isDirectory ? try KeyDirectory.names(.root, in: place).map { "\(place)/\($0)" } : [place]
            guard !files.isEmpty else {
                throw .notFound(
                    "there is no root.key in \(shown(place))",
                    "name the key's file, or the directory that has it"
                )
            }
            for file in files { keys.append(try KeyDirectory.key(file, passphrase: passphrase)) }
        }
        let counting = keys.filter { isRootKey($0.publicKey) }
        if let key = keys.first, counting.isEmpty {
            throw KeyDirectory.unusable(
                place ?? "",
                "its key \(key.publicKey.fingerprint) is not a root key of \(content.project): those of "
                    + "\(before.map { "root \($0.content.number) and " } ?? "")root \(content.number) are "
                    + rootKeys.map(\.fingerprint).joined(separator: ", ")
            )
        }
        do throws(TrustFault) {
            for key in counting { try add(key) }
            guard let program else { return }
            let made = try Signing.signatures(of: statement.json, .root, by: program)
            for one in made where !isRootKey(one.key) {
                throw TrustFault(
                    "\(shown(program.path)) has signed with \(one.key.fingerprint), which is not a root key"
                )
            }
            let new = made.filter { $0.isOf(statement.json) && !hasSigned($0.key) }
            try add(new)
        } catch {
            throw KeyDirectory.unusable(path, error.reason)
        }
    }

    /// Every key that may sign.
    private var rootKeys: [PublicKey] {
        var keys = before?.content.root.keys ?? []
        keys += content.root.keys.filter { !keys.contains($0) }
        return keys
    }

    /// Writes it: as `N.root` if complete, else under its old name with the signatures so far.
    ///
    /// - Returns: The file.
    package func write() throws(PublishError) -> String {
        let target = isComplete ? String(path.dropLast(Self.ending.count)) : path
        if isComplete, exists(target) {
            throw KeyDirectory.unusable(target, "it already exists")
        }
        do throws(FileError) {
            try replaceFile(target, with: statement.bytes, mode: 0o644)
        } catch {
            throw .cannotCreate("\(error)", "make the directory writable")
        }
        // A leftover would only be signed in vain.
        if isComplete { removeFile(path) }
        return target
    }

    /// Its changes, for people about to sign it.
    package var changes: [String] {
        guard let old = before?.content else {
            return [
                "the first root of \(content.project): \(content.root.threshold) of \(content.root.keys.count) root keys"
            ]
        }
        var lines: [String] = []
        for role in Role.allCases {
            let (was, becomes) = (old[role], content[role])
            lines += was.keys.filter { !becomes.keys.contains($0) }
                .map { "\(role.rawValue): \($0.fingerprint) is no longer valid" }
            lines += becomes.keys.filter { !was.keys.contains($0) }
                .map { "\(role.rawValue): \($0.fingerprint) is new" }
            if was.threshold != becomes.threshold {
                lines.append("\(role.rawValue): \(becomes.threshold) must sign, instead of \(was.threshold)")
            }
        }
        if old.mirrors != content.mirrors {
            lines.append("mirrors: \(content.mirrors.joined(separator: ", "))")
        }
        return lines
    }
}
