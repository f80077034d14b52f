import Testing

@testable import SyncEngine

struct RegistryBaseTests {
    private static let digest = String(repeating: "5f", count: 32)

    @Test(
        "Relative URLs of a set in a registry are those of blobs: a pack's at once, others once the artifact was read")
    func resolving() throws {
        let base = manifestURL("oci://registry.test:5000/acme/maps:v1")
        #expect(base == "https://registry.test:5000/v2/acme/maps/blobs/#oci:v1")
        let pack = resolve("packs/\(Self.digest).pack", against: base)
        #expect(pack == "https://registry.test:5000/v2/acme/maps/blobs/sha256:\(Self.digest)")
        let statement = resolve("trust/1.root", against: base)
        #expect(statement == "https://registry.test:5000/v2/acme/maps/blobs/trust/1.root#oci:v1")
        let read = try #require(RegistryBase(statement))
        #expect(read.file == "trust/1.root" && read.reference == "v1" && read.text == statement)
        // Whoever resolves against that means the same set.
        #expect(RegistryBase(base)?.file == "")
        #expect(resolve("https://mirror.test/x", against: base) == "https://mirror.test/x")
        #expect(manifestURL("oci://127.0.0.1:5000/a:b").hasPrefix("http://127.0.0.1:5000/"))
        #expect(withoutSecrets(base) == "https://registry.test:5000/v2/acme/maps/blobs/")
    }

    @Test(
        "Other URLs are no bases in a registry, whatever they end with",
        arguments: [
            "https://cdn.test/manifest.json", "https://cdn.test/blobs/", "https://cdn.test/blobs/#x",
            "https://cdn.test/x#oci:v1", "#oci:", "",
        ])
    func others(_ text: String) { #expect(RegistryBase(text) == nil) }

    @Test(
        "Only the name of a pack is one: others are asked of the artifact",
        arguments: ["packs/x.pack", "packs/5f.pack", "a/packs/\(digest).pack", "packs/\(digest)"])
    func names(_ path: String) {
        let base = "https://r.test/v2/a/blobs/#oci:t"
        #expect(resolve(path, against: base) == "https://r.test/v2/a/blobs/\(path)#oci:t")
    }
}
