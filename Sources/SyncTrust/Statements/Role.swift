/// What a key may sign. A signature for one role is none for another: each has its own namespace.
package enum Role: String, Sendable, CaseIterable {
    /// Names the keys; kept offline.
    case root
    /// Names the manifests.
    case release
    /// Says what is newest; may be online: it cannot name what no release key has signed.
    case fresh

    /// As `ssh-keygen -Y verify -n` takes it.
    package var namespace: String { "syncagent-\(rawValue)" }

    /// Most **bytes** of a statement of this role, signatures included.
    package var limit: Int { self == .root ? 64 << 10 : 16 << 10 }
}
