import CPosix

/// Keeps the C heap small: one heap a processor, at most 8, and large pieces of memory go back when they are freed.
///
/// To be called once, before there are threads. mallopt(3); without effect where the C library has no such thing.
package func boundHeaps(processors: Int) {
    sa_bound_heaps(Int32(min(max(processors, 1), 8)), 1 << 20)
}

/// Gives free memory back before a long phase that needs little. malloc_trim(3).
func trimHeaps() { sa_trim_heaps() }
