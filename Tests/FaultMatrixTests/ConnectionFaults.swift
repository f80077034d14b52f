import SyncPlugins
import SyncTestKit
import SyncTransfer

extension MatrixFault {
    /// Connections that are refused, silent, or end in the middle.
    static let connections: [MatrixFault] = [
        MatrixFault("A refused connection is waited for until the port answers [F001]") { fault in
            fault.before = { try $0.server.closePort() }
            fault.during = { stage in
                try await Task.sleep(for: .milliseconds(150))
                try stage.server.openPort()
            }
        },
        MatrixFault("A port that stays closed fails at the resource deadline [F001]") { fault in
            fault.before = { try $0.server.closePort() }
            fault.configure = { $0.resourceDeadline = .milliseconds(300) }
            fault.outcome = { _ in .fails([.unreachable, .timedOut]) }
        },
        MatrixFault(
            "A server that takes the request and never answers is asked again [F002]", first: { _ in [.silence] }),
        MatrixFault("A server that takes the connection and reads nothing is asked again [F002]") { fault in
            fault.before = { $0.server.scriptConnections(.ignore, .serve) }
        },
        MatrixFault("A TLS handshake that stalls is given up and tried again [F003]") { fault in
            fault.setting = .tls(.good)
            fault.before = { $0.server.scriptConnections(.ignore, .serve) }
        },
        MatrixFault("A connection closed at once is tried again [F004]") { fault in
            fault.before = { $0.server.scriptConnections(.drop, .reset, .serve) }
        }, MatrixFault("An end in place of an answer is tried again [F004]", first: { _ in [.dropped] }),
        MatrixFault(
            "An end within the head of an answer is tried again [F004]",
            first: { _ in [.raw("HTTP/1.1 200 OK\r\nContent-Le")] }),
        MatrixFault("A drop directly behind the headers [F004]", first: { [$0.good.dropping(at: 0)] }),
        MatrixFault("A drop after one byte [F004]", first: { [$0.good.dropping(at: 1)] }),
        MatrixFault("Drops at odd places, one after another [F004]") { fault in
            fault.answer = { question in
                // Each answer brings a fifth of the rest, at least 4 KB, so it ends after some ten answers.
                let piece = max(4_001, question.bodyCount / 5)
                return piece < question.bodyCount ? question.good.dropping(at: piece) : question.good
            }
        },
        MatrixFault("A drop behind the last byte is no fault [F005]") { fault in
            fault.answer = { $0.good.dropping(at: $0.bodyCount) }
            fault.check = { stage, situation in
                if !situation.isDone { try require(stage.server.log.requestCount == 1, "asked more than once") }
            }
        },
        MatrixFault(
            "A reset behind the last byte is no fault [F005 F006]", always: { $0.good.resetting(at: $0.bodyCount) }),
        MatrixFault("A reset in place of an answer is tried again [F006]", first: { _ in [.reset] }),
        MatrixFault("A reset in the middle is continued [F006]", first: { [$0.good.resetting(at: $0.bodyCount / 2)] }),
        MatrixFault(
            "A reset before the last byte is continued [F006]", first: { [$0.good.resetting(at: $0.bodyCount - 1)] }),
        MatrixFault(
            "A body shorter than its length is continued [F007 R7]", first: { [$0.good.dropping(at: $0.bodyCount - 1)] }
        ),
        MatrixFault(
            "A short body without a length and a clean end is continued [F008]",
            first: { [$0.good.withoutLength().dropping(at: $0.bodyCount / 2)] }),
        MatrixFault("A body without a length that is whole is whole [F008]", always: { $0.good.withoutLength() }),
        MatrixFault("The network goes away in the middle and comes back [F049]") { fault in
            fault.answer = { question in
                question.nth == 1 ? question.good.stalling(at: question.bodyCount / 2) : question.good
            }
            fault.during = { stage in
                try await Task.sleep(for: .milliseconds(100))
                try stage.server.closePort()
                try await Task.sleep(for: .milliseconds(100))
                try stage.server.openPort()
            }
        },
        MatrixFault(
            "A connection that falls silent is left after the idle time [F050]",
            first: { [$0.good.stalling(at: $0.bodyCount / 3)] }),
        MatrixFault("A slow and steady server is not taken for a dead one [F052]") { fault in
            // In all longer than the idle time, each wait shorter.
            fault.answer = { $0.good.dripping(max(1, $0.bodyCount / 12), every: .milliseconds(120)) }
            fault.check = { stage, situation in
                if !situation.isDone { try require(stage.server.log.requestCount == 1, "a false stall") }
            }
        },
        MatrixFault("A server that sends a byte now and then fails at the resource deadline [F037]") { fault in
            fault.answer = { $0.good.dripping(1, every: .milliseconds(200)) }
            fault.configure = { $0.resourceDeadline = .milliseconds(700) }
            // One byte that is missing arrives in time.
            fault.outcome = { $0.resume == .atLast ? .delivered : .fails([.timedOut]) }
        },
        MatrixFault("A name that does not resolve fails at the resource deadline [F046]") { fault in
            fault.host = "no-such-host.invalid"
            fault.configure = { $0.resourceDeadline = .milliseconds(500) }
            fault.outcome = { _ in .fails([.unreachable, .timedOut]) }
        },
    ]
}
