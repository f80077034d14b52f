import SyncPlugins
import SyncTestKit
import SyncTransfer

extension MatrixFault {
    /// Bodies and headers that are not what they should be.
    static let bodies: [MatrixFault] = [
        MatrixFault(
            "An object longer than the manifest says is refused [F009]", fails: [.tooLarge, .badAnswer],
            always: { $0.good.appending(bytes: 1_000) }),
        MatrixFault("A body that goes on beyond the object is cut, or refused [F009 V44]") { fault in
            // A span has what it wants before the excess shows.
            fault.answer = { $0.good.appending(bytes: 300_000).withoutLength() }
            fault.mayShowTooLate = true
            fault.outcome = { _ in .fails([.tooLarge, .badAnswer]) }
        },
        MatrixFault("Wrong bytes of the right length are not taken [F010 S119 S158 V43]") { fault in
            fault.answer = { $0.good.flippingByte(at: $0.start + $0.bodyCount / 2) }
            fault.outcome = { situation in
                // The byte in the middle of the answer, unless it is not wanted.
                situation.isDone ? .delivered : .fails([.stoppedBySink])
            }
        },
        MatrixFault(
            "A captive portal's page is not taken for the file [F030]",
            first: { _ in [.captivePortal(), .captivePortal()] }),
        MatrixFault("A captive portal that stays is named as such [F030]") { fault in
            fault.configure = { $0.patience = Patience(.milliseconds(500)) }
            fault.isGivenUp = true
            fault.answer = { _ in .captivePortal() }
            fault.outcome = { _ in .fails([.badAnswer]) }
        },
        MatrixFault(
            "A content coding that was not asked for is refused [F031]", fails: [.badAnswer],
            always: { $0.good.claimingGzip() }),
        MatrixFault("Chunks that are right are no fault [F032]", always: { $0.good.chunked(size: 5_000) }),
        MatrixFault(
            "A chunk size that is no number is tried once more [F032]",
            first: { [$0.good.chunked(size: max(1, $0.bodyCount / 4), fault: .badSize)] }),
        MatrixFault(
            "A chunk without its end of line is tried once more [F032]",
            first: { [$0.good.chunked(size: max(1, $0.bodyCount / 4), fault: .missingLineEnd)] }),
        MatrixFault(
            "Chunks without the last one are tried once more [F032]",
            first: { [$0.good.chunked(size: max(1, $0.bodyCount / 4), fault: .missingEnd)] }),
        MatrixFault("A chunk size above 64 bits ends in a failure, not in an overflow [F032]") { fault in
            fault.answer = { $0.good.chunked(size: max(1, $0.bodyCount / 4), fault: .hugeSize) }
            // One byte comes before the bad chunk.
            fault.outcome = { $0.resume == .atLast ? .delivered : .fails([.badAnswer]) }
        },
        MatrixFault("A flood of trailers is cut off [F032]") { fault in
            fault.answer = { $0.nth == 1 ? $0.good.chunked(fault: .trailerFlood) : $0.good }
        },
        MatrixFault(
            "An HTTP/1.0 server without keep-alive and ranges serves all the same [F035]",
            always: { $0.good.asHTTP10() }),
        MatrixFault("A few interim answers are no fault [F036]", always: { $0.good.withInterimAnswers(5) }),
        MatrixFault(
            "A flood of interim answers is cut off [F036]", fails: [.badAnswer],
            always: { $0.good.withInterimAnswers(1_000_000) }),
        MatrixFault(
            "A flood of headers is cut off [F036]", fails: [.badAnswer], always: { $0.good.withHeaderFlood(4_000_000) }),
        MatrixFault(
            "A header of a megabyte is cut off [F036]", fails: [.badAnswer],
            always: { $0.good.withHugeHeader(1_000_000) }),
        MatrixFault("A flood of headers once is tried again [F036]", first: { [$0.good.withHeaderFlood(100_000)] }),
        MatrixFault(
            "A negative length is refused [F038]", fails: [.badAnswer], always: { $0.good.claimingLength("-1") }),
        MatrixFault(
            "Two different lengths are refused [F038]", fails: [.badAnswer],
            always: { $0.good.claimingLength("\($0.bodyCount)", "\($0.bodyCount + 1)") }),
        MatrixFault(
            "A length of 2^64 is refused [F038]", fails: [.badAnswer, .tooLarge],
            always: { $0.good.claimingLength("18446744073709551616") }),
        MatrixFault(
            "A length that is no number, once, is tried again [F038]", first: { [$0.good.claimingLength("ten")] }),
        MatrixFault("204 is no file [F039]", fails: [.badAnswer], always: { _ in .status(204) }),
        MatrixFault("205 is no file [F039]", fails: [.badAnswer], always: { _ in .status(205) }),
        MatrixFault(
            "304 in reply to an unconditional request is no file [F039]", fails: [.badAnswer],
            always: { _ in .status(304) }),
        MatrixFault("An old version in a cache is asked past [F041]") { fault in
            fault.answer = { question in
                let old = ServedObject.patterned(size: question.object.bytes.count * 7 / 8, seed: 99)
                return FaultServer.staleCache(old, fresh: question.object)(question.request)
            }
        },
        MatrixFault("A bad source leaves the others: wrong length [F042]") { fault in
            fault.hasMirror = true
            fault.answer = { $0.good.appending(bytes: 10) }
        },
        MatrixFault("A bad source leaves the others: not there [F042]") { fault in
            fault.hasMirror = true
            fault.answer = { _ in .status(404) }
        },
        MatrixFault("A bad source leaves the others: breaks off again and again [F042]") { fault in
            fault.hasMirror = true
            fault.answer = { $0.good.claimingGzip() }
        },
        MatrixFault("A pack that is cut short is refused [F043]", fails: [.badAnswer]) { question in
            .object(ServedObject(Array(question.object.bytes.dropLast(40_000))))
        },
    ]
}
