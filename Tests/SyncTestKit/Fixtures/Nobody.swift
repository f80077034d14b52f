import Glibc
import SyncSystem

/// Does something on a thread that looks at files as somebody else, to whom root's are closed. setfsuid(2)
///
/// - Throws: ``TestKitError`` where this user is not root, who alone can be somebody else.
public func asNobody<R: Sendable>(_ body: @escaping @Sendable () -> R) throws(TestKitError) -> R {
    typealias SetUser = @convention(c) (UInt32) -> Int32
    guard isSuperuser, let symbol = dlsym(nil, "setfsuid") else {
        throw TestKitError("only root can be somebody else")
    }
    let setUser = unsafeBitCast(symbol, to: SetUser.self)
    let result = Monitor<R?>(nil)
    do throws(ThreadError) {
        try WorkerThread(name: "nobody") {
            _ = setUser(65_534)
            let value = body()
            result.change { $0 = value }
        }
    } catch { throw TestKitError(error.description) }
    return result.wait { $0 }
}
