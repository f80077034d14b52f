import SyncPlugins
import SyncTestKit

extension MatrixFault {
    /// Ranges that are not served as asked.
    static let ranges: [MatrixFault] = [
        MatrixFault(
            "A server that ignores ranges serves all the same [F011 R5 S129]", always: { $0.good.ignoringRanges() }),
        MatrixFault("A middlebox that strips Range is no different [F059]") { fault in
            fault.answer = { $0.good.ignoringRanges().setting("Accept-Ranges", "bytes") }
        },
        MatrixFault(
            "A range that begins earlier is skipped into [F012]", always: { $0.good.shiftingRanges(by: -7_000) }),
        MatrixFault("A range that begins later is thrown away [F013]", always: { $0.good.shiftingRanges(by: 1) }),
        MatrixFault(
            "A range that begins later, once, is asked again [F013]", first: { [$0.good.shiftingRanges(by: 500)] }),
        MatrixFault("A wrong total, once, is asked again [F014]", first: { [$0.good.withTotal(7)] }),
        MatrixFault("A wrong total that stays is refused [F014]") { fault in
            fault.answer = { $0.good.withTotal(UInt64($0.object.bytes.count + 1)) }
            fault.outcome = { $0.asksForRange ? .fails([.badAnswer]) : .delivered }
        }, MatrixFault("A total that is not told is no fault [F014]", always: { $0.good.withUnknownTotal() }),
        MatrixFault(
            "206 without Content-Range is asked again without a range [F015 S159]",
            always: { $0.good.withoutContentRange() }),
        MatrixFault(
            "206 with the Content-Range of a 416 is asked again without a range [F015]",
            always: { $0.good.withContentRange("bytes */\($0.object.bytes.count)") }),
        MatrixFault(
            "206 with nonsense in Content-Range is asked again without a range [F015]",
            always: { $0.good.withContentRange("bytes 9-3/99999999999999999999999") }),
        MatrixFault(
            "206 as multipart/byteranges is refused, and asked again without a range [F016 R9]",
            always: { $0.good.withMultipartRanges() }),
        MatrixFault("416 is asked again without a range [F017 F018]", always: { $0.good.refusingRanges() }),
        MatrixFault("416, once, is asked again [F018 R6]", first: { [$0.good.refusingRanges()] }),
        MatrixFault("An ETag that changes between ranges over the same bytes costs no wrong byte [F019]") { fault in
            fault.answer = { question in
                var object = question.object
                object.etag = "\"version-\(question.nth)\""
                return question.nth < 3
                    ? FaultAnswer.object(object).dropping(at: question.bodyCount / 2) : .object(object)
            }
        },
        MatrixFault("Another version between ranges is noticed by its bytes [F019 R10]") { fault in
            fault.answer = { question in
                if question.nth == 1 { return question.good.dropping(at: question.bodyCount / 2) }
                return .object(ServedObject.patterned(size: question.object.bytes.count, seed: 77))
            }
            fault.outcome = { $0.isDone ? .delivered : .fails([.stoppedBySink]) }
        },
        MatrixFault("After an answer without a byte the same is asked for again [F007 S96]") { fault in
            fault.answer = { $0.nth == 1 ? $0.good.dropping(at: 0) : $0.good }
            fault.check = { stage, situation in
                guard !situation.isDone else { return }
                let asked = stage.server.log.entries.map(\.request)
                try require(asked.count > 1, "it was asked for once")
                let ranges = Set(asked.map { $0.header("range") })
                try require(ranges.count == 1, "ranges: \(ranges)")
            }
        },
        MatrixFault("Another version without validators is noticed by its bytes [F019]") { fault in
            fault.answer = { question in
                if question.nth == 1 { return question.good.withoutValidators().dropping(at: question.bodyCount / 2) }
                return .object(ServedObject.patterned(size: question.object.bytes.count, seed: 77)).withoutValidators()
            }
            fault.outcome = { $0.isDone ? .delivered : .fails([.stoppedBySink]) }
        },
        MatrixFault("A weak ETag is never sent in If-Range [F020]") { fault in
            fault.answer = { question in
                var object = question.object
                object.lastModified = nil
                let answer = FaultAnswer.object(object).withWeakETag()
                return question.nth == 1 ? answer.dropping(at: question.bodyCount / 2) : answer
            }
            fault.check = { stage, _ in
                let sent = stage.server.log.values(of: "if-range")
                try require(!sent.contains { $0.hasPrefix("W/") }, "sent If-Range: \(sent)")
            }
        },
        MatrixFault("A strong ETag is sent in If-Range after a break [F019 F020 R2]") { fault in
            fault.answer = { $0.nth == 1 ? $0.good.dropping(at: $0.bodyCount / 2) : $0.good }
            fault.check = { stage, situation in
                guard !situation.isDone, situation.resume != .atLast else { return }
                let sent = stage.server.log.entries.last?.request.header("if-range")
                try require(sent == Situation.object.etag, "sent If-Range: \(sent ?? "nothing")")
            }
        },
    ]
}
