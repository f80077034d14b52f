/// The rules for the target of a link: it stays inside the tree, wherever it is followed from.
///
/// A target whose `..` components stand only at the front leads exactly where its text says, since the
/// directories above a link are real ones: no path of a manifest goes through a link. Behind a name, `..` would
/// leave the directory that the name leads to, and the name can be another link. So a name that `..` follows
/// must be a directory of the manifest, which only the whole table can tell.
extension ManifestRules {
    /// Most places that a target may go up from again: each is looked up in the whole table.
    private static let mostTurns = 32
    private static let remedy = "point to a file inside the tree, relative to the link"

    /// - Returns: Directories, from the root of the tree, that must be real ones for the target to be safe.
    package static func check(link target: UnsafeBufferPointer<UInt8>, at path: UnsafeBufferPointer<UInt8>)
        throws(ManifestError) -> [[UInt8]]
    {
        guard target.allSatisfy({ $0 < 0x80 }) || String(validating: target, as: UTF8.self) != nil else {
            throw ManifestError("the link's target is not UTF-8", remedy)
        }
        guard !target.isEmpty else { throw ManifestError("the link has no target", remedy) }
        guard target.count <= pathBytes else {
            throw ManifestError(
                "the link's target has \(target.count) bytes, above the limit of \(pathBytes)", remedy)
        }
        if target[0] == 0x2F { throw ManifestError("the link's target \(quoted(target)) is absolute", remedy) }
        if hasUnsafeCharacter(target) {
            throw ManifestError(
                "the link's target \(quoted(target)) has a control or bidirectional formatting character", remedy)
        }
        /// The number of directories between the root of the tree and the place where the text leads so far.
        var depth = path.count { $0 == 0x2F }
        var named = 0
        var mustBeReal: [[UInt8]] = []
        var followsName = false
        /// The path that the text leads to so far, from the root of the tree.
        var here = Array(path.prefix(path.lastIndex(of: 0x2F) ?? 0))
        var start = 0
        while start < target.count {
            let end = target[start...].firstIndex(of: 0x2F) ?? target.count
            let component = UnsafeBufferPointer(rebasing: target[start..<end])
            if equals(component, "..") {
                if named > 0 {
                    // The parent of a real directory is a real directory, too.
                    if followsName, mustBeReal.last != here {
                        guard mustBeReal.count < mostTurns else {
                            throw ManifestError(
                                "the link's target \(quoted(target)) goes up again from more than \(mostTurns) places",
                                remedy)
                        }
                        mustBeReal.append(here)
                    }
                    named -= 1
                }
                followsName = false
                here.removeLast(here.count - (here.lastIndex(of: 0x2F) ?? 0))
                depth -= 1
                guard depth >= 0 else {
                    throw ManifestError("the link's target \(quoted(target)) leaves the tree", remedy)
                }
            } else if !component.isEmpty, !equals(component, ".") {
                try check(component, of: target)
                if !here.isEmpty { here.append(0x2F) }
                here += component
                depth += 1
                named += 1
                followsName = true
            }
            start = end + 1
        }
        return mustBeReal
    }

    private static func check(_ component: UnsafeBufferPointer<UInt8>, of target: UnsafeBufferPointer<UInt8>)
        throws(ManifestError)
    {
        guard component.count <= componentBytes else {
            throw ManifestError(
                "a component of the link's target has \(component.count) bytes, above \(componentBytes)",
                remedy)
        }
        if isReserved(component) {
            throw ManifestError("the link's target \(quoted(target)) is under “.syncagent”", remedy)
        }
    }
}
