import Testing

@testable import SyncEngine

@Suite("The queue of file parts", .timeLimit(.minutes(10)))
struct FilePartQueueTests {
    @Test("Each thread has a file of its own, in order, and helps with the longest when there is no other")
    func queue() {
        let queue = FilePartQueue([7, 7, 7, 8, 9, 9, 9, 9])
        var (one, other): (Int?, Int?) = (nil, nil)
        #expect(queue.next(after: &one) == 0)
        #expect(queue.next(after: &other) == 3)
        #expect(queue.next(after: &one) == 1)
        #expect(queue.next(after: &other) == 4, "the file of its own is done: the next untouched one")
        #expect(queue.next(after: &other) == 5)
        #expect(queue.next(after: &one) == 2)
        #expect(queue.next(after: &one) == 6, "helps")
        #expect(queue.next(after: &other) == 7)
        #expect(queue.next(after: &one) == nil && queue.next(after: &other) == nil)
    }

    @Test("Nothing is given twice and nothing is left, whoever asks", arguments: 0..<20)
    func all(threads: Int) {
        let rows = (0..<200).map { $0 / (1 + threads) }
        let queue = FilePartQueue(rows)
        var owns = [Int?](repeating: nil, count: threads + 1)
        var given: [Int] = []
        var step = 0
        while let position = queue.next(after: &owns[(step * 7) % owns.count]) {
            given.append(position)
            step += 1
        }
        #expect(given.sorted() == Array(0..<200))
    }
}
