/// The version of the program, as in its change notes. Semantic Versioning 2.0.0.
package let syncagentVersion = "1.0.0"
