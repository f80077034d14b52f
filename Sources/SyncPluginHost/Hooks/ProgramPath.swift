import SyncModel
import SyncSystem

/// The absolute path of a program to run as a hook, resolved once, when the run is enqueued.
///
/// A name without a slash is searched in ``hookPath``, never in the working directory. The path is kept as
/// given, because some programs depend on the name by which they are called; the checks apply to its target.
///
/// - Parameters:
///   - text: `reindex`, `./reindex` or `/usr/local/bin/reindex`.
///   - directory: The absolute directory that `./` refers to.
///   - destination: The tree from which nothing may run, even through symbolic links. It need not exist.
/// - Returns: The absolute path, not normalised.
/// - Throws: ``ProgramError``.
package func resolveProgram(_ text: String, relativeTo directory: String, destination: String) throws(ProgramError)
    -> String
{
    guard !text.isEmpty, !text.utf8.contains(0) else {
        throw ProgramError(code: .unusable, subject: text, message: "A hook needs the path of a program.")
    }
    guard text.utf8.contains(0x2F) else { return try find(text, destination: destination) }
    let path = text.hasPrefix("/") ? text : "\(directory)/\(text)"
    try check(path, destination: destination)
    return path
}

/// The real path of the program at an absolute path, with links followed.
///
/// - Parameters:
///   - path: Absolute.
///   - role: The word for it in messages, such as `plugin`.
///   - destination: As in ``resolveProgram(_:relativeTo:destination:)``; `nil` if nothing is pulled.
/// - Throws: ``ProgramError``, with code `changeable` if anybody but this user and root could change it.
@discardableResult package func physicalProgram(_ path: String, role: String, destination: String?) throws(ProgramError)
    -> String
{
    guard path.hasPrefix("/"), !path.utf8.contains(0) else {
        throw ProgramError(code: .unusable, subject: path, message: "A \(role) needs an absolute path.")
    }
    return try check(path, role: role, destination: destination)
}

private func find(_ name: String, destination: String) throws(ProgramError) -> String {
    for directory in hookPath.split(separator: ":") {
        let path = "\(directory)/\(name)"
        if isPermitted(.execute, path) {
            try check(path, destination: destination)
            return path
        }
    }
    throw ProgramError(
        code: .missing, subject: name,
        message: "There is no program '\(escaped(name))' in \(hookPath). Give its path.")
}

@discardableResult private func check(_ path: String, role: String = "hook", destination: String?) throws(ProgramError)
    -> String
{
    let walk = try followed(path)
    if let tree = try destination.map({ destination throws(ProgramError) in try followed(destination).path }) {
        let below = tree == "/" ? "/" : tree + "/"
        guard !walk.directories.contains(where: { $0 == tree || $0.hasPrefix(below) }) else {
            throw ProgramError(
                code: .insideDestination, subject: path,
                message: "The \(role) '\(escaped(path))' leads through the destination '\(escaped(tree))'; "
                    + "a file that a pull can change never runs. Keep the program elsewhere.")
        }
    }
    guard let status = status(following: walk.path) else { throw .system("run", path, .last) }
    guard status.kind == .file else {
        throw ProgramError(code: .notAFile, subject: path, message: "The \(role) '\(escaped(path))' is not a file.")
    }
    guard isPermitted(.execute, walk.path) else { throw .system("run", path, .last) }
    do throws(FileError) { try checkUnchangeable(walk) } catch {
        throw ProgramError(
            code: .changeable, subject: path,
            message: "The \(role) '\(escaped(path))' is not run, because others could change it: \(error.reason).")
    }
    return walk.path
}

private func followed(_ path: String) throws(ProgramError) -> PathWalk {
    try rethrowing(PathWalk(path)) { (error: FileError) in ProgramError(error) }
}
