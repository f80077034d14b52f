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
        help: "Publish files that are private keys: whoever can read the set has them then.")
    var allowsPrivateKeys = false

    @Flag(
        name: .customLong("allow-fewer"),
        help: "Publish a directory without files, or with less than half as many as the base has.")
    var allowsFewer = false

    @Flag(
        name: .customLong("allow-unsigned"),
        help: "Publish without a signature where releases were signed; machines that are pinned do not get it.")
    var allowsUnsigned = false

    @Flag(
        name: .customLong("allow-other-keys"),
        help:
            "Sign with keys that the published roots do not lead to, and replace those roots; every machine has to be pinned again."
    )
    var allowsOtherKeys = false

    @Flag(
        name: .customLong("allow-unread"),
        help: "With --sign: sign packs of the base that are only where it is served, so that nobody has read them.")
    var allowsUnread = false

    @Flag(
        name: .customLong("rename"),
        help: "Give the set in the output directory the project's name that --project says, and count its revisions on."
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
        if allowsOtherKeys { permits.insert(.otherKeys) }
        return permits
    }
}
