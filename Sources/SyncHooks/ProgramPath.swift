import SyncModel
import SyncSystem

/// The absolute path of a program to run as a hook, decided once, when the run is enqueued (V55).
///
/// A name without a slash is looked up in ``HookEnvironment/path``, never in the working directory. The path is
/// kept as given, because some programs go by the name they are called with; what is checked is where it leads.
///
/// - Parameters:
///   - text: `reindex`, `./reindex` or `/usr/local/bin/reindex`.
///   - directory: Absolute; what `./` means.
///   - destination: The tree nothing may be run from, also through symbolic links (V62). It need not exist.
/// - Returns: The absolute path, not normalised.
/// - Throws: ``ProgramError``.
package func resolveProgram(
    _ text: String,
    relativeTo directory: String,
    destination: String
) throws(ProgramError) -> String {
    guard !text.isEmpty, !text.utf8.contains(0) else {
        throw ProgramError(code: .unusable, subject: text, message: "A hook needs the path of a program.")
    }
    guard text.utf8.contains(0x2F) else { return try find(text, destination: destination) }
    let path = text.hasPrefix("/") ? text : "\(directory)/\(text)"
    try check(path, destination: destination)
    return path
}

/// Where the program at an absolute path really is, links followed.
///
/// - Parameters:
///   - path: Absolute.
///   - role: What messages call it, such as `plugin`.
///   - destination: As for ``resolveProgram(_:relativeTo:destination:)``; `nil` when nothing is pulled.
/// - Throws: ``ProgramError``, with code `changeable` when anybody but this user and root could change it.
@discardableResult
package func physicalProgram(
    _ path: String,
    role: String,
    destination: String?
) throws(ProgramError) -> String {
    guard path.hasPrefix("/"), !path.utf8.contains(0) else {
        throw ProgramError(code: .unusable, subject: path, message: "A \(role) needs an absolute path.")
    }
    return try check(path, role: role, destination: destination)
}

private func find(_ name: String, destination: String) throws(ProgramError) -> String {
    for directory in HookEnvironment.path.split(separator: ":") {
        let path = "\(directory)/\(name)"
        if isPermitted(.execute, path) {
            try check(path, destination: destination)
            return path
        }
    }
    throw ProgramError(
        code: .missing,
        subject: name,
        message: "There is no program '\(escaped(name))' in \(HookEnvironment.path). Give its path."
    )
}

@discardableResult
private func check(
    _ path: String,
    role: String = "hook",
    destination: String?
) throws(ProgramError) -> String {
    var tree: String?
    if let destination {
        var walked: Set<String> = []
        tree = try PathWalk.physical(destination, walked: &walked)
    }
    var walked: Set<String> = []
    let real = try PathWalk.physical(path, role: role, outside: tree, walked: &walked)
    guard let status = status(following: real) else { throw .system("run", path, .last) }
    guard status.kind == .file else {
        throw ProgramError(
            code: .notAFile,
            subject: path,
            message: "The \(role) '\(escaped(path))' is not a file."
        )
    }
    guard isPermitted(.execute, real) else { throw .system("run", path, .last) }
    do throws(FileError) {
        try checkProgram(real, through: walked)
    } catch {
        throw ProgramError(
            code: .changeable,
            subject: path,
            message:
                "The \(role) '\(escaped(path))' is not run, because others could change it: \(error.reason)."
        )
    }
    return real
}

/// Follows a path component by component, as the kernel does. path_resolution(7).
private struct PathWalk {
    private var place: [Substring] = []
    private var links = 0
    private let tree: String?
    private let origin: String
    private let role: String
    private var walked: Set<String> = []

    /// The path without links, `.` and `..`; the part that does not exist is kept as it is.
    ///
    /// - Parameters:
    ///   - path: Absolute.
    ///   - role: What messages call it.
    ///   - tree: Physical path of a directory below which no step may go.
    ///   - walked: The physical paths of all directories in which something was looked up.
    /// - Returns: The physical path.
    /// - Throws: ``ProgramError`` for a step below `tree`, or too many links.
    static func physical(
        _ path: String,
        role: String = "hook",
        outside tree: String? = nil,
        walked: inout Set<String>
    ) throws(ProgramError) -> String {
        var walk = PathWalk(tree: tree, origin: path, role: role)
        try walk.follow(path)
        walked = walk.walked
        return walk.path
    }

    private var path: String { "/" + place.joined(separator: "/") }

    private mutating func follow(_ text: String) throws(ProgramError) {
        if text.hasPrefix("/") { place = [] }
        for component in text.split(separator: "/") where component != "." {
            if component == ".." {
                _ = place.popLast()
            } else {
                try step(component)
            }
        }
    }

    private mutating func step(_ component: Substring) throws(ProgramError) {
        let here = path
        if let tree, here == tree || here.hasPrefix(tree == "/" ? "/" : tree + "/") {
            throw ProgramError(
                code: .insideDestination,
                subject: origin,
                message: "The \(role) '\(escaped(origin))' leads through the destination '\(escaped(tree))'; "
                    + "a file that a pull can change never runs. Keep the program elsewhere."
            )
        }
        walked.insert(here)
        place.append(component)
        guard let target = readLink(currentDirectory, path) else { return }
        links += 1
        guard links <= 40 else { throw .system("follow", origin, .tooManySymbolicLinkLevels) }
        place.removeLast()
        try follow(String(decoding: target, as: UTF8.self))
    }
}
