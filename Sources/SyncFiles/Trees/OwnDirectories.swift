import SyncModel
package import SyncSystem

/// Refuses a destination inside this program's own directories: in `.syncagent`, or in the directory beside a
/// destination that is switched as a whole. Files there are removed without notice, with leftovers of a pull or with a
/// former revision.
///
/// Such a destination is mostly unintended: a shell stays in the directory that it has entered, which becomes a former
/// revision once the next one is installed.
///
/// A `.syncagent` without files of this program may contain destinations, but is never one itself: a pull into the
/// directory above would take it for its own.
///
/// - Parameter path: An absolute path. Links on the way are followed; it need not exist.
/// - Throws: ``FileError`` that says what the place is and what to do.
package func refuseOwnDirectory(_ path: String) throws(FileError) {
    let names = try PathWalk(path).path.split(separator: "/")
    var above = ""
    for (place, name) in names.enumerated() {
        let directory = "\(above)/\(name)"
        let owner: String
        let ours = ["lock", "index", "staging", TreeHome.ledgerName]
        if name == Destination.stateName,
            place == names.count - 1 || ours.contains(where: { exists("\(directory)/\($0)") })
        {
            owner = above.isEmpty ? "/" : above
        } else if name.hasPrefix(TreeHome.prefix), exists("\(directory)/\(TreeHome.ledgerName)") {
            owner = "\(above)/\(name.dropFirst(TreeHome.prefix.count))"
        } else {
            above = directory
            continue
        }
        let isRevision = names.count > place + 2 && names[place + 1] == TreeHome.treesName
        let revision = name == Destination.stateName ? "a revision" : "a former revision"
        let remark =
            isRevision
            ? "it is in \(revision) of \(escaped(owner)), and what is put there is removed with that. If it is the working "
                + "directory, go there again: cd \(escaped(owner)). Otherwise name another directory"
            : "\(escaped(directory)) is for syncagent's own files; name another directory"
        throw FileError(step: "use the destination", path: path, remark: remark, trouble: .inTheWay)
    }
}
