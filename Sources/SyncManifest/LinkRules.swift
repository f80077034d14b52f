import SyncModel

/// What the target of a link may look like (V4): it stays inside the tree, wherever it is followed from.
enum LinkRules {
    /// A link whose `..` components stand only at the front leads exactly where its text says, because the
    /// directories above a link are real ones. Behind a name, `..` would leave the directory that the name
    /// leads to, which can be another link: those names are returned to be checked against the whole table.
    ///
    /// - Returns: Directories, from the root of the tree, that must be real ones for the target to be safe.
    static func check(
        target: UnsafeBufferPointer<UInt8>,
        of path: UnsafeBufferPointer<UInt8>
    ) throws(ManifestFault) -> [[UInt8]] {
        let remedy = "point to a file inside the tree, relative to the link"
        guard !target.isEmpty else { throw ManifestFault("the link has no target", remedy) }
        guard target.count <= PathRules.pathBytes else {
            throw ManifestFault("the link's target has \(target.count) bytes, above \(PathRules.pathBytes)", remedy)
        }
        if target[0] == 0x2F { throw ManifestFault("the link's target \(quoted(target)) is absolute", remedy) }
        if PathRules.hasUnsafeCharacter(target) {
            throw ManifestFault(
                "the link's target \(quoted(target)) has a control or bidirectional formatting character",
                remedy
            )
        }
        var directory = path.split(separator: 0x2F).dropLast().map { [UInt8]($0) }
        var named = 0
        var mustBeReal: [[UInt8]] = []
        for component in target.split(separator: 0x2F) {
            if component.elementsEqual([0x2E]) { continue }
            if component.elementsEqual([0x2E, 0x2E]) {
                if named > 0 {
                    mustBeReal.append([UInt8](directory.joined(separator: [0x2F])))
                    named -= 1
                }
                guard directory.popLast() != nil else {
                    throw ManifestFault("the link's target \(quoted(target)) leaves the tree", remedy)
                }
                continue
            }
            guard component.count <= PathRules.componentBytes else {
                throw ManifestFault(
                    "a component of the link's target has \(component.count) bytes, above "
                        + "\(PathRules.componentBytes)",
                    remedy
                )
            }
            if PathRules.isReserved(UnsafeBufferPointer(rebasing: component)) {
                throw ManifestFault("the link's target \(quoted(target)) is under “.syncagent”", remedy)
            }
            directory.append([UInt8](component))
            named += 1
        }
        return mustBeReal
    }
}
