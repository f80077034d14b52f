import CZstd

/// The version of libzstd that is in use, such as `1.5.4`.
package func zstdVersion() -> String { ZSTD_versionString().map { String(cString: $0) } ?? "?" }
