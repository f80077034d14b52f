/// One origin's queue: the highest priority first, with a lane for small transfers.
///
/// Large transfers go first because the last large one determines the end of the run, but a small one must not wait for
/// all of them. No operation walks the queue.
struct TransferQueue<Element> {
    private typealias Entry = (priority: Int, sequence: UInt64, length: UInt64, element: Element)

    private var large = Heap<Entry>(TransferQueue.precedes)
    private var small = Heap<Entry>(TransferQueue.precedes)
    private var nextSequence: UInt64 = 0
    /// **Bytes** queued. An element that left in another way counts until its turn comes.
    private(set) var bytes: UInt64 = 0

    var isEmpty: Bool { large.isEmpty && small.isEmpty }
    var count: Int { large.count + small.count }

    /// One of the elements that are next; it may have left in another way.
    var first: Element? { (large.first ?? small.first)?.element }

    /// The highest queued priority.
    var topPriority: Int? {
        switch (large.first?.priority, small.first?.priority) {
        case (let one?, let other?): max(one, other)
        case (let one, let other): one ?? other
        }
    }

    /// Adds an element behind all others of the same priority.
    mutating func insert(_ element: Element, priority: Int, isSmall: Bool, length: UInt64 = 0) {
        let entry = (priority, nextSequence, length, element)
        nextSequence += 1
        bytes &+= length
        if isSmall { small.insert(entry) } else { large.insert(entry) }
    }

    /// Takes the next element: a small one if large transfers are running and no small one is.
    mutating func popFirst(runningSmall: Int, runningLarge: Int) -> Element? {
        let entry: Entry?
        if runningLarge > 0, runningSmall == 0, !small.isEmpty {
            entry = small.popFirst()
        } else if let first = small.first, large.first.map({ Self.precedes(first, $0) }) ?? true {
            entry = small.popFirst()
        } else {
            entry = large.popFirst()
        }
        bytes &-= entry?.length ?? 0
        return entry?.element
    }

    /// Removes all elements and returns them with their priorities, in no order.
    mutating func removeAll() -> [(element: Element, priority: Int)] {
        bytes = 0
        return (large.removeAll() + small.removeAll()).map { ($0.element, $0.priority) }
    }

    private static func precedes(_ one: Entry, _ other: Entry) -> Bool {
        one.priority != other.priority ? one.priority > other.priority : one.sequence < other.sequence
    }
}
