import ArgumentParser
import SyncModel

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Look for problems with the state, the sessions, the configuration, the agent and this machine.",
        discussion: """
            Loads configuration, plugins and schedules as a pull does and judges sessions as 'syncagent report' does, \
            each since its last run. Prints one line for each finding, with what to do about it; notes are for \
            information and need no action. Starts no agent and changes nothing, except that it sets a damaged state \
            aside, as every command does. Exit status: 0; with --strict, 2 if there is a finding.
            """)

    @Flag(help: "Exit with 2 if there is a finding; notes do not count.") var strict = false

    @Flag(help: "Print JSON, one object per line.") var json = false

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        var findings = Findings()
        let store = findings.examineState(state)
        await findings.examineAgent(state)
        findings.examineConfiguration(state)
        if let store { findings.examineSessions(store) }
        findings.examineSchedules(state)
        findings.examineTrust(state)
        findings.examineMachine(state)

        for finding in findings.all { output.line(json ? finding.json.text : finding.text) }
        let count = findings.all.count { $0.isProblem }
        if !json { output.message(count == 0 ? "No problems found." : "Findings: \(count).") }
        if strict, count > 0 { throw CommandFailure(.incomplete) }
    }
}

/// The findings of an examination.
struct Findings: Sendable {
    struct Finding: Sendable, Equatable {
        /// Whether something is wrong; otherwise it is only worth knowing.
        var isProblem: Bool
        /// The subject: `state`, `agent`, `session NAME`, `machine`.
        var subject: String
        var what: String
        var advice: String?

        var text: String {
            let mark = isProblem ? "problem" : "note   "
            return "\(mark)  \(subject): \(what)" + (advice.map { " - \($0)" } ?? "")
        }

        var json: JSONLine {
            JSONLine.object { line in
                line.field("level", isProblem ? "problem" : "note")
                line.field("subject", subject)
                line.field("finding", what)
                line.field("advice", optional: advice)
            }
        }
    }

    private(set) var all: [Finding] = []

    mutating func problem(_ subject: String, _ what: String, _ advice: String) {
        all.append(Finding(isProblem: true, subject: subject, what: what, advice: advice))
    }

    mutating func note(_ subject: String, _ what: String, _ advice: String? = nil) {
        all.append(Finding(isProblem: false, subject: subject, what: what, advice: advice))
    }
}
