package import CPosix

// For modules that still write errno(3) and open(2) as numbers.

package func errorText(_ code: Int32) -> String { Errno(rawValue: code).description }

package func errorText(_ code: Errno?) -> String { code?.description ?? errorText(0) }

package func == (code: Errno?, number: Int32) -> Bool { code?.rawValue ?? 0 == number }

package func != (code: Errno?, number: Int32) -> Bool { !(code == number) }

package func ~= (number: Int32, code: Errno?) -> Bool { code == number }

extension Errno {
    package var errno: Int32 { rawValue }
}

extension FileError {
    package init(step: String, path: String, code: Int32, remark: String? = nil) {
        self.init(step: step, path: path, code: code == 0 ? nil : Errno(rawValue: code), remark: remark)
    }
}

extension StartedProgram {
    package func signalGroup(_ number: Int32) { signalGroup(Signal(rawValue: number)) }
}

package func writeAll(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> Int32 {
    writeAll(bytes, to: descriptor, at: offset)?.rawValue ?? 0
}

package func openFile(
    _ path: String,
    in directory: Int32 = AT_FDCWD,
    _ flags: Int32,
    mode: mode_t = 0o600,
    trust: FileTrust,
    shown: String? = nil
) throws(FileError) -> Descriptor {
    try openFile(path, in: directory, OpenFlags(rawValue: flags), mode: mode, trust: trust, shown: shown)
}

package func createFile(
    _ path: String,
    in directory: Int32 = AT_FDCWD,
    _ flags: Int32,
    mode: mode_t = 0o600,
    shown: String? = nil
) throws(FileError) -> Descriptor {
    try createFile(path, in: directory, OpenFlags(rawValue: flags), mode: mode, shown: shown)
}

package func openDirectory(
    _ path: UnsafePointer<CChar>,
    in directory: Int32 = AT_FDCWD,
    _ flags: Int32
) -> Descriptor? {
    openDirectory(path, in: directory, OpenFlags(rawValue: flags))
}

package func openBeneath(_ root: Int32, _ path: UnsafePointer<CChar>, _ flags: Int32) -> Int32 {
    guard let opened = openBeneath(root, path, OpenFlags(rawValue: flags)) else { return -1 }
    return opened.release()
}
