import CPosix

/// Keeps the C heap small: one heap a processor, at most 8, and large pieces of memory go back when they are freed.
///
/// To be called once, before there are threads. mallopt(3); without effect where the C library has no such thing.
package func boundHeaps(processors: Int) {
    sa_bound_heaps(Int32(min(max(processors, 1), 8)), 1 << 20)
}

/// Gives memory back that the phase before needed: free pages of the heaps, and code that has run. malloc_trim(3),
/// madvise(2). Costs well below a millisecond.
package func releaseMemory() {
    sa_trim_heaps()
    sa_release_code()
}

extension EngineEnvironment {
    /// At the end of a phase.
    func releaseMemory() {
        if releasesMemory { SyncEngine.releaseMemory() }
    }
}
