import CPosix

/// What this machine has and does.
package enum Machine {
    /// Processors that are switched on, at least one. sysconf(3), _SC_NPROCESSORS_ONLN
    package static var processors: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

    /// How many tasks wanted a processor over the last minute, on average. getloadavg(3)
    package static var load: Double? {
        var average = 0.0
        return getloadavg(&average, 1) == 1 ? average : nil
    }

    /// The time that file systems write, as exact as that: **nanoseconds** since 1970. clock_gettime(2), CLOCK_REALTIME_COARSE
    package static var fileTime: Int64 {
        var now = timespec()
        guard clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 else { return 0 }
        return Int64(now.tv_sec) &* 1_000_000_000 &+ Int64(now.tv_nsec)
    }
}

/// Memory of this process that the C library manages. mallopt(3)
package enum Heap {
    /// At most so many heaps; what has `large` **bytes** or more goes back to the system when it is freed.
    package static func bound(arenas: Int, large: Int) {
        sa_bound_heaps(Int32(clamping: arenas), Int32(clamping: large))
    }

    /// Free pages go back to the system. malloc_trim(3)
    package static func trim() { sa_trim_heaps() }

    /// So do pages of programs and libraries that were read: they come back from the page cache. madvise(2)
    package static func releaseCode() { sa_release_code() }
}

/// Whether two memories hold the same bytes. memcmp(3)
package func isEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count, let start = left.baseAddress, let other = right.baseAddress else {
        return left.count == right.count
    }
    return memcmp(start, other, left.count) == 0
}
