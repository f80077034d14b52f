import ArgumentParser
import SyncPublisher

/// Options for what `publish` does only on request. Not in `publish.json`, which many may write to.
struct PublishPermits: ParsableArguments {
    @Flag(
        name: .customLong("include-vcs"),
        help: "Publish .git, .hg and .svn, too. They are left out otherwise, unless a pattern such as !.git keeps them."
    )
    var includesVersionControl = false

    @Flag(
        name: .customLong("allow-private-keys"),
        help: "Publish files that are private keys: everybody who can read the set gets them.")
    var allowsPrivateKeys = false

    @Flag(
        name: .customLong("allow-fewer"),
        help: "Publish a directory without files, or with less than half as many as the base has.")
    var allowsFewer = false

    @Flag(
        name: .customLong("allow-unsigned"),
        help: "Publish without a signature although former releases were signed; pinned machines do not get it.")
    var allowsUnsigned = false

    @Flag(
        name: .customLong("allow-other-keys"),
        help:
            "Sign with keys that the published roots do not lead to, and replace those roots; every machine has to be pinned again."
    )
    var allowsOtherKeys = false

    @Flag(
        name: .customLong("allow-unread"),
        help: "With --sign: sign packs of the base that exist only on its server, although they have not been read.")
    var allowsUnread = false

    @Flag(
        name: .customLong("accept-shards"),
        help: "With --sign and --join in a bucket: sign what the shards have put there, which is not signed itself.")
    var acceptsShards = false

    @Flag(
        name: .customLong("rename"),
        help: "Rename the set in the output directory to --project; its revision numbers continue."
    )
    var renames = false

    var permits: PublishOptions.Permits {
        var permits: PublishOptions.Permits = []
        if includesVersionControl { permits.insert(.versionControl) }
        if allowsPrivateKeys { permits.insert(.privateKeys) }
        if allowsFewer { permits.insert(.fewerFiles) }
        if allowsUnsigned { permits.insert(.unsigned) }
        if renames { permits.insert(.otherProject) }
        if allowsUnread { permits.insert(.unreadPacks) }
        if acceptsShards { permits.insert(.storedShards) }
        if allowsOtherKeys { permits.insert(.otherKeys) }
        return permits
    }
}
