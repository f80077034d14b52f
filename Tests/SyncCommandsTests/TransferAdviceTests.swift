import ArgumentParser
import SyncAssembly
import SyncTransfer
import Testing

@testable import SyncCommands

@Suite("What is advised when a transfer fails")
struct TransferAdviceTests {
    @Test("Every option that an advice names is one of 'pull'", arguments: TransferAdvice.allCases)
    func options(advice: TransferAdvice) {
        let help = SyncagentCommand.helpMessage(for: PullCommand.self)
        for word in advice.words().split(whereSeparator: { " ();,".contains($0) }) where word.hasPrefix("--") {
            #expect(help.contains("\(word) "), "\(advice.words())")
        }
    }

    @Test("A command without those options names none of them", arguments: TransferAdvice.allCases)
    func keys(advice: TransferAdvice) {
        #expect(!advice.words(hasOptions: false).contains("--"), "\(advice.words(hasOptions: false))")
    }

    @Test("Transports are made with these words")
    func isSet() {
        let advise = TransportConfiguration.plain.advise
        #expect(advise(.nameAuthority) == "if the authority is your own, name it with --cacert")
    }
}
