import ArgumentParser
import SyncManifest
import SyncModel

/// Work on a large set in shards, by processes that do not communicate.
struct ShardOptions: ParsableArguments {
    @Option(
        help:
            "Do one of N equal pieces of the work, from 0/N to N-1/N; others do theirs at the same time, here or on another machine that has the same directory. --join completes it."
            .taking("i/n"))
    var shard: Shard?

    @Option(
        help: "Complete what this many shards have done; if some are missing, name them and exit with 75.".taking("n"))
    var join: Int?

    var work: ShardWork? { shard.map { .shard($0) } ?? join.map { .join($0) } }

    /// The name of the option that is given.
    var given: String? { shard != nil ? "--shard" : join != nil ? "--join" : nil }

    func validate() throws {
        guard shard == nil || join == nil else { throw ValidationError("--shard and --join are mutually exclusive.") }
        guard join.map({ (1...Shard.most).contains($0) }) ?? true else {
            throw ValidationError("--join takes the number of shards, 1 to \(Shard.most).")
        }
    }
}

extension Shard: ExpressibleByArgument {
    /// `3/16`
    public init?(argument: String) { self.init(argument) }
}
