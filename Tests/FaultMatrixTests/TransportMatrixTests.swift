import SyncTestKit
import Testing

/// Each row of the catalogue in each situation. The situations of a row run one after another, some rows side by
/// side: a thousand cases at once would starve each other until healthy connections look idle.
@Suite("Every fault of servers and networks, at the level of a transport", .timeLimit(.minutes(10)))
struct TransportMatrixTests {
    @Test("Each fault ends a transfer as its row says", arguments: MatrixFault.all)
    func fault(_ fault: MatrixFault) async {
        await RowGate.shared.pass(fault, through: Situation.all) {
            try await TransportCase(fault: fault, situation: $0).run()
        }
    }

    @Test("Rows have names of their own, and numbers")
    func names() {
        let names = MatrixFault.all.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(names.allSatisfy { $0.contains("[F0") && $0.hasSuffix("]") })
        #expect(names.count * Situation.all.count > 1_000 || Situation.isFew)
    }
}
