import SyncTestKit
import Testing

@Suite("The contract of every transport", .timeLimit(.minutes(10)))
struct ContractTests {
    @Test("libcurl's transport keeps each rule", arguments: TransportContract.cases)
    func contract(_ rule: TransportContract.Rule) async throws { try await rule.check { try makeTransport() } }
}
