import SyncPlugins
import SyncTestKit

extension MatrixFault {
    private static func tls(
        _ name: String, _ kind: Setting.ServerKind, _ change: (inout MatrixFault) -> Void = { _ in }
    ) -> MatrixFault {
        MatrixFault(name) { fault in
            fault.setting = .tls(kind)
            change(&fault)
        }
    }

    private static func untrusted(_ name: String, _ kind: Setting.ServerKind) -> MatrixFault {
        tls(name, kind) { fault in
            fault.outcome = { _ in .fails([.tls]) }
            fault.check = { stage, _ in
                try require(stage.server.log.requestCount == 0, "sent a request to an untrusted server")
                try require(stage.server.log.connectionCount <= 2, "tried \(stage.server.log.connectionCount) times")
            }
        }
    }

    /// TLS, HTTP/2 and proxies.
    static let channels: [MatrixFault] = [
        tls("TLS without faults is no fault [F056]", .good),
        untrusted("A certificate that has expired is refused, not retried in a loop [F055]", .expired),
        untrusted("A certificate that is not valid yet is refused [F055]", .notYetValid),
        untrusted("A certificate for another name is refused [F055]", .wrongName),
        untrusted("A certificate of an unknown authority is refused [F055]", .unknownAuthority),
        untrusted("A server that speaks only TLS 1.0 is refused [F058]", .onlyTLS10),
        tls("A certificate that is renewed in the middle is taken when it is good [F056]", .good) { fault in
            fault.answer = { question in
                guard question.nth == 1, (try? question.stage.show(question.stage.renewed)) != nil else {
                    return question.good
                }
                return question.good.dropping(at: question.bodyCount / 2)
            }
        },
        tls("A certificate that changes in the middle to one that is not trusted is refused [F056]", .good) { fault in
            fault.answer = { question in
                try? question.stage.show(question.stage.untrusted)  // Else nothing is refused.
                return question.good.dropping(at: question.bodyCount / 2)
            }
            // Half of one byte is none, and half of what is missing of nothing is nothing.
            fault.outcome = { $0.isDone ? .delivered : .fails([.tls]) }
        }, tls("HTTP/2 without faults is no fault [F033]", .http2),
        tls("A stream that is reset in the middle is continued [F033]", .http2) { fault in
            fault.answer = { $0.nth == 1 ? $0.good.resettingStream(at: $0.bodyCount / 2) : $0.good }
        },
        tls("A stream that is refused is asked again [F033]", .http2) { fault in
            fault.answer = { $0.nth == 1 ? $0.good.resettingStream(at: 0, code: 7) : $0.good }
        },
        tls("A connection that goes away in the middle is continued [F033]", .http2) { fault in
            fault.answer = { $0.nth == 1 ? $0.good.goingAway(at: $0.bodyCount / 2) : $0.good }
        },
        tls("A connection that goes away after this stream is no fault [F033]", .http2) { fault in
            fault.answer = { $0.nth == 1 ? $0.good.goingAway(at: $0.bodyCount / 2, finishing: true) : $0.good }
        },
        tls("An HTTP/2 connection that is reset is continued [F006 F033]", .http2) { fault in
            fault.answer = { $0.nth == 1 ? $0.good.resetting(at: $0.bodyCount / 2) : $0.good }
        },
        tls("An HTTP/2 stream that falls silent is left after the idle time [F033 F050]", .http2) { fault in
            fault.answer = { $0.nth == 1 ? $0.good.stalling(at: $0.bodyCount / 2) : $0.good }
        }, tls("A server that allows one stream at a time serves all the same [F034]", .oneStream),
        tls("A drop without close_notify is continued [F004]", .good) { fault in
            fault.answer = { $0.nth == 1 ? $0.good.dropping(at: $0.bodyCount / 2) : $0.good }
        },
        tls("A TLS body without a length that ends early is continued [F008]", .good) { fault in
            fault.answer = { $0.nth == 1 ? $0.good.withoutLength().dropping(at: $0.bodyCount / 2) : $0.good }
        }, MatrixFault("A proxy without faults is no fault [F054]") { $0.setting = .proxy },
        MatrixFault("A proxy that wants other credentials fails as a matter of credentials [F054]") { fault in
            fault.setting = .proxy
            fault.outcome = { _ in .fails([.authentication]) }
            fault.answer = { _ in .status(407, text: "who?").setting("Proxy-Authenticate", "Basic realm=\"proxy\"") }
        },
        MatrixFault("A proxy that breaks off is asked again [F054]") { fault in
            fault.setting = .proxy
            fault.answer = { $0.nth == 1 ? $0.good.resetting(at: $0.bodyCount / 2) : $0.good }
        },
        MatrixFault("A proxy that is down is waited for [F054]") { fault in
            fault.setting = .proxy
            fault.before = { try $0.server.closePort() }
            fault.during = { stage in
                try await Task.sleep(for: .milliseconds(150))
                try stage.server.openPort()
            }
        },
    ]

    /// Every row, in the order of the catalogue's kinds.
    static let all = connections + bodies + ranges + statuses + channels
}
