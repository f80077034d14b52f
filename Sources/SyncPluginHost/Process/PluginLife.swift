import SyncModel
import SyncPlugins
import SyncSystem

extension PluginWorker {
    // MARK: Start

    /// Starts the plugin if there is a request and it may be started.
    func startIfWanted() {
        guard requests.count > 0, !isClosing, !restart.isGivenUp, restart.notBefore <= now else { return }
        lacksProcess = false
        do throws(PluginError) { try configuration.program.check(destination: configuration.destination) } catch {
            giveUp(error.message)
            return
        }
        do throws(ProgramError) {
            child = try PluginChild(start: configuration.program.path, variables: variables, limits: limits.process)
        } catch {
            notStarted(error)
            return
        }
        framing = LineFraming(limit: limits.line)
        queue = []
        queueStart = 0
        garbage = 0
        broken = nil
        outputIsClosed = false
        errorIsClosed = false
        unansweredSince = nil
        hungSince = nil
        endReason = nil
        enter(.starting, for: limits.start)
        ask("initialize", initialization)
    }

    private var variables: [String] {
        programVariables(configuration.environment) + [
            "SYNCAGENT_PLUGIN_PROTOCOL=\(PluginDescription.protocolVersion)"
        ]
    }

    /// Handles a failed start: the system lacks processes or memory, or the file is not a program.
    private func notStarted(_ error: ProgramError) {
        lacksProcess = error.code == .exhausted
        guard lacksProcess else {
            giveUp(error.message)
            return
        }
        restart.ended(at: now)
        endReason = error.message
        notify(.ended, error.message)
        if restart.isGivenUp { giveUp(error.message) }
    }

    private var initialization: JSONLine {
        JSONLine.object { line in
            line.field("protocol", PluginDescription.protocolVersion)
            line.field("version", configuration.version)
            line.field("point", optional: configuration.point?.rawValue)
            line.json("settings", configuration.settings)
            line.field("max_line", limits.line)
        }
    }

    /// Handles the answer to `initialize`.
    func initialized(_ answer: RPCAnswer) {
        switch answer {
        case .failure(let error): giveUp("it refused to start: \(error.text)")
        case .success(let result):
            do throws(WireFault) { _ = try PluginDescription(result, for: configuration.point) } catch {
                return giveUp(error.reason)
            }
            description = result
            enter(.ready, for: nil)
        }
    }

    // MARK: Deadlines

    func expire() {
        let now = now
        for number in requests.expired(at: now) {
            guard let entry = requests.abandon(number) else { continue }
            if entry.isSent {
                write(RPCMessage.cancel(number))
                unansweredSince = unansweredSince ?? now
            }
            let time = entry.timeout ?? .zero
            let message =
                entry.isSent
                ? "no answer to \(entry.method) within \(Figures.period(time.milliseconds))"
                : "it could not be started within \(Figures.period((time + limits.start).milliseconds))"
                    + (endReason.map { ": \($0)" } ?? "")
            entry.completion(.failure(failure(.timedOut, message)))
        }
        if let since = unansweredSince, since + limits.grace <= now {
            hungSince = since
            makeEnd("it no longer answers")
        } else if requests.abandoned.count > 256 {
            makeEnd("it did not answer 256 requests that were cancelled")
        }
        guard let due = phaseDue, due <= now else { return }
        switch phase {
        case .absent, .ready, .killed: phaseDue = nil
        case .starting:
            makeEnd("it did not answer initialize within \(Figures.period(limits.start.milliseconds))")
        case .asked:
            child?.closeInput()
            enter(.inputClosed, for: limits.shutdown)
        case .inputClosed:
            notify(.warning, "it did not exit when it was asked to shut down")
            child?.program.signalGroup(.terminate)
            enter(.terminated, for: limits.shutdown)
        case .terminated:
            notify(.warning, "it did not exit on SIGTERM either, and was killed")
            child?.program.signalGroup(.kill)
            enter(.killed, for: nil)
        }
    }

    func enter(_ next: Phase, for time: Duration?) {
        phase = next
        phaseDue = time.map { now + $0 }
    }

    // MARK: End

    /// Kills the plugin; requests that wait for an answer get none.
    ///
    /// - Parameter reason: The plugin's fault; `nil` if it has none.
    func makeEnd(_ reason: String?) {
        unansweredSince = nil
        guard let child, phase != .killed else { return }
        if let reason { endReason = reason }
        child.program.signalGroup(.kill)
        enter(.killed, for: nil)
    }
    /// From the closing of the plugin's pipes to its own exit.
    private static let lastMoment = Duration.milliseconds(500)

    /// Handles the plugin's exit, once it has happened.
    func checkForExit(_ isSignalled: Bool) {
        guard let child, isSignalled || child.program.ended < 0 || broken != nil, child.program.hasEnded else {
            // An exiting process closes its pipes first, and its exit says more than they do.
            if let broken, broken.since + Self.lastMoment <= now { breakOff(broken.reason) }
            return
        }
        // Its last answers may still be in the pipe.
        readOutput()
        readErrors()
        errorLog.finish(at: now) { notify(.output, $0) }
        if framing.hasPartialLine, endReason == nil { notify(.warning, "its last line has no end") }
        let end = child.reap()
        let reason = endReason.map { "\($0), and was ended" } ?? end
        self.child = nil
        phase = .absent
        phaseDue = nil
        unansweredSince = nil
        let lost = requests.removeSent(before: hungSince)
        if !isClosing {
            endReason = reason
            restart.ended(at: now)
            // Why it was given up has been said.
            if givenUpReason.isEmpty { notify(.ended, reason) }
        }
        var unanswered = unavailable("\(reason), before it answered")
        unanswered.wasAsked = true
        for request in lost { request.completion(.failure(unanswered)) }
        if restart.isGivenUp, !isClosing { giveUp("it is not started again; last failure: \(reason)") }
    }

    private func breakOff(_ reason: String) {
        switch phase {
        case .starting, .ready: makeEnd(reason)
        case .absent, .asked, .inputClosed, .terminated, .killed: break
        }
    }

    /// Abandons the plugin: it is not restarted, and all waiting requests fail.
    func giveUp(_ reason: String) {
        restart.giveUp(at: now)
        if givenUpReason.isEmpty {
            givenUpReason = reason
            notify(.givenUp, reason)
        }
        for request in requests.removeAll() { request.completion(.failure(unavailable(givenUpReason))) }
        makeEnd(reason)
    }

    // MARK: Words

    func failure(_ code: PluginError.Code, _ message: String) -> PluginError {
        PluginError(plugin: configuration.program.name, code: code, message: message)
    }

    func unavailable(_ message: String) -> PluginError {
        var error = failure(.unavailable, message)
        error.isExhaustion = lacksProcess
        return error
    }

    var cancelled: PluginError { failure(.cancelled, "the request was cancelled") }

    func notify(_ kind: PluginNotice.Kind, _ text: String) {
        configuration.notice(PluginNotice(plugin: configuration.program.name, kind: kind, text: text))
    }
}
