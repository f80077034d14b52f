import Foundation
package import SyncModel
import SyncSystem

import struct Synchronization.Atomic

/// Writes to standard output and standard error; nothing else does.
///
/// Standard output carries data: JSON lines, or what a verb lists. Standard error carries progress and messages.
/// A progress line on a terminal is removed before anything else is written and comes back with the next draw.
package final class Output: Sendable {
    private struct State {
        var events: [UInt8] = []
        /// Progress lines on the terminal; the cursor is at the end of the last.
        var progressLines = 0
        var isOutputBroken = false
    }

    /// Why the last failed write to standard output failed, such as for a full disk.
    static var lost: Errno? {
        let code = lostCode.load(ordering: .relaxed)
        return code == 0 ? nil : Errno(rawValue: code)
    }
    private static let lostCode = Atomic<Int32>(0)

    private let state = Mutex(State())
    private let standardOutput: Int32
    private let standardError: Int32
    private let isQuiet: Bool
    private let hasColour: Bool
    /// Whether data and messages are read on terminals that show only ASCII.
    private let isPlain: (output: Bool, error: Bool)

    /// Events are buffered up to this many **bytes**: one write(2) for each of 100,000 files would be slow.
    private static let eventBufferSize = 16 << 10

    /// Writes to these descriptors; `quiet` suppresses messages, but never warnings and errors.
    package init(
        quiet: Bool = false, hasColour: Bool = false, standardOutput: Int32 = STDOUT_FILENO,
        standardError: Int32 = STDERR_FILENO
    ) {
        self.isQuiet = quiet
        self.hasColour = hasColour
        isPlain = (PlainText.isWanted(on: standardOutput), PlainText.isWanted(on: standardError))
        self.standardOutput = standardOutput
        self.standardError = standardError
    }

    /// Data: one line on standard output; without `flushing`, at the latest with the next ``flush()``.
    package func line(_ text: String, flushing: Bool = true) {
        put(Array((isPlain.output ? PlainText.of(text) : text).utf8), flushing: flushing)
    }

    /// Data: one JSON object as a line on standard output, at the latest with the next ``flush()``.
    package func event(_ json: JSONLine, flushing: Bool = false) { put(json.bytes, flushing: flushing) }

    /// For people, on standard error; nothing when quiet.
    package func message(_ text: String) { if !isQuiet { say(text) } }

    /// For people, on standard error, also when quiet.
    package func warning(_ text: String) { say("syncagent: \(coloured("warning:", 33)) \(text)") }

    /// The reason why the command fails; on standard error, also when quiet.
    package func error(_ text: String) { say("\(coloured("syncagent:", 31)) \(text)") }

    /// Text in a colour of ECMA-48, if colours are enabled.
    private func coloured(_ text: String, _ colour: Int) -> String {
        hasColour ? "\u{1B}[\(colour)m\(text)\u{1B}[m" : text
    }

    /// Whether what is written to standard output is lost: its reader has left, which shows before the next line, or
    /// the disk is full.
    var isBroken: Bool { state.withLock { $0.isOutputBroken } || hasNoReader(standardOutput) }

    /// Writes out what waits.
    package func flush() { state.withLock { writeEvents(&$0) } }

    /// Replaces the progress lines. Each must fit into the terminal's width, and all into its height.
    package func drawProgress(_ lines: [String]) {
        state.withLock { state in
            let lines = isPlain.error ? lines.map(PlainText.of) : lines
            let text = lines.joined(separator: "\u{1B}[K\n")
            let below = lines.count < state.progressLines ? "\u{1B}[J" : ""
            _ = writeAll(Array("\(Self.start(state))\(text)\u{1B}[K\(below)".utf8), to: standardError)
            state.progressLines = lines.count
        }
    }

    /// Moves the cursor to the beginning of the first progress line. CUU, ECMA-48 section 8.3.22.
    private static func start(_ state: State) -> String {
        state.progressLines > 1 ? "\r\u{1B}[\(state.progressLines - 1)A" : "\r"
    }

    /// Removes the progress lines.
    package func clearProgress() { state.withLock { eraseProgress(&$0) } }

    private func put(_ bytes: [UInt8], flushing: Bool) {
        state.withLock { state in
            guard !state.isOutputBroken else { return }
            state.events.append(contentsOf: bytes)
            state.events.append(0x0A)
            if flushing || state.events.count >= Self.eventBufferSize { writeEvents(&state) }
        }
    }

    private func say(_ text: String) {
        state.withLock { state in
            writeEvents(&state)
            eraseProgress(&state)
            _ = writeAll(Array("\(isPlain.error ? PlainText.of(text) : text)\n".utf8), to: standardError)
        }
    }

    private func writeEvents(_ state: inout State) {
        guard !state.events.isEmpty else { return }
        eraseProgress(&state)
        // A reader that has closed the pipe (EPIPE) ends the listing, but never the work.
        let code = writeAll(state.events, to: standardOutput)
        state.isOutputBroken = code != nil
        if let code, code != .brokenPipe { Self.lostCode.store(code.rawValue, ordering: .relaxed) }
        state.events.removeAll(keepingCapacity: true)
    }

    private func eraseProgress(_ state: inout State) {
        guard state.progressLines > 0 else { return }
        let below = state.progressLines > 1 ? "\u{1B}[J" : "\u{1B}[K"
        _ = writeAll(Array("\(Self.start(state))\(below)".utf8), to: standardError)
        state.progressLines = 0
    }
}

/// Writes every byte to a descriptor, however many calls it takes.
///
/// - Returns: Why not all bytes were written.
func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Errno? {
    bytes.withUnsafeBytes { SyncSystem.writeAll($0, to: descriptor) }
}

/// Text for terminals whose locale has no UTF-8: only ASCII.
enum PlainText {
    /// Whether a descriptor is such a terminal.
    static func isWanted(on descriptor: Int32) -> Bool {
        isTerminal(descriptor) && EnvironmentPaths.ofProcess.isASCIIOnly
    }

    /// The mark for the rest of a text that was cut.
    static func ellipsis(on descriptor: Int32) -> String { isWanted(on: descriptor) ? "..." : "…" }

    /// Replaces known signs by their ASCII forms. Other characters, such as the letters of a name, are written as by
    /// ``SyncModel/escaped(_:)``.
    static func of(_ text: String) -> String {
        guard !text.utf8.allSatisfy({ $0 < 0x80 }) else { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            if scalar.isASCII {
                result.unicodeScalars.append(scalar)
            } else {
                result += signs[scalar] ?? "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }

    /// The signs of our messages, and of messages of libraries and systems.
    static let signs: [Unicode.Scalar: String] = [
        "…": "...", "“": "\"", "”": "\"", "„": "\"", "‘": "'", "’": "'", "–": "-", "—": "-", "−": "-", "→": "->",
        "←": "<-", "×": "x", "≤": "<=", "≥": ">=", "≠": "!=", "±": "+-", "°": " deg", "µ": "u", "·": ".", "•": "*",
        "█": "#", "░": ".", "\u{A0}": " ",
    ]
}
