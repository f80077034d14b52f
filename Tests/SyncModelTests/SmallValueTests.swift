import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct SmallValueTests {
    @Test("Exit statuses are those of the contract [G16]")
    func exitStatuses() {
        #expect(ExitStatus.allCases.map(\.rawValue) == [0, 1, 2, 5, 64, 65, 66, 69, 73, 74, 75, 77, 78, 130, 143])
        #expect(ExitStatus.dataInvalid.rawValue == 65)
    }

    @Test("A codec is named in a manifest as it is read from one", arguments: Codec.allCases)
    func codecs(_ codec: Codec) { #expect(Codec(name: codec.name) == codec) }

    @Test("Sums and differences that do not fit end at the nearest number that does")
    func saturation() {
        #expect(Int64.max.saturatingAdd(1) == .max && Int64.min.saturatingAdd(-1) == .min)
        #expect(Int64.min.saturatingSubtract(1) == .min && Int64.max.saturatingSubtract(-1) == .max)
        #expect(UInt64.max.saturatingAdd(7) == .max && UInt64(3).saturatingSubtract(4) == 0)
        #expect(Int64(3).saturatingAdd(4) == 7 && Int64(3).saturatingSubtract(4) == -1)
    }

    @Test("Other names are no codec", arguments: ["", "None", "gzip", "zstd "])
    func noCodecs(_ name: String) {
        #expect(Codec(name: name) == nil)
    }
}
