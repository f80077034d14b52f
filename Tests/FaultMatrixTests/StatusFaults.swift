import SyncPlugins
import SyncTestKit

extension MatrixFault {
    private static func hop(_ number: Int, _ path: String) -> String { "/elsewhere/\(number)\(path)" }

    /// The hop a request is at: 0 at the original URL.
    private static func position(_ question: MatrixQuestion) -> Int {
        let parts = question.request.path.split(separator: "/")
        return parts.first == "elsewhere" ? Int(parts[1]) ?? 0 : 0
    }

    private static func original(_ question: MatrixQuestion) -> String {
        position(question) == 0
            ? question.request.path
            : "/" + question.request.path.split(separator: "/").dropFirst(2).joined(separator: "/")
    }

    /// Redirects and statuses.
    static let statuses: [MatrixFault] = [
        MatrixFault("Every redirect status is followed, relative and absolute [F021]") { fault in
            fault.answer = { question in
                let statuses = [301, 302, 303, 307, 308]
                let at = position(question)
                guard at < statuses.count else { return question.good }
                let next = hop(at + 1, original(question))
                let host = question.request.header("host") ?? ""
                let location =
                    switch at {
                    case 0: next
                    case 1: "http://\(host)\(next)"
                    case 2: "//\(host)\(next)#fragment"
                    case 3: "../" + String(repeating: "../", count: 9) + next.dropFirst()
                    default: next + "?query=1"
                    }
                return .redirect(to: location, status: statuses[at])
            }
            fault.check = { stage, _ in
                try require(stage.server.log.requestCount == 6, "\(stage.server.log.requestCount) requests")
            }
        },
        MatrixFault("Ten hops are followed [F022]") { fault in
            fault.answer = { question in
                let at = position(question)
                return at < 10 ? .redirect(to: hop(at + 1, original(question))) : question.good
            }
        },
        MatrixFault(
            "Eleven hops are refused [F022]", fails: [.redirectRefused],
            always: { question in
                let at = position(question)
                return at < 11 ? .redirect(to: hop(at + 1, original(question))) : question.good
            }),
        MatrixFault(
            "A redirect to itself is refused [F022]", fails: [.redirectRefused],
            always: { .redirect(to: $0.request.target) }),
        MatrixFault(
            "A redirect in a circle is refused [F022]", fails: [.redirectRefused],
            always: { .redirect(to: hop(position($0) % 3 + 1, original($0))) }),
        MatrixFault(
            "A redirect without a target is refused [F022]", fails: [.redirectRefused], always: { _ in .status(302) }),
        MatrixFault("A redirect from https to http is refused, with both URLs named [F023]") { fault in
            fault.setting = .tls(.good)
            fault.outcome = { _ in .fails([.refusedByPolicy]) }
            fault.answer = { .redirect(to: "http://127.0.0.1:9/\($0.request.path)") }
        },
        MatrixFault("A public server may not lead to a private address [F024]") { fault in
            fault.setting = .proxy
            fault.host = "files.example"
            fault.outcome = { _ in .fails([.refusedByPolicy]) }
            fault.answer = { .redirect(to: "http://127.0.0.1:9\($0.request.path)") }
        },
        MatrixFault("A redirect to another scheme is refused [F023]") { fault in
            fault.outcome = { _ in .fails([.refusedByPolicy, .redirectRefused]) }
            fault.answer = { _ in .redirect(to: "file:///etc/passwd") }
        },
        MatrixFault("A signed link that expires in the middle leads back to the original URL [F025]") { fault in
            let links = SignedLinks(uses: 1)
            fault.answer = { question in
                if position(question) == 0 { return .redirect(to: links.sign(hop(1, original(question)))) }
                return links.admit(question.request) {
                    question.nth == 1 ? question.good.dropping(at: question.bodyCount / 2) : question.good
                }
            }
        },
        MatrixFault("A signed link that ends with 400 and XML leads back too [F025]") { fault in
            let links = SignedLinks(uses: 1, refusal: .status(400, text: "<Error><Code>ExpiredToken</Code></Error>"))
            fault.answer = { question in
                if position(question) == 0 { return .redirect(to: links.sign(hop(1, original(question)))) }
                return links.admit(question.request) {
                    question.nth == 1 ? question.good.resetting(at: question.bodyCount / 2) : question.good
                }
            }
        },
        MatrixFault("401 fails as a matter of credentials [F026]", fails: [.authentication]) { _ in
            .status(401, text: "who?").setting("WWW-Authenticate", "Bearer")
        },
        MatrixFault(
            "403 fails as a matter of credentials [F027]", fails: [.authentication], always: { _ in .status(403) }),
        MatrixFault("404 fails [F027 S120]", fails: [.badStatus(404)], always: { _ in .status(404) }),
        MatrixFault("410 fails [F027]", fails: [.badStatus(410)], always: { _ in .status(410) }),
        MatrixFault(
            "408, 425 and 429 are asked again [F028]",
            first: { _ in [.unavailable(408), .unavailable(425), .unavailable(429)] }),
        MatrixFault(
            "500, 502 and 503 are asked again [F028]",
            first: { _ in [.unavailable(500), .unavailable(502), .unavailable(503, retryAfter: "0")] }),
        MatrixFault(
            "504 with a date to come back is asked again [F028]",
            first: { _ in [.unavailable(504, retryAfter: "Wed, 21 Oct 2015 07:28:00 GMT")] }),
        MatrixFault("A server that is ill for ever fails with its status [F028]", fails: [.badStatus(503)]) { _ in
            .unavailable(503)
        },
        MatrixFault(
            "Retry-After of ten years is capped [F029]", first: { _ in [.unavailable(retryAfter: "315360000")] }),
        MatrixFault(
            "Retry-After below zero, nonsense and too large is ignored [F029]",
            first: { _ in
                [
                    .unavailable(retryAfter: "-5"), .unavailable(retryAfter: "soon"),
                    .unavailable(retryAfter: "99999999999999999999999"),
                ]
            }),
    ]
}
