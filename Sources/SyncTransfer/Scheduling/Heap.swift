/// A binary heap: the first element is found in O(1) and taken in O(log *n*).
struct Heap<Element> {
    private var elements: [Element] = []
    private let precedes: (Element, Element) -> Bool

    /// - Parameter precedes: A strict weak ordering.
    init(_ precedes: @escaping (Element, Element) -> Bool) { self.precedes = precedes }

    var isEmpty: Bool { elements.isEmpty }
    var count: Int { elements.count }
    /// The element that ``popFirst()`` will take.
    var first: Element? { elements.first }

    mutating func insert(_ element: Element) {
        elements.append(element)
        var child = elements.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard precedes(elements[child], elements[parent]) else { return }
            elements.swapAt(child, parent)
            child = parent
        }
    }

    mutating func popFirst() -> Element? {
        guard let last = elements.popLast() else { return nil }
        guard let first = elements.first else { return last }
        elements[0] = last
        var parent = 0
        while true {
            var best = parent
            let left = 2 * parent + 1
            let right = left + 1
            if left < elements.count, precedes(elements[left], elements[best]) { best = left }
            if right < elements.count, precedes(elements[right], elements[best]) { best = right }
            guard best != parent else { return first }
            elements.swapAt(parent, best)
            parent = best
        }
    }

    /// Removes all elements and returns them, in no order.
    mutating func removeAll() -> [Element] {
        defer { elements = [] }
        return elements
    }
}
