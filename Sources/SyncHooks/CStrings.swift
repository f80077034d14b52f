import CPosix

/// Strings as a C array that ends with a null pointer: argv and envp of execve(2).
package struct CStrings: ~Copyable {
    package var pointers: [UnsafeMutablePointer<CChar>?]

    deinit { for pointer in pointers { free(pointer) } }

    /// - Throws: ``ProgramError`` for a string with a NUL, which would be cut there.
    package init(_ strings: [String]) throws(ProgramError) {
        for string in strings where string.utf8.contains(0) {
            throw ProgramError(
                code: .unusable,
                subject: string,
                message: "A program's argument has a NUL in it."
            )
        }
        pointers = strings.map { strdup($0) } + [nil]
    }
}
