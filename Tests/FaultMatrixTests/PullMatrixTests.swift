import SyncTestKit
import Testing

/// Each row of the catalogue in each situation, over whole pulls. Situations of a row run one after another.
@Suite("Every fault of servers and networks, over whole pulls [G7 S164]", .timeLimit(.minutes(10)))
struct PullMatrixTests {
    @Test("A fault", arguments: MatrixFault.all)
    func fault(_ fault: MatrixFault) async throws {
        await RowGate.shared.pass {
            for situation in Situation.all {
                do {
                    try await PullCase(fault: fault, situation: situation).run()
                } catch {
                    Issue.record("\(fault.name): \(error)")
                }
            }
        }
    }
}
