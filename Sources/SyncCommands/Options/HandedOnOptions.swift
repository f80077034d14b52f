import ArgumentParser
import SyncModel

/// What a pull is told for others: nothing of it changes what is brought.
struct HandedOnOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Any JSON, handed on to hooks, observers, status and report as it is; at most 64 KiB.",
            valueName: "json"
        ),
        transform: { text in
            guard let value = JSONValue(text: text) else {
                throw ValidationError("--user-data takes JSON, such as '{\"model\": 7}' or '\"text\"'.")
            }
            let size = value.text.utf8.count
            guard size <= RunRecipe.longestUserData else {
                throw ValidationError(
                    "--user-data has \(size) bytes, above the limit of \(RunRecipe.longestUserData)."
                )
            }
            return value
        }
    )
    var userData: JSONValue?

    @Option(
        help: ArgumentHelp(
            "How much you expect to come, such as 20GB, for status and report; the manifest's sum without it.",
            valueName: "size"
        ),
        transform: positiveByteCount
    )
    var expectedBytes: ByteCount?

    func apply(to recipe: inout RunRecipe) {
        recipe.userData = userData
        recipe.expectedBytes = expectedBytes?.bytes
    }
}
