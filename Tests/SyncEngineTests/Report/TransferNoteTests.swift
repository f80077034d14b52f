import SyncEngine
import SyncPlugins
import Testing

@Suite("What is said of transfers")
struct TransferNoteTests {
    @Test("Of a pause it is said when it ends; of a wait for a connection, until when it is tried")
    func waits() {
        func note(_ wait: Duration, _ patience: Duration?) -> String? {
            let event = TransferEvent.waitingForConnectivity(
                TransferID(rawValue: 1), url: "https://h/a", reason: "why", after: wait, patience: patience)
            return SyncEvent(transfer: event, time: 0)?.note
        }
        #expect(note(.seconds(60), nil) == "waiting for https://h: why; going on in 60 s")
        #expect(note(.seconds(3), nil) == "waiting for https://h: why")
        #expect(note(.seconds(3), .seconds(10))?.hasPrefix("waiting for https://h: why; trying until ") == true)
    }
}
