import ArgumentParser
import SyncAssembly
import SyncEngine
import SyncManifest
import SyncModel
import SyncPublisher
import SyncRemotes
import SyncSystem

extension PublishCommand {
    /// Runs the publisher, which blocks, on a thread of its own; with an engine to read the base if that is on a
    /// server.
    func working<Result: Sendable>(
        _ options: PublishOptions, _ output: Output,
        _ body:
            @escaping @Sendable (PublishOptions, () -> Bool, (PublishProgress) -> Void) throws(PublishError) -> Result
    ) async throws -> Result {
        let served = try servedBase(output)
        let display = served?.call.display ?? reporting.display(on: output)
        do {
            return try await StopSignals.cancelling(
                notice: { output.message("Stopping.") }, atOnce: { output.clearProgress() },
                {
                    try await display.whileRunning {
                        guard let served else {
                            return try await onThread("publish") { flag in
                                try body(options, { flag.isSet }) { display.report(ProgressSnapshot($0)) }
                            }
                        }
                        return try await served.call.withReadOnlyEngine { engine in
                            let hand = try engine.read(served.recipe)
                            var options = options
                            options.base = .served(
                                try Self.base(hand, at: served.recipe.manifest, for: options.signing))
                            return try body(options, { hand.isStopped }) { display.report(ProgressSnapshot($0)) }
                        }
                    }
                })
        } catch {
            if let status = StopSignals.requestedStatus, Self.isStop(error) {
                // The manifest may be in place, without its signatures.
                if let error = error as? PublishError, !error.details.isEmpty {
                    throw CommandFailure(status, error.description)
                }
                // A store may have taken the last request.
                if !isDryRun, !Homes.isNamed(by: self.output) {
                    output.message("What was published before is unchanged.")
                }
                throw CommandFailure(status)
            }
            guard let error = error as? PublishError else { throw error }
            throw CommandFailure(error.exitStatus, error.description)
        }
    }

    private static func isStop(_ error: any Error) -> Bool {
        (error as? PublishError)?.exitStatus == .interrupted || (error as? CommandFailure)?.status == .interrupted
    }

    /// The call that reads the base, if that is on a server: as by `ls`, with the settings of the configuration.
    private func servedBase(_ output: Output) throws -> (call: EngineCall, recipe: RunRecipe)? {
        guard let base, base != place, urlScheme(of: base) != nil else { return nil }
        let location = urlScheme(of: base) == S3Address.scheme ? try bucket.named(base) : base
        let (call, found) = try TransferOptions.parse([]).call(
            for: [RunRecipe(manifest: location)], trusting: TrustOptions.parse([]), reporting, output,
            hasOptions: false)
        return (call, found[0])
    }

    /// - Parameter signing: The signer, if any. A base that this machine has not published then has to be signed, too.
    private static func base(_ hand: ManifestInHand, at location: String, for signing: Signing?) throws(EngineError)
        -> ServedBase
    {
        let isUnknown = signing.map { !$0.hasMade(hand.manifest.digest) } ?? false
        return ServedBase(
            hand.manifest, shown: hand.shown, location: location,
            release: isUnknown ? try hand.releaseStatement() : nil
        ) { pack, range in try hand.bytes(of: pack, range) }
    }
}

extension ProgressSnapshot {
    fileprivate init(_ progress: PublishProgress) {
        let phase =
            switch progress.step {
            case .checking: "Checking packs"
            case .walking: "Looking"
            case .sampling: "Sampling"
            case .training: "Making a dictionary"
            case .reading: "Packing"
            case .hashing: "Reading"
            case .sending: "Sending"
            case .finishing: "Finishing"
            }
        let isCounted = [.reading, .hashing, .finishing].contains(progress.step)
        let isSampled = [.checking, .sampling, .training, .sending].contains(progress.step)
        self.init(
            phase: phase, filesDone: progress.files, filesTotal: isCounted ? progress.totalFiles : nil,
            bytesDone: progress.bytes, bytesTotal: isCounted || isSampled ? progress.totalBytes : nil)
    }
}
