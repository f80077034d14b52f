import SyncModel
package import SyncPlugins
import SyncSystem

/// The required free space remains at the destination.
///
/// Free is what this user may still write: `f_bavail` of statvfs(3). If the destination does not exist yet, the nearest
/// existing directory above it counts. Once the condition has blocked, a sixteenth more must be free, 256 MiB at most,
/// so that a run is not started again and again for the last few bytes.
package final class SpaceCondition: Condition {
    package let name = "space"
    private let wanted: UInt64
    private let wasBlocked: Mutex<Bool>

    /// - Parameters:
    ///   - bytes: Required free space.
    ///   - wasBlocked: Whether it blocked at the last evaluation.
    package init(bytes: UInt64, wasBlocked: Bool = false) {
        wanted = bytes
        self.wasBlocked = Mutex(wasBlocked)
    }

    package func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        guard let free = Self.free(at: context.destination) else {
            return .unknown(reason: "cannot determine the free space of \(escaped(context.destination)): \(errnoText)")
        }
        return wasBlocked.withLock { wasBlocked in
            let state = Self.judge(free: free, wanted: wanted, wasBlocked: wasBlocked)
            wasBlocked = state != .ok
            return state
        }
    }

    /// The rule, independent of the source of the value; in **bytes**.
    static func judge(free: UInt64, wanted: UInt64, wasBlocked: Bool) -> ConditionState {
        let more = wasBlocked ? min(wanted / 16, 256 << 20) : 0
        let (need, overflow) = wanted.addingReportingOverflow(more)
        guard overflow || free < need else { return .ok }
        return .blocked(reason: "\(ByteCount(free)) is free, and \(ByteCount(wanted)) must stay free")
    }

    private static func free(at path: String) -> UInt64? {
        var path = path
        while true {
            if let space = FileSystemSpace(at: path) { return space.bytes }
            guard Errno.last == .noSuchFileOrDirectory, let slash = path.lastIndex(of: "/"), path != "/" else {
                return nil
            }
            path = slash == path.startIndex ? "/" : String(path[..<slash])
        }
    }
}
