/// What the target of a link may look like (V4): it stays inside the tree, wherever it is followed from.
///
/// A target whose `..` components stand only at the front leads exactly where its text says, since the
/// directories above a link are real ones: no path of a manifest goes through a link. Behind a name, `..` would
/// leave the directory that the name leads to, and the name can be another link. So a name that `..` follows
/// must be a directory of the manifest, which only the whole table can tell.
enum LinkRules {
    private static let remedy = "point to a file inside the tree, relative to the link"

    /// - Returns: Directories, from the root of the tree, that must be real ones for the target to be safe.
    static func check(
        target: UnsafeBufferPointer<UInt8>,
        of path: UnsafeBufferPointer<UInt8>
    ) throws(ManifestFault) -> [[UInt8]] {
        guard !target.isEmpty else { throw ManifestFault("the link has no target", remedy) }
        guard target.count <= PathRules.pathBytes else {
            throw ManifestFault(
                "the link's target has \(target.count) bytes, above \(PathRules.pathBytes)",
                remedy
            )
        }
        if target[0] == 0x2F {
            throw ManifestFault("the link's target \(quoted(target)) is absolute", remedy)
        }
        if PathRules.hasUnsafeCharacter(target) {
            throw ManifestFault(
                "the link's target \(quoted(target)) has a control or bidirectional formatting character",
                remedy
            )
        }
        /// Directories between the root of the tree and where the text leads so far.
        var depth = path.count { $0 == 0x2F }
        var named = 0
        var mustBeReal: [[UInt8]] = []
        var start = 0
        while start < target.count {
            let end = target[start...].firstIndex(of: 0x2F) ?? target.count
            let component = UnsafeBufferPointer(rebasing: target[start..<end])
            if equals(component, "..") {
                if named > 0 {
                    mustBeReal.append(resolved(UnsafeBufferPointer(rebasing: target[..<start]), of: path))
                    named -= 1
                }
                depth -= 1
                guard depth >= 0 else {
                    throw ManifestFault("the link's target \(quoted(target)) leaves the tree", remedy)
                }
            } else if !component.isEmpty, !equals(component, ".") {
                try check(component, of: target)
                depth += 1
                named += 1
            }
            start = end + 1
        }
        return mustBeReal
    }

    private static func check(
        _ component: UnsafeBufferPointer<UInt8>,
        of target: UnsafeBufferPointer<UInt8>
    ) throws(ManifestFault) {
        guard component.count <= PathRules.componentBytes else {
            throw ManifestFault(
                "a component of the link's target has \(component.count) bytes, above \(PathRules.componentBytes)",
                remedy
            )
        }
        if PathRules.isReserved(component) {
            throw ManifestFault("the link's target \(quoted(target)) is under “.syncagent”", remedy)
        }
    }

    /// Where the first part of a target leads by its text, from the root of the tree.
    private static func resolved(_ part: UnsafeBufferPointer<UInt8>, of path: UnsafeBufferPointer<UInt8>)
        -> [UInt8]
    {
        var components = path.split(separator: 0x2F).dropLast().map(Array.init)
        for component in part.split(separator: 0x2F) where !component.elementsEqual([0x2E]) {
            if component.elementsEqual([0x2E, 0x2E]) {
                _ = components.popLast()
            } else {
                components.append(Array(component))
            }
        }
        return Array(components.joined(separator: [0x2F]))
    }
}
