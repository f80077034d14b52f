import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct SmallValueTests {
    @Test("Exit statuses are those of the contract [G16]")
    func exitStatuses() {
        #expect(
            ExitStatus.allCases.map(\.rawValue) == [0, 1, 2, 5, 64, 65, 66, 69, 73, 74, 75, 77, 78, 130, 143]
        )
        #expect(ExitStatus.dataInvalid.rawValue == 65)
    }

    @Test("A codec is named in a manifest as it is read from one", arguments: Codec.allCases)
    func codecs(_ codec: Codec) {
        #expect(Codec(name: codec.name) == codec)
    }

    @Test("Other names are no codec", arguments: ["", "None", "gzip", "zstd "])
    func noCodecs(_ name: String) {
        #expect(Codec(name: name) == nil)
    }
}
