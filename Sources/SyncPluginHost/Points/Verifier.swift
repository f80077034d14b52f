import SyncModel
package import SyncPlugins
import SyncSystem

/// Asks a plugin about staged files: method `verifier.verify`.
extension PluginClient: FileVerifier {
    /// Most files in one call, because the deadline applies to the whole call.
    private static let most = 64

    package func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict] {
        var verdicts: [FileVerdict] = []
        for start in stride(from: 0, to: files.count, by: Self.most) {
            let batch = files[start..<min(start + Self.most, files.count)]
            let answer = try call("verifier.verify") { line in
                line.list("files", batch) { file, line in
                    line.field("path", file.path)
                    line.field("staged_path", file.stagedPath)
                    line.field("size", file.size)
                    line.field("sha256", file.sha256)
                }
            }
            guard let list = answer["verdicts"]?.array, list.count == batch.count else {
                throw failure(.badAnswer, "its answer has no list 'verdicts' with one entry for each file")
            }
            for value in list { verdicts.append(try verdict(value)) }
        }
        return verdicts
    }

    private func verdict(_ value: JSONValue) throws(PluginError) -> FileVerdict {
        switch value["verdict"]?.string {
        case "accepted": return .accepted
        case "refused": return .refused(reason: reason(value["reason"]) ?? "plugin \(name) gave no reason")
        default: throw failure(.badAnswer, "a verdict that is not one of accepted, refused")
        }
    }
}

/// Checks a verifier with existing files.
///
/// - Parameters:
///   - verifier: It may accept and refuse freely.
///   - files: At least one; their paths decide which files the verifier examines.
///   - isUnchanged: Whether a file is unchanged.
package func check(verifier: any FileVerifier, files: [StagedFile], isUnchanged: (StagedFile) -> Bool) -> [CheckResult]
{
    var book: [CheckResult] = []
    func ask(_ files: [StagedFile]) -> Result<[FileVerdict], PluginError> {
        Result { () throws(PluginError) in try verifier.verify(files) }
    }

    book.rule("Each file gets one verdict", "Answer with a list as long as the list of files.") {
        for file in files { if let fault = fault(of: ask([file]), count: 1) { return fault } }
        return fault(of: ask(files), count: files.count)
    }
    book.rule("No files get no verdicts", "Answer an empty list with an empty list.") { fault(of: ask([]), count: 0) }
    book.rule("Verdicts are in the order of the files", "Do not sort, and do not answer before all are done.") {
        let alone = files.map { try? ask([$0]).get().first?.kind }
        for order in [Array(files.indices), files.indices.reversed()] {
            guard case .success(let verdicts) = ask(order.map { files[$0] }), verdicts.count == order.count else {
                return "it failed for several files together"
            }
            for (verdict, index) in zip(verdicts, order) where verdict.kind != alone[index] {
                return "'\(files[index].path)' is \(alone[index] ?? "?") alone and \(verdict.kind) among others"
            }
        }
        return nil
    }
    book.rule("Two hundred files at once get their verdicts", "Close each file before the next is opened.") {
        let many = (0..<200).map { files[$0 % files.count] }
        return fault(of: ask(many), count: 200)
    }
    book.rule("Files are not changed", "Open them for reading only; they are installed as they are.") {
        files.first { !isUnchanged($0) }.map { "'\($0.path)' was changed" }
    }
    book.rule(
        "A file that it refuses for its contents is not accepted if it cannot be read",
        "An accepted file is installed: if a file cannot be opened, answer refused with the reason."
    ) {
        for file in files where (try? ask([file]).get().first?.isRefusal) == true {
            var gone = file
            gone.stagedPath += ".gone"
            if case .success([.accepted]) = ask([gone]) { return "'\(gone.path)' is not there and was accepted" }
        }
        return nil
    }
    book.rule("Four callers at a time all get answers", "Requests arrive before earlier ones are answered.") {
        let first = Array(files.prefix(1))
        return together(4) { _ in
            fault(of: Result { () throws(PluginError) in try verifier.verify(first) }, count: first.count)
        }
    }
    return book
}

private func fault(of result: Result<[FileVerdict], PluginError>, count: Int) -> String? {
    switch result {
    case .failure(let error): return "it failed: \(error.message)"
    case .success(let verdicts):
        guard verdicts.count == count else { return "\(verdicts.count) verdicts for \(count) files" }
        return verdicts.contains(.refused(reason: "")) ? "a refusal without a reason" : nil
    }
}

extension FileVerdict {
    fileprivate var isRefusal: Bool { self != .accepted }
    fileprivate var kind: String { isRefusal ? "refused" : "accepted" }
}
