import SyncPlugins
import Synchronization

extension TransportContract {
    /// Bytes arrive, in order, where they belong.
    static var deliveryRules: [Rule] {
        [
            Rule("An object arrives whole, in order, with one request") { bench in
                let run = bench.start()
                let report = try await bench.deliver(run, bench.object.bytes[...])
                try expect(report.requests == 1, "told \(report.requests) requests")
                try expect(report.bytesReceived == 300_000, "told \(report.bytesReceived) bytes")
                try expect(report.sourceIndex == 0, "told source \(report.sourceIndex)")
                try expect(report.currentURL == bench.server.url("/a"), "told URL \(report.currentURL)")
                try expect(report.response.objectSize == 300_000, "told no size")
                try expect(report.response.validator.etag == bench.object.etag, "told no ETag")
                try expect(run.sink.calls.first == .begin(status: 200, bodyOffset: 0), "began otherwise")
            },
            Rule("A range arrives alone, at its offset") { bench in
                var behaviour = CollectingSink.Behaviour()
                behaviour.start = 1_000
                let run = bench.start(range: 1_000..<250_000, behaviour: behaviour)
                let report = try await bench.deliver(run, bench.object.bytes[1_000..<250_000])
                try expect(run.sink.calls.first == .begin(status: 206, bodyOffset: 1_000), "began otherwise")
                try expect(bench.server.log.values(of: "range") == ["bytes=1000-249999"], "asked otherwise")
                try expect(report.bytesReceived == 249_000, "told \(report.bytesReceived) bytes")
            },
            Rule("A sink that has bytes already gets the rest only") { bench in
                var behaviour = CollectingSink.Behaviour()
                behaviour.start = 1_000
                behaviour.alreadyHere = Array(bench.object.bytes[1_000..<5_000])
                let run = bench.start(range: 1_000..<250_000, behaviour: behaviour)
                try await bench.deliver(run, bench.object.bytes[1_000..<250_000])
            },
            Rule("A server without ranges gives the same bytes, and none beyond the range") { bench in
                bench.server.script("/a", .object(bench.object).ignoringRanges())
                var behaviour = CollectingSink.Behaviour()
                behaviour.start = 1_000
                let run = bench.start(range: 1_000..<2_000, behaviour: behaviour) { $0.objectSize = 300_000 }
                try await bench.deliver(run, bench.object.bytes[1_000..<2_000])
            },
            Rule("A part that begins before the range and ends behind it gives the range alone") { bench in
                let wide = FaultAnswer.object(bench.object).ignoringRanges().withStatus(206)
                bench.server.script("/a", wide.setting("Content-Range", "bytes 0-299999/300000"))
                var behaviour = CollectingSink.Behaviour()
                behaviour.start = 1_000
                let run = bench.start(range: 1_000..<2_000, behaviour: behaviour)
                try await bench.deliver(run, bench.object.bytes[1_000..<2_000])
                try expect(run.sink.calls.first == .begin(status: 206, bodyOffset: 0), "began otherwise")
            },
            Rule("An empty object begins and ends well") { bench in
                bench.server.serve(ServedObject([]), at: "/empty")
                let run = bench.start([bench.server.url("/empty")])
                try await bench.deliver(run, [])
                try expect(run.sink.beginCount == 1, "began \(run.sink.beginCount) times")
            },
            Rule("A pause holds the bytes back; resume brings them again, and again") { bench in
                let transport = bench.transport
                let id = bench.comingID
                var behaviour = CollectingSink.Behaviour()
                behaviour.pauseEvery = 40_000
                behaviour.onPause = { transport.resume(id) }
                let run = bench.start(behaviour: behaviour)
                try await bench.deliver(run, bench.object.bytes[...])
                let pauses = run.sink.calls.filter { if case .paused = $0 { true } else { false } }
                try expect(pauses.count >= 2, "paused \(pauses.count) times")
            },
            Rule("A paused transfer waits, however long, and is not taken for a stall") { bench in
                let paused = Mutex(false)
                var behaviour = CollectingSink.Behaviour()
                behaviour.pauseEvery = 100_000
                let transport = bench.transport
                let id = bench.comingID
                // The first pause lasts longer than the idle timeout; later ones end at once.
                behaviour.onPause = {
                    let isFirst = paused.withLock { seen in
                        defer { seen = true }
                        return !seen
                    }
                    if !isFirst { transport.resume(id) }
                }
                let run = bench.start(behaviour: behaviour)
                while !paused.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(2)) }
                try await Task.sleep(for: .milliseconds(1_500))
                try expect(run.completions == 0, "ended while paused")
                transport.resume(id)
                try await bench.deliver(run, bench.object.bytes[...])
                try expect(bench.server.log.requestCount == 1, "asked again")
            },
            Rule("Resume is harmless for transfers that are not paused, or unknown") { bench in
                bench.transport.resume(TransferID(rawValue: 4_711))
                let id = bench.comingID
                let run = bench.start()
                for _ in 0..<100 { bench.transport.resume(id) }
                try await bench.deliver(run, bench.object.bytes[...])
            },
            Rule("A hundred transfers at a time arrive whole, each once") { bench in
                let objects = (0..<100).map { ServedObject.patterned(size: 5_000 + $0, seed: UInt64($0)) }
                for (index, object) in objects.enumerated() { bench.server.serve(object, at: "/many/\(index)") }
                let runs = objects.indices.map { index in
                    bench.start([bench.server.url("/many/\(index)")], limit: 10_000)
                }
                for (run, object) in zip(runs, objects) { try await bench.deliver(run, object.bytes[...]) }
                let totals = bench.transport.totals
                try expect(totals.requests == 100, "counted \(totals.requests) requests")
                try expect(totals.bytesReceived == UInt64(bench.server.log.bytesSent), "counted other bytes")
            },
            Rule("A known version is confirmed with 304 and no bytes") { bench in
                let run = bench.start { $0.knownValidator = Validator(etag: bench.object.etag) }
                let report = try await bench.deliver(run, [])
                try expect(report.response.status == 304, "status \(report.response.status)")
            },
        ]
    }

    /// Transfers end once, in the way asked for.
    static var endingRules: [Rule] {
        [
            Rule("A sink that stops ends the transfer, and gets nothing more") { bench in
                var behaviour = CollectingSink.Behaviour()
                behaviour.stopAfter = 1
                let run = bench.start(behaviour: behaviour)
                let error = try await bench.failure(run)
                try expect(error.code == .stoppedBySink, "ended with \(error.code.name)")
                guard case .stopped = run.sink.calls.last else { throw TestKitError("called after the stop") }
            },
            Rule("No byte beyond the limit") { bench in
                let run = bench.start(limit: 1_000)
                let error = try await bench.failure(run)
                try expect(error.code == .tooLarge, "ended with \(error.code.name)")
                try expect(run.sink.bytes.count <= 1_000, "delivered \(run.sink.bytes.count) bytes")
            },
            Rule("A cancel before the start ends the transfer before it begins") { bench in
                bench.transport.cancel(bench.comingID)
                let run = bench.start()
                let error = try await bench.failure(run)
                try expect(error.code == .cancelled, "ended with \(error.code.name)")
                try expect(run.sink.calls.isEmpty, "called the sink")
            },
            Rule("A cancel ends a running transfer") { bench in
                bench.server.script("/a", .object(bench.object).stalling(at: 1_000))
                let id = bench.comingID
                let run = bench.start()
                try await bench.waitForRequests(1)
                bench.transport.cancel(id)
                let error = try await bench.failure(run)
                try expect(error.code == .cancelled, "ended with \(error.code.name)")
            },
            Rule("A cancel ends a paused transfer") { bench in
                let id = bench.comingID
                let transport = bench.transport
                var behaviour = CollectingSink.Behaviour()
                behaviour.pauseEvery = 1
                behaviour.onPause = { transport.cancel(id) }
                let error = try await bench.failure(bench.start(behaviour: behaviour))
                try expect(error.code == .cancelled, "ended with \(error.code.name)")
            },
            Rule("A second cancel and a late one are harmless") { bench in
                let id = bench.comingID
                let run = bench.start()
                try await bench.deliver(run, bench.object.bytes[...])
                bench.transport.cancel(id)
                bench.transport.cancel(id)
                try await bench.deliver(bench.start(), bench.object.bytes[...])
            },
            Rule("Shutdown ends what runs and what waits, and a start after it") { bench in
                bench.server.script("/a", .silence)
                let runs = (0..<50).map { _ in bench.start() }
                try await bench.waitForRequests(1)
                bench.transport.shutdown()
                for run in runs {
                    let error = try await bench.failure(run)
                    try expect(error.code == .cancelled, "ended with \(error.code.name)")
                }
                let late = try await bench.failure(bench.start())
                try expect(late.code == .cancelled || late.code == .misuse, "ended with \(late.code.name)")
            },
            Rule("A final status that is no success begins no body") { bench in
                bench.server.script("/a", .status(404, text: "nothing here"))
                let run = bench.start()
                let error = try await bench.failure(run)
                try expect(error.code == .badStatus(404), "ended with \(error.code.name)")
                try expect(run.sink.calls.isEmpty, "called the sink")
            },
        ]
    }

    /// Faults that another attempt or source cures.
    static var retryRules: [Rule] {
        [
            Rule("A broken connection is taken up where it broke") { bench in
                bench.server.script("/a", .object(bench.object).dropping(at: 100_000), .object(bench.object))
                let run = bench.start()
                let report = try await bench.deliver(run, bench.object.bytes[...])
                try expect(run.sink.beginCount == 2, "began \(run.sink.beginCount) times")
                try expect(report.requests == 2, "told \(report.requests) requests")
                try expect(report.bytesReceived == 300_000, "received \(report.bytesReceived) bytes")
            },
            Rule("A server that is busy is asked again") { bench in
                bench.server.script("/a", .unavailable(), .object(bench.object))
                let report = try await bench.deliver(bench.start(), bench.object.bytes[...])
                try expect(report.requests == 2, "told \(report.requests) requests")
            },
            Rule("The next source is asked when one has not got it") { bench in
                let urls = [bench.server.url("/none"), bench.server.url("/a")]
                let report = try await bench.deliver(bench.start(urls), bench.object.bytes[...])
                try expect(report.sourceIndex == 1, "told source \(report.sourceIndex)")
            },
            Rule("A redirect leads on, and is counted") { bench in
                bench.server.script("/from", .redirect(to: "/a"))
                let report = try await bench.deliver(bench.start([bench.server.url("/from")]), bench.object.bytes[...])
                try expect(report.requests == 2, "told \(report.requests) requests")
                try expect(report.currentURL == bench.server.url("/a"), "told URL \(report.currentURL)")
            },
            Rule("Totals count every request and every byte of a body") { bench in
                bench.server.script("/from", .redirect(to: "/a"))
                bench.server.script("/a", .object(bench.object).dropping(at: 5_000), .object(bench.object))
                try await bench.deliver(bench.start([bench.server.url("/from")]), bench.object.bytes[...])
                let totals = bench.transport.totals
                let log = bench.server.log
                try expect(totals.requests == UInt64(log.requestCount), "counted \(totals.requests) requests")
                try expect(totals.bytesReceived == UInt64(log.bytesSent), "counted \(totals.bytesReceived) bytes")
            },
            Rule("A blamed source is asked after the others") { bench in
                bench.server.serve(bench.object, at: "/b")
                let urls = [bench.server.url("/a"), bench.server.url("/b")]
                try await bench.deliver(bench.start(urls), bench.object.bytes[...])
                bench.transport.reportFault(url: bench.server.url("/a"), reason: "wrong bytes")
                let report = try await bench.deliver(bench.start(urls), bench.object.bytes[...])
                try expect(report.sourceIndex == 1, "asked the blamed source")
            },
        ]
    }
}
