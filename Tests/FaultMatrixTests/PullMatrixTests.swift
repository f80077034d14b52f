import SyncTestKit
import Testing

/// Each row of the catalogue in each situation, over whole pulls. Situations of a row run one after another.
@Suite("Every fault of servers and networks, over whole pulls [G7 S164]", .timeLimit(.minutes(10)))
struct PullMatrixTests {
    @Test("Each fault ends a pull as its row says", arguments: MatrixFault.all)
    func fault(_ fault: MatrixFault) async {
        await RowGate.shared.pass(fault, through: Situation.all) {
            try await PullCase(fault: fault, situation: $0).run()
        }
    }
}
