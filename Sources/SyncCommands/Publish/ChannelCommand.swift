import ArgumentParser
import Foundation
import SyncAssembly
import SyncEngine
import SyncManifest
import SyncModel
import SyncPublisher
import SyncRemotes
import SyncSystem
import SyncTrust

struct ChannelCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "channel", abstract: "List, move and remove the channels of a published set.",
        discussion: """
            A channel is a name that points at a release, such as beta or stable. The channel default is \
            manifest.json. A machine that pulls with --channel beta follows beta.
            """, subcommands: [ChannelListCommand.self, ChannelSetCommand.self, ChannelRemoveCommand.self])
}

struct ChannelListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the channels and the revision that each points at.",
        discussion: """
            For a URL, the manifest is checked as in a pull; the other channels are those of channels/index.json, which \
            is not signed, and their own files are not read.
            """)

    @Argument(help: "The published directory, or its URL.".taking("directory"), completion: .directory) var place:
        String

    @OptionGroup(title: "Transfer") var bucket: BucketOptions

    private var directory: String { (try? bucket.named(place)) ?? place }

    @OptionGroup(title: "Trust") var trust: TrustOptions

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @OptionGroup(title: "Output") var format: JSONFlag

    func validate() throws { try requireLocation(bucket.named(place), "DIRECTORY") }

    func run() async throws {
        let output = Output()
        let found: [(channel: String?, revision: UInt64)]
        if ![nil, S3Address.scheme].contains(urlScheme(of: directory)) {
            var reporting = ReportingOptions()
            (reporting.json, reporting.quiet) = (format.json, true)
            found = try await transfer.reading([RunRecipe(manifest: directory)], trusting: trust, reporting, output) {
                engine, found in
                do {
                    let hand = try engine.read(found[0])
                    return [(nil, hand.manifest.revision)] + hand.channels().map { ($0.name, $0.revision) }
                } catch let error as EngineError where error.status == .noInput {
                    let others = try engine.channels(of: found[0])
                    if others.isEmpty { throw error }
                    return others.map { ($0.name, $0.revision) }
                }
            }
        } else {
            found = try await HomeTarget(directory).working(isWriting: false) {
                try Channels($0, isReadOnly: true).list()
            }
        }
        guard !found.isEmpty else {
            throw CommandFailure(
                .noInput, "\(escaped(directory)) has no channels; publish there first, or name another directory")
        }
        for (channel, revision) in found {
            let name = channel ?? ChannelName.ofDefault
            if format.json {
                let line = JSONLine.object { line in
                    line.field("channel", name)
                    line.field("revision", revision)
                }
                output.event(line, flushing: true)
            } else {
                output.line("\(name.padded(to: 12)) \(revision)")
            }
        }
    }
}

struct ChannelSetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Point a channel at a release that is already published.",
        discussion: """
            Nothing is published again. A signed set needs --sign with only fresh.key and the roots. A channel never \
            moves back to an older release, because machines would not follow it.

            Examples:

              syncagent channel set site stable beta
              syncagent channel set site default 43
            """)

    @OptionGroup var published: PublishedOptions

    @Argument(help: "The channel, new or existing; default is manifest.json.") var channel: String

    @Argument(help: "A revision, or a channel that points at it now.") var release: String

    @OptionGroup(title: "Signatures") var signing: SigningOptions

    func validate() throws {
        for name in [channel, release] where UInt64(name) == nil || name == channel {
            if let name = ChannelName.meant(name), let reason = ChannelName.objection(name) {
                throw ValidationError("\(reason).")
            }
        }
        try published.target.check(channel: channel)
    }

    func run() async throws {
        let output = Output()
        let name = ChannelName.meant(channel)
        let signer = try signing.signing(for: published.target.name, [.fresh])
        let move = try await published.target.working(isWriting: true, isSigning: signer != nil) { [release] place in
            try Channels(place, now: SystemTime.milliseconds()).point(name, at: release, signing: signer)
        }
        let project = escaped(move.project)
        switch move.former {
        case move.revision: output.message("\(project): \(channel) already points at revision \(move.revision)")
        case let former?:
            output.message("\(project): \(channel) points at revision \(move.revision) instead of \(former)")
        case nil: output.message("\(project): \(channel) points at revision \(move.revision)")
        }
        if let fresh = move.fresh {
            output.message("Signed under root \(fresh.root); valid until \(timestamp(milliseconds: fresh.until)).")
        }
    }
}

struct ChannelRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove a channel; its releases stay.",
        discussion: """
            Machines that follow it get an error that lists the remaining channels, and keep their files. A signed set \
            needs --sign with only fresh.key and the roots. The default channel, manifest.json, cannot be removed.
            """, aliases: ["rm"])

    @OptionGroup var published: PublishedOptions

    @Argument(help: "The channel.") var channel: String

    @OptionGroup(title: "Signatures") var signing: SigningOptions

    func validate() throws {
        guard channel != ChannelName.ofDefault else {
            throw ValidationError("the default channel is manifest.json; it cannot be removed.")
        }
        if let reason = ChannelName.objection(channel) { throw ValidationError("\(reason).") }
        try published.target.check(channel: channel)
    }

    func run() async throws {
        let output = Output()
        let signer = try signing.signing(for: published.target.name, [.fresh])
        let fresh = try await published.target.working(isWriting: true, isSigning: signer != nil) { [channel] place in
            try Channels(place, now: SystemTime.milliseconds()).remove(channel, signing: signer)
        }
        output.message("The channel \(channel) is removed; its releases stay.")
        // The contents of a store are served directly.
        let isServed = Homes.isNamed(by: published.target.name)
        if let fresh {
            let rest = isServed ? "." : ": copy trust/\(channel).fresh to the servers as usual."
            output.message("Signed under root \(fresh.root)\(rest)")
        } else if !isServed {
            output.message("Also remove channels/\(channel).json.zst from the servers.")
        }
    }
}
