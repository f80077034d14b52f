import CPosix

/// A path made absolute against the working directory, with `.` components removed and `..` left alone.
func absolute(_ path: String) -> String {
    let full = path.hasPrefix("/") ? path : workingDirectory() + "/" + path
    return "/" + full.split(separator: "/").filter { $0 != "." }.joined(separator: "/")
}

/// getcwd(3); `.` when it has gone.
func workingDirectory() -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
        getcwd(buffer.baseAddress, buffer.count).map { String(cString: $0) } ?? "."
    }
}
