import CPosix

/// Small files of the kernel: sysfs(5), proc(5).
enum SystemFile {
    /// The first line, at most 4,095 bytes of it.
    ///
    /// - Returns: `nil` when it cannot be read; errno(3) says why.
    static func line(_ path: String) -> Substring? {
        let file = sa_openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0)
        guard file >= 0 else { return nil }
        defer { close(file) }
        // One read gets all of such a file.
        let text = String(unsafeUninitializedCapacity: 4_095) { max(0, read(file, $0.baseAddress, $0.count)) }
        return text.prefix { $0 != "\n" }
    }

    /// The names in a directory, without `.` and `..`, in order.
    ///
    /// - Returns: `nil` when it cannot be read; errno(3) says why.
    static func names(in directory: String) -> [String]? {
        guard let stream = opendir(directory) else { return nil }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 1) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    /// What errno(3) says at this moment.
    static var failure: String { String(cString: strerror(sa_errno())) }
}
