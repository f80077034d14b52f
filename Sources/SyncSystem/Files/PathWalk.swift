/// The resolution of a path, component by component as in the kernel. path_resolution(7).
package struct PathWalk: Sendable {
    /// Absolute, without links, `.` and `..`; a part that does not exist is kept as it is.
    package var path: String { "/" + place.joined(separator: "/") }
    /// The same for every directory in which a component was looked up.
    package private(set) var directories: Set<String> = []

    private var place: [Substring] = []
    private var links = 0
    /// The limit for ELOOP, path_resolution(7).
    private static let mostLinks = 40

    /// Follows a path.
    ///
    /// - Parameter path: Relative to the working directory, or absolute.
    /// - Throws: ``FileError`` for too many links, or if the working directory is gone.
    package init(_ path: String) throws(FileError) { try follow(absolutePath(path), of: path) }

    private mutating func follow(_ text: String, of origin: String) throws(FileError) {
        if text.hasPrefix("/") { place = [] }
        for component in text.split(separator: "/") where component != "." {
            if component == ".." { _ = place.popLast() } else { try step(component, of: origin) }
        }
    }

    private mutating func step(_ component: Substring, of origin: String) throws(FileError) {
        directories.insert(path)
        place.append(component)
        guard let target = readLink(currentDirectory, path) else { return }
        links += 1
        guard links <= Self.mostLinks else {
            throw FileError(step: "follow", path: origin, code: .tooManySymbolicLinkLevels)
        }
        place.removeLast()
        try follow(String(decoding: target, as: UTF8.self), of: origin)
    }
}
