import SyncModel
package import SyncPlugins
import SyncSystem

/// So much stays free where the destination is.
///
/// Free is what this user may still write: `f_bavail` of statvfs(3). Where the destination does not exist yet, the
/// nearest directory above it counts. Once it has blocked, a sixteenth more must be free, 256 MiB at most, so that a
/// run is not started for the last few bytes again and again.
package final class SpaceCondition: Condition {
    package let name = "space"
    private let wanted: UInt64
    private let wasBlocked: Mutex<Bool>

    /// - Parameters:
    ///   - bytes: That must stay free.
    ///   - wasBlocked: Whether it has blocked before.
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

    /// The rule, apart from where the value comes from; **bytes**.
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
