import Testing

@testable import SyncEngine

@Suite("Turns at the parts of files", .timeLimit(.minutes(10)))
struct TurnsTests {
    @Test("Each thread has a file of its own, in order, and helps with the longest when there is no other")
    func turns() {
        let turns = Turns([7, 7, 7, 8, 9, 9, 9, 9])
        var (one, other): (Int?, Int?) = (nil, nil)
        #expect(turns.next(after: &one) == 0)
        #expect(turns.next(after: &other) == 3)
        #expect(turns.next(after: &one) == 1)
        #expect(turns.next(after: &other) == 4, "the file of its own is done: the next untouched one")
        #expect(turns.next(after: &other) == 5)
        #expect(turns.next(after: &one) == 2)
        #expect(turns.next(after: &one) == 6, "helps")
        #expect(turns.next(after: &other) == 7)
        #expect(turns.next(after: &one) == nil && turns.next(after: &other) == nil)
    }

    @Test("Nothing is given twice and nothing is left, whoever asks", arguments: 0..<20)
    func all(threads: Int) {
        let rows = (0..<200).map { $0 / (1 + threads) }
        let turns = Turns(rows)
        var owns = [Int?](repeating: nil, count: threads + 1)
        var given: [Int] = []
        var step = 0
        while let position = turns.next(after: &owns[(step * 7) % owns.count]) {
            given.append(position)
            step += 1
        }
        #expect(given.sorted() == Array(0..<200))
    }
}
