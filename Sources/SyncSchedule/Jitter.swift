/// How much later than others a machine begins: the same every night, spread evenly over a fleet (S136).
package enum Jitter {
    /// The delay of a schedule on a machine.
    ///
    /// FNV-1a over the two names (draft-eastlake-fnv, 64 bits), then the finalizer of MurmurHash3 (`fmix64`): FNV
    /// alone leaves the high bits of similar names similar. The machine's name does not leave the machine: the delay
    /// is all that is seen of it, machine-id(5).
    ///
    /// - Parameters:
    ///   - machine: What tells machines apart, such as the content of /etc/machine-id.
    ///   - schedule: The schedule's name.
    ///   - most: **Seconds**.
    /// - Returns: **Seconds**, 0...`most`.
    package static func delay(machine: String, schedule: String, most: Int) -> Int {
        guard most > 0 else { return 0 }
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in Array(machine.utf8) + [0] + Array(schedule.utf8) {
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3
        }
        hash = (hash ^ hash >> 33) &* 0xFF51_AFD7_ED55_8CCD
        hash = (hash ^ hash >> 33) &* 0xC4CE_B9FE_1A85_EC53
        hash ^= hash >> 33
        return Int(hash.multipliedFullWidth(by: UInt64(most) + 1).high)
    }
}
