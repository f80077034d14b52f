/// Does work whose error becomes another one: `try rethrowing(read(path)) { (error: FileError) in … }`.
///
/// - Parameter other: Names the type of the error that the work throws, and makes the one that is thrown.
package func rethrowing<R, E: Error, F: Error>(_ work: @autoclosure () throws(E) -> R, _ other: (E) -> F) throws(F) -> R
{ do throws(E) { return try work() } catch { throw other(error) } }
