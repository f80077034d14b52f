import SyncModel
import SyncSystem
package import SyncTrust

/// A directory with the keys and roots of a project: `root.key`, `release.key`, `fresh.key`, `1.root`, `2.root` …
///
/// Signing only needs the newest root and the keys of the roles that sign: `root.key` is best kept offline.
package struct KeyDirectory {
    package let path: String
    /// The roots found, oldest first; each is signed as the one before it requires.
    package private(set) var roots: [TrustPin.Root]
    /// Whether keys are read at all: never from a published directory, where others may put files.
    private let hasKeys: Bool
    /// The file of the key just replaced; `nil` if that key was not in this directory.
    package private(set) var kept: String?

    package var newest: TrustPin.Root { roots[roots.count - 1] }

    /// Opens a directory; ``ExitStatus/noInput`` when there is no root in it.
    package init(_ path: String) throws(PublishError) {
        (self.path, hasKeys) = (path, true)
        roots = []
        for number in Self.numbers(try Self.names(in: path)) {
            let root = try Self.root(number, in: path, isOwn: true)
            if let before = roots.last, number == before.content.number + 1,
                !root.statement.isSigned(.root, by: before.content.root)
            {
                throw Self.unusable("\(path)/\(number).root", "the keys of the previous root have not signed it")
            }
            roots.append(root)
        }
        guard !roots.isEmpty else {
            throw .notFound(
                "\(shown(path)) has no root, such as 1.root",
                "make one with 'syncagent keys new', or name the directory that has it")
        }
    }

    /// Refuses keys inside a directory that is published or served.
    package func requireApart(from places: [String]) throws(PublishError) {
        guard try Self.names(in: path).contains(where: { $0.hasSuffix(".key") }) else { return }
        func unseen(_ place: String, _ code: Errno) -> PublishError {
            .cannotRead(
                "cannot tell whether the keys are apart from what is published: \(shown(place)): \(code)",
                "check its permissions; nothing was published")
        }
        guard let keys = openDirectory(path) else { throw unseen(path, .last) }
        for place in places {
            guard let folder = openDirectory(place) else {
                let code = Errno.last
                guard code == .noSuchFileOrDirectory || code == .notDirectory else { throw unseen(place, code) }
                continue
            }
            guard let status = status(folder.raw) else { throw unseen(place, .last) }
            guard try rethrowing(isInside(keys.raw, status), { (code: Errno) in unseen(place, code) }) else { continue }
            throw .refused(
                "the keys in \(shown(path)) are inside \(shown(place)), which everybody gets",
                "move them to a directory of their own, outside; nothing was published")
        }
    }

    /// Opens the roots of what is published. Anyone with write access may have replaced them: only an unbroken
    /// chain counts, starting from the roots that this machine knows, or from the first root if it knows none.
    package init(published place: TargetPlace, after known: TrustPin?) throws(PublishError) {
        let published = try OutputDirectory(published: place, isReadOnly: true)
        (path, hasKeys) = (published.path + "/trust", false)
        roots = []
        for number in Self.numbers(try published.statementNames()) {
            let root = try Self.root(number, in: published)
            if let known, number <= known.root.content.number {
                // Roots under which this machine has not signed are ignored.
                if known.roots.contains(root.statement.digest) { roots.append(root) }
                continue
            }
            if known != nil, roots.last == nil { break }
            // Roots have 63 bits.
            let next = (roots.last?.content.number ?? 0) &+ 1
            guard number == next else {
                let wasKnown = known.map { next <= $0.root.content.number } ?? false
                throw Self.unusable(
                    "\(path)/\(number).root",
                    "root \(next), which comes before it, is "
                        + (wasKnown ? "not the one under which this machine has signed" : "missing"))
            }
            guard roots.last.map({ root.statement.isSigned(.root, by: $0.content.root) }) ?? true else {
                throw Self.unusable(
                    "\(path)/\(number).root",
                    "the keys of the previous root have not signed it; somebody else put it there")
            }
            roots.append(root)
        }
        if let known {
            guard roots.contains(where: { $0.statement.digest == known.root.statement.digest }) else {
                throw Self.unusable(
                    path,
                    "root \(known.root.content.number), under which this machine has signed before, is missing: "
                        + "SHA256:\(known.root.statement.digest); if the keys are new, name their directory with --sign"
                )
            }
        } else if roots.isEmpty {
            throw .notFound(
                "\(shown(published.path)) has no trust/1.root: nothing signed was published there",
                "name the directory with the roots with --sign, beside --signer")
        }
    }

    /// The roots of a directory of keys, oldest first; none where there are none.
    static func roots(in path: String) throws(PublishError) -> [TrustPin.Root] {
        try numbers(names(in: path)).isEmpty ? [] : KeyDirectory(path).roots
    }

    /// The number for the first root of new keys, where too many of the old root keys are lost: the one after the
    /// newest root there. So no machine, mirror or cache ever meets two roots of one number.
    ///
    /// - Parameter place: A published directory, a directory of keys, or the newest root itself.
    package static func number(after place: String, of project: String) throws(PublishError) -> UInt64 {
        var newest = place
        if isDirectory(place) {
            let folder = isDirectory("\(place)/trust") ? "\(place)/trust" : place
            let numbers = Self.numbers(try names(in: folder))
            guard let first = numbers.first, let last = numbers.last else {
                throw .notFound("\(shown(folder)) has no root", "name a directory that has one")
            }
            newest = "\(folder)/\(last).root"
            guard last - first < numbers.count else {
                throw unusable(newest, "a root before it is missing; remove it if it is not yours")
            }
        }
        let content = try root(newest, isOwn: false).content
        guard content.project == project else {
            throw unusable(newest, "it is a root of \(content.project), not of \(project)")
        }
        let (number, overflow) = content.number.addingReportingOverflow(1)
        guard !overflow else { throw unusable(newest, "it has the highest possible number") }
        return number
    }

    static func isDirectory(_ path: String) -> Bool { status(following: path)?.kind == .directory }

    /// The numbers of the roots among some files, ascending.
    private static func numbers(_ names: [String]) -> [UInt64] {
        names.compactMap { name in UInt64(name.dropLast(5)).flatMap { "\($0).root" == name ? $0 : nil } }.sorted()
    }

    /// Reads a root, whose number must be that in its name.
    static func root(_ number: UInt64, in path: String, isOwn: Bool) throws(PublishError) -> TrustPin.Root {
        let file = "\(path)/\(number).root"
        return try checked(number, try root(file, isOwn: isOwn), file)
    }

    /// Reads a published root, never through a link.
    private static func root(_ number: UInt64, in output: OutputDirectory) throws(PublishError) -> TrustPin.Root {
        let name = "\(number).root"
        let file = output.display(.trust, name)
        let bytes = try rethrowing(output.contents(.trust, name, limit: Role.root.limit)) { (error: FileError) in
            PublishError(error.isMissing ? .noInput : .ioError, "\(error)", "check the path")
        }
        return try checked(number, try root(bytes, file), file)
    }

    /// The number of a root must be that in its file's name.
    private static func checked(_ number: UInt64, _ root: TrustPin.Root, _ file: String) throws(PublishError)
        -> TrustPin.Root
    {
        guard root.content.number == number else { throw unusable(file, "it is root \(root.content.number)") }
        return root
    }

    /// Reads one root, and checks that its own keys have signed it.
    ///
    /// - Parameter isOwn: Whether the root decides which keys are valid, so that nobody else may be able to change the
    ///   file; `false` for a root that is only as good as the signatures on it.
    static func root(_ path: String, isOwn: Bool) throws(PublishError) -> TrustPin.Root {
        try root(try bytes(ofRoot: path, isOwn: isOwn), path)
    }

    private static func root(_ bytes: [UInt8], _ path: String) throws(PublishError) -> TrustPin.Root {
        do throws(TrustRefusal) { return try TrustPin(root: bytes, basis: .file, now: 0).root } catch {
            throw unusable(path, error.message)
        }
    }

    static func bytes(ofRoot path: String, isOwn: Bool) throws(PublishError) -> [UInt8] {
        do throws(FileError) {
            return isOwn
                ? try readUnchangeable(path, limit: Role.root.limit)
                : try readFile(path, trust: .input, limit: Role.root.limit)
        } catch {
            guard isOwn, error.isRefusal else {
                throw PublishError(error.isMissing ? .noInput : .ioError, "\(error)", "check the path")
            }
            throw .refused("\(error)", "it says which keys count")
        }
    }

    // MARK: Keys

    /// The keys of a role found here: `release.key`, and `release-….key` if a role has several.
    ///
    /// - Parameter leavesLocked: Whether to leave out keys with a passphrase, which sign elsewhere.
    package func keys(_ role: Role, leavesLocked: Bool = false) throws(PublishError) -> [PrivateKey] {
        guard hasKeys else { return [] }
        return try Self.names(role, in: path).map { name throws(PublishError) in
            try Self.key("\(path)/\(name)", leavesLocked: leavesLocked)
        }.compactMap { $0 }
    }

    /// The names in a directory of keys or roots.
    private static func names(in path: String) throws(PublishError) -> [String] {
        do throws(Errno) { if let names = try directoryEntries(path) { return names } } catch {
            throw .cannotRead(
                "cannot read the directory of keys \(shown(path)): \(error)", "check the path and its permissions")
        }
        throw .notFound(
            "\(shown(path)): there is no such directory of keys",
            "check the path, or make one with 'syncagent keys new'")
    }

    /// The file names of ``keys(_:leavesLocked:)``.
    package static func names(_ role: Role, in path: String) throws(PublishError) -> [String] {
        try names(in: path).filter {
            $0 == "\(role.rawValue).key" || $0.hasPrefix("\(role.rawValue)-") && $0.hasSuffix(".key")
        }.sorted()
    }

    /// Reads a key file.
    ///
    /// - Returns: `nil` for a key with a passphrase, if `leavesLocked`.
    static func key(_ file: String, leavesLocked: Bool = false) throws(PublishError) -> PrivateKey? {
        let text = try text(ofKey: file)
        do throws(TrustFault) {
            if leavesLocked, try PrivateKey.halves(of: text).isEncrypted { return nil }
            return try PrivateKey(file: text)
        } catch { throw unusable(file, error.reason) }
    }

    /// The public half of a key file, also of one with a passphrase.
    private static func publicKey(_ file: String) throws(PublishError) -> PublicKey {
        let text = try text(ofKey: file)
        do throws(TrustFault) { return try PrivateKey.halves(of: text).key } catch {
            throw unusable(file, error.reason)
        }
    }

    private static func text(ofKey file: String) throws(PublishError) -> String {
        do throws(FileError) { return try readSecret(file, limit: PrivateKey.fileLimit) } catch {
            if error.isMissing { throw .notFound("\(error)", "check the path") }
            throw error.isRefusal
                ? .refused("\(error)", "only its owner may have access to a key")
                : .cannotRead("\(error)", "check its permissions")
        }
    }

    static func unusable(_ file: String, _ reason: String) -> PublishError {
        .refused("\(shown(file)): \(reason)", "nothing was signed")
    }

    private static func refusal(_ path: String, _ error: any Error) -> PublishError {
        error as? PublishError ?? unusable(path, (error as? TrustFault)?.reason ?? "\(error)")
    }

    // MARK: Making

    /// The result of a change: the new root, and the directory that has it; `nil` if keys elsewhere have to sign it
    /// first.
    package typealias Outcome = (root: PendingRoot, keys: KeyDirectory?)

    /// Creates a directory with new keys and their first root; never overwrites anything.
    ///
    /// - Parameters:
    ///   - beginning: The root with the root keys created elsewhere; its number is 1, or ``number(after:of:)`` where
    ///     the keys of earlier roots are lost.
    ///   - rootKeys: How many root keys to create.
    package static func make(_ path: String, _ beginning: RootStatement, rootKeys count: Int) throws(PublishError)
        -> Outcome
    {
        // No reader takes such a root, and nobody could sign it.
        guard Set(beginning.root.keys).count == beginning.root.keys.count else {
            throw .usage("the same root key is named twice", "name each key once with --root-public")
        }
        guard beginning.json.count <= Role.root.limit / 2 else {
            throw .usage(
                "the root would have more than \(Role.root.limit / 2) bytes, and leave no room for keys and signatures",
                "name fewer mirrors, or shorter URLs")
        }
        do throws(FileError) { _ = try openPrivateDirectory(path, create: true) } catch {
            throw .cannotCreate("\(error)", "name a directory that only you may write to")
        }
        let there = try Self.names(in: path).filter { $0.hasSuffix(".key") || $0.contains(".root") }.sorted()
        if let name = there.first {
            throw .cannotCreate(
                "\(shown(path)) has keys already: \(shown(name))",
                "name another directory, or change a key with 'syncagent keys rotate'")
        }
        do {
            func key(_ name: String) throws(TrustFault) -> PrivateKey {
                try PrivateKey(comment: "\(beginning.project) \(name)")
            }
            var rootKeys: [(name: String, key: PrivateKey)] = []
            for number in 1...max(1, count) {
                let name = number == 1 ? "root" : "root-\(number)"
                rootKeys.append((name, try key(name)))
            }
            let (release, fresh) = (try key("release"), try key("fresh"))
            var statement = beginning
            statement.root.keys = rootKeys.map(\.key.publicKey) + statement.root.keys
            statement.release = RoleKeys(keys: [release.publicKey], threshold: 1)
            statement.fresh = RoleKeys(keys: [fresh.publicKey], threshold: 1)
            for (name, key) in rootKeys + [("release", release), ("fresh", fresh)] {
                try write(key, to: "\(path)/\(name).key")
            }
            return try outcome(PendingRoot(statement, signedBy: rootKeys.map(\.key), after: nil, in: path))
        } catch { throw refusal(path, error) }
    }

    private static func outcome(_ pending: PendingRoot) throws(PublishError) -> Outcome {
        _ = try pending.write()
        return (pending, pending.isComplete ? try KeyDirectory(pending.folder) : nil)
    }

    /// Replaces a key by a new one and writes the new root. An old key found here is kept as `NAME.key.1`.
    ///
    /// If root keys elsewhere have to sign, the root is a ``PendingRoot`` until then; a new key is stored beside the
    /// old one and becomes valid with that root.
    ///
    /// - Parameters:
    ///   - fingerprint: The key to replace; `nil` for the one in this directory, or one that was.
    ///   - other: The new key; `nil` to create one.
    package func rotated(_ role: Role, replacing fingerprint: String?, by other: PublicKey?, now: Int64, until: Int64)
        throws(PublishError) -> Outcome
    {
        var statement = newest.content
        let (number, overflow) = statement.number.addingReportingOverflow(1)
        guard !overflow else { throw Self.unusable(path, "it has the highest possible root") }
        let waiting = "\(path)/\(number).root\(PendingRoot.ending)"
        guard try Self.isFree(waiting) else {
            throw Self.unusable(waiting, "it waits for signatures; sign it with 'syncagent keys sign', or remove it")
        }
        let (gone, file) = try goingKeys(role, fingerprint)
        // If there are too few, or they have passphrases, 'keys sign' adds the other signatures.
        let rootKeys = try keys(.root, leavesLocked: true)
        do {
            let made = other == nil ? try PrivateKey(comment: "\(statement.project) \(role.rawValue)") : nil
            guard let new = other ?? made?.publicKey else { throw TrustFault("there is no new key") }
            statement[role].keys.removeAll { gone.contains($0) }
            guard !statement[role].keys.contains(new) else {
                throw TrustFault("\(new.fingerprint) is a \(role.rawValue) key already")
            }
            statement[role].keys.append(new)
            guard statement[role].threshold <= statement[role].keys.count else {
                throw TrustFault(
                    "\(statement[role].threshold) \(role.rawValue) keys must sign; name the one to replace: --replace")
            }
            (statement.number, statement.signed, statement.until) = (number, now, until)
            let signers = rootKeys + (role == .root ? [made].compactMap { $0 } : [])
            let pending = try PendingRoot(statement, signedBy: signers, after: newest, in: path)
            let beside = try besideName(role, number)
            if let made { try Self.write(made, to: beside) }
            // From here on the new key is valid, under its present name; a killed rotation leaves nothing to repair.
            guard var keys = try Self.outcome(pending).keys else { return (pending, nil) }
            guard made != nil else { return (pending, keys) }
            if let file {
                keys.kept = try Self.keep(file, beside, number)
                try Self.move(beside, to: file, beside, number)
            } else {
                // Where something else has the usual name, the new key stays beside it.
                _ = try Self.isMoved(beside, to: "\(path)/\(role.rawValue).key", key: beside, root: number)
            }
            return (pending, keys)
        } catch { throw Self.refusal(path, error) }
    }

    /// The keys of a role to be replaced, and the file of the one found here.
    private func goingKeys(_ role: Role, _ fingerprint: String?) throws(PublishError) -> ([PublicKey], file: String?) {
        let known = newest.content[role].keys
        var here: [(key: PublicKey, file: String)] = []
        for name in try Self.names(role, in: path) {
            let file = "\(path)/\(name)"
            let key = try Self.publicKey(file)
            if known.contains(key) { here.append((key, file)) }
        }
        if let fingerprint {
            guard let key = known.first(where: { $0.fingerprint == fingerprint }) else {
                throw Self.unusable(
                    path,
                    "\(shown(fingerprint)) is not a \(role.rawValue) key of root \(newest.content.number); those are "
                        + known.map(\.fingerprint).joined(separator: ", "))
            }
            return ([key], here.first { $0.key == key }?.file)
        }
        let usual = "\(path)/\(role.rawValue).key"
        if let one = here.first(where: { $0.file == usual }) ?? (here.count == 1 ? here[0] : nil) {
            return ([one.key], one.file)
        }
        // A lost key may be any of several. So all keys of its role are replaced, but not several root keys: those have
        // to sign.
        guard role == .root ? known.count == 1 : here.isEmpty else {
            throw Self.unusable(
                path,
                "root \(newest.content.number) has several \(role.rawValue) keys; name the one to replace, --replace "
                    + known.map(\.fingerprint).joined(separator: " or "))
        }
        return (known, nil)
    }

    /// An unused file name for a new key of a role that has others.
    private func besideName(_ role: Role, _ number: UInt64) throws(PublishError) -> String {
        func name(_ number: UInt64) -> String { "\(path)/\(role.rawValue)-\(number).key" }
        var free = number
        while try !Self.isFree(name(free)) { free &+= 1 }
        return name(free)
    }

    /// Whether a path is unused.
    ///
    /// - Throws: ``PublishError`` where that is unknown: the path may be that of a key.
    static func isFree(_ path: String) throws(PublishError) -> Bool {
        switch status(currentDirectory, path) {
        case .success(let found): return found == nil
        case .failure(let code):
            throw .cannotRead("cannot look at \(shown(path)): \(code)", "check its directory; no key was changed")
        }
    }

    /// Writes a new key, whole or not at all; nothing is replaced.
    static func write(_ key: PrivateKey, to path: String) throws(PublishError) {
        let text = try rethrowing(key.file()) { (error: TrustFault) in unusable(path, error.reason) }
        let name = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
        let temporary = "\(path[..<name]).\(path[name...]).new"
        do throws(FileError) {
            try replaceFile(temporary, with: Array(text.utf8), isNameDurable: false)
            if let code = renameEntry(temporary, in: currentDirectory, toFree: path, in: currentDirectory) {
                removeFile(temporary)
                throw FileError(step: "create", path: path, code: code)
            }
            guard let folder = openDirectory(parent(of: path)) else { return }
            try FileError.check(synchronizeDirectory(folder.raw), "sync", path)
        } catch { throw unwritten(error) }
    }

    /// The error of a key or a root that could not be written.
    static func unwritten(_ error: FileError) -> PublishError {
        [.diskFull, .diskTrouble].contains(error.cause)
            ? PublishError(.ioError, "\(error)", "make room, or check the disk, and run it again")
            : .cannotCreate("\(error)", "make the directory writable")
    }

    /// Renames the file of a former key to a free name beside it; errors are as with ``move(_:to:_:_:)``.
    private static func keep(_ name: String, _ new: String, _ root: UInt64) throws(PublishError) -> String {
        var number = 1
        while try !isMoved(name, to: "\(name).\(number)", key: new, root: root) { number += 1 }
        return "\(name).\(number)"
    }

    /// Renames a key file after the new root has been signed; `new` is the file of the new key.
    static func move(_ name: String, to other: String, _ new: String, _ root: UInt64) throws(PublishError) {
        if try !isMoved(name, to: other, key: new, root: root) {
            throw unmoved(name, to: other, .fileExists, key: new, root: root)
        }
    }

    /// The same; returns `false` where the other name is taken.
    private static func isMoved(_ name: String, to other: String, key new: String, root: UInt64) throws(PublishError)
        -> Bool
    {
        guard let code = renameEntry(name, in: currentDirectory, toFree: other, in: currentDirectory) else {
            return true
        }
        guard code == .fileExists else { throw unmoved(name, to: other, code, key: new, root: root) }
        return false
    }

    private static func unmoved(_ name: String, to other: String, _ code: Errno, key new: String, root: UInt64)
        -> PublishError
    {
        .cannotCreate(
            "cannot rename \(shown(name)) to \(shown(other)): \(code)",
            "root \(root) is signed and valid, and \(shown(new)) is its new key")
    }
}
