import CPosix
import SyncModel
import SyncSystem
package import SyncTrust

/// A directory with the keys of a project and its roots: `root.key`, `release.key`, `fresh.key`, `1.root`, `2.root` …
///
/// Whoever signs needs no more of it than the newest root and the keys of what is signed: `root.key` belongs into a drawer.
package struct KeyDirectory {
    package let path: String
    /// The roots that are here, oldest first; each is signed as the one before it asks.
    package private(set) var roots: [TrustPin.Root]
    private let passphrase: [UInt8]?

    /// The newest root.
    package var newest: TrustPin.Root { roots[roots.count - 1] }

    /// Opens a directory.
    ///
    /// - Parameters:
    ///   - path: A directory.
    ///   - passphrase: Of its keys.
    /// - Throws: ``PublishError``; ``PublishError/Code/notFound`` when there is no root in it.
    package init(_ path: String, passphrase: [UInt8]?) throws(PublishError) {
        self.path = path
        self.passphrase = passphrase
        roots = []
        guard let names = directoryEntries(path) else {
            throw PublishError(
                .notFound,
                "cannot read the directory of keys \(shown(path)): \(errnoText)",
                remedy: "make one with 'syncagent keys new'"
            )
        }
        let numbers = names.compactMap(Self.number(ofRoot:)).sorted()
        for number in numbers {
            let root = try Self.root("\(path)/\(number).root")
            guard root.content.number == number else {
                throw Self.unusable("\(path)/\(number).root", "it is root \(root.content.number)")
            }
            if let before = roots.last, number == before.content.number + 1,
                !root.statement.isSigned(.root, by: before.content.root)
            {
                throw Self.unusable(
                    "\(path)/\(number).root",
                    "the keys of the root before it have not signed it"
                )
            }
            roots.append(root)
        }
        guard !roots.isEmpty else {
            throw PublishError(
                .notFound,
                "\(shown(path)) has no root, such as 1.root",
                remedy: "make one with 'syncagent keys new', or name the directory that has it"
            )
        }
    }

    private static func number(ofRoot name: String) -> UInt64? {
        guard name.hasSuffix(".root") else { return nil }
        let digits = name.dropLast(5)
        return digits.first == "0" ? nil : UInt64(digits)
    }

    /// Reads one root, and checks that its own keys have signed it.
    package static func root(_ path: String) throws(PublishError) -> TrustPin.Root {
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(path, trust: .input, limit: Role.root.limit)
        } catch {
            throw PublishError(
                error.isMissing ? .notFound : .cannotRead,
                "\(error)",
                remedy: "check the path"
            )
        }
        do throws(TrustRefusal) {
            return try TrustPin(root: bytes, origin: .file, now: 0).root
        } catch {
            throw unusable(path, error.message)
        }
    }

    // MARK: Keys

    /// The keys of a role that are here: `release.key`, and `release-….key` where a role has several.
    package func keys(_ role: Role) throws(PublishError) -> [PrivateKey] {
        try names(role).map { name throws(PublishError) in try key(name) }
    }

    /// The files of ``keys(_:)``.
    package func names(_ role: Role) -> [String] {
        (directoryEntries(path) ?? []).filter {
            $0 == "\(role.rawValue).key" || $0.hasPrefix("\(role.rawValue)-") && $0.hasSuffix(".key")
        }.sorted()
    }

    private func key(_ name: String) throws(PublishError) -> PrivateKey {
        let file = "\(path)/\(name)"
        let text: String
        do throws(FileError) {
            text = try readSecret(file, limit: PrivateKey.fileLimit)
        } catch {
            throw PublishError(.cannotRead, "\(error)", remedy: "a key belongs to its owner alone")
        }
        do throws(TrustFault) {
            return try PrivateKey(file: text, passphrase: passphrase)
        } catch {
            throw Self.unusable(file, error.reason)
        }
    }

    private static func unusable(_ file: String, _ reason: String) -> PublishError {
        PublishError(.cannotSign, "\(shown(file)): \(reason)", remedy: "nothing was signed")
    }

    // MARK: Making

    /// What a new project starts with.
    package struct Beginning {
        package var project: String
        /// How many root keys, and how many of them have to sign a change of keys.
        package var rootKeys = 1
        package var threshold = 1
        package var mirrors: [String] = []
        /// **Milliseconds** since 1970.
        package var now: Int64
        package var until: Int64

        package init(project: String, now: Int64, until: Int64) {
            (self.project, self.now, self.until) = (project, now, until)
        }
    }

    /// Makes a directory with new keys and their first root; never writes over anything.
    package static func make(
        _ path: String,
        _ beginning: Beginning,
        passphrase: [UInt8]?
    ) throws(PublishError) -> KeyDirectory {
        do throws(FileError) {
            _ = try openPrivateDirectory(path, create: true)
        } catch {
            throw PublishError(
                .cannotCreate,
                "\(error)",
                remedy: "name a directory that only you may write to"
            )
        }
        let there = (directoryEntries(path) ?? []).filter { $0.hasSuffix(".key") || $0.hasSuffix(".root") }
            .sorted()
        if let name = there.first {
            throw PublishError(
                .cannotCreate,
                "\(shown(path)) has keys already: \(shown(name))",
                remedy: "name another directory, or change a key with 'syncagent keys rotate'"
            )
        }
        do throws(TrustFault) {
            func key(_ name: String) throws(TrustFault) -> PrivateKey {
                try PrivateKey(comment: "\(beginning.project) \(name)")
            }
            var rootKeys: [(name: String, key: PrivateKey)] = []
            for number in 1...max(1, beginning.rootKeys) {
                let name = number == 1 ? "root" : "root-\(number)"
                rootKeys.append((name, try key(name)))
            }
            let (release, fresh) = (try key("release"), try key("fresh"))
            func role(_ keys: [PrivateKey], _ threshold: Int = 1) -> RoleKeys {
                RoleKeys(keys: keys.map(\.publicKey), threshold: threshold)
            }
            let statement = RootStatement(
                project: beginning.project,
                number: 1,
                signed: beginning.now,
                until: beginning.until,
                root: role(rootKeys.map(\.key), beginning.threshold),
                release: role([release]),
                fresh: role([fresh]),
                mirrors: beginning.mirrors
            )
            for (name, key) in rootKeys + [("release", release), ("fresh", fresh)] {
                try write(key, to: "\(path)/\(name).key", passphrase)
            }
            try write(statement, signedBy: rootKeys.map(\.key), in: path)
        } catch {
            throw unusable(path, error.reason)
        }
        return try KeyDirectory(path, passphrase: passphrase)
    }

    /// Puts a new key in the place of one, and writes the root that says so. The old key stays as `NAME.key.1`.
    ///
    /// - Returns: The directory with its new root.
    package func rotated(_ role: Role, now: Int64, until: Int64) throws(PublishError) -> KeyDirectory {
        let name = "\(path)/\(role.rawValue).key"
        let rootKeys = try keys(.root)
        var statement = newest.content
        let (number, overflow) = statement.number.addingReportingOverflow(1)
        guard !overflow else { throw Self.unusable(path, "it has the highest possible root") }
        // A key that is lost cannot say which of several it was; then all of its role go.
        let old = access(name, F_OK) == 0 ? try key("\(role.rawValue).key").publicKey : nil
        do throws(TrustFault) {
            let new = try PrivateKey(comment: "\(statement.project) \(role.rawValue)")
            statement[role].keys.removeAll { old == nil || $0 == old }
            statement[role].keys.append(new.publicKey)
            guard statement[role].threshold <= statement[role].keys.count else {
                throw TrustFault(
                    "\(role.rawValue) wants \(statement[role].threshold) keys; put the others beside it, as "
                        + "\(role.rawValue)-2.key"
                )
            }
            (statement.number, statement.signed, statement.until) = (number, now, until)
            let signers = rootKeys + (role == .root ? [new] : [])
            let signed = try Self.signed(statement, by: signers)
            guard signed.isSigned(.root, by: newest.content.root), signed.isSigned(.root, by: statement.root)
            else {
                throw TrustFault(
                    "\(newest.content.root.threshold) of the root keys have to sign a change of keys; put them into "
                        + "\(shown(path)), as root.key and root-2.key"
                )
            }
            try Self.write(new, to: name + ".new", passphrase)
            if old != nil { try Self.move(name, to: freeName(name)) }
            try Self.move(name + ".new", to: name)
            try Self.write(signed.bytes, to: "\(path)/\(number).root", mode: 0o644)
        } catch {
            throw Self.unusable(path, error.reason)
        }
        return try KeyDirectory(path, passphrase: passphrase)
    }

    private func freeName(_ name: String) -> String {
        (1...).lazy.map { "\(name).\($0)" }.first { access($0, F_OK) != 0 } ?? name + ".old"
    }

    private static func signed(_ root: RootStatement, by keys: [PrivateKey]) throws(TrustFault)
        -> SignedStatement
    {
        let json = root.json
        var signatures: [SSHSignature] = []
        for key in keys {
            signatures.append(try SSHSignature(of: json, namespace: Role.root.namespace, by: key))
        }
        return try SignedStatement(signatures, json: json)
    }

    private static func write(
        _ root: RootStatement,
        signedBy keys: [PrivateKey],
        in path: String
    ) throws(TrustFault) {
        try write(try signed(root, by: keys).bytes, to: "\(path)/\(root.number).root", mode: 0o644)
    }

    private static func write(_ key: PrivateKey, to path: String, _ passphrase: [UInt8]?) throws(TrustFault) {
        try write(Array(try key.file(passphrase: passphrase).utf8), to: path, mode: 0o600)
    }

    private static func write(_ bytes: [UInt8], to path: String, mode: mode_t) throws(TrustFault) {
        do throws(FileError) {
            try replaceFile(path, with: bytes, mode: mode)
        } catch {
            throw TrustFault("\(error)")
        }
    }

    private static func move(_ name: String, to other: String) throws(TrustFault) {
        guard rename(name, other) == 0 else { throw TrustFault("cannot rename \(shown(name)): \(errnoText)") }
    }
}
