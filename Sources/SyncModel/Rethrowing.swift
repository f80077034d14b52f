/// Converts the error of an expression to another type: `try rethrowing(read(path)) { (error: FileError) in … }`.
///
/// - Parameter other: Names the type of the error that is thrown, and converts it.
package func rethrowing<R, E: Error, F: Error>(_ work: @autoclosure () throws(E) -> R, _ other: (E) -> F) throws(F) -> R
{ do throws(E) { return try work() } catch { throw other(error) } }
