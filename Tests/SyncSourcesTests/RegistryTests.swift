import SyncModel
import Testing

@testable import SyncManifest

struct RegistryTests {
    private static let digest = "sha256:" + String(repeating: "ab", count: 32)

    @Test(
        "oci:// names a repository of a registry, at a tag or a digest",
        arguments: [
            ("oci://registry.test/acme/tiles:v1", "registry.test", "acme/tiles", "v1", "acme.tiles"),
            ("oci://Registry.test:5000/tiles", "registry.test:5000", "tiles", "latest", "tiles"),
            ("oci://[::1]:5000/a/b/c_d", "[::1]:5000", "a/b/c_d", "latest", "b.c_d"),
            ("oci://r.test/a:v1@\(digest)", "r.test", "a", digest, "a"),
            ("oci://docker.io/alpine", "registry-1.docker.io", "library/alpine", "latest", "library.alpine"),
            ("oci://docker.io/acme/tiles", "registry-1.docker.io", "acme/tiles", "latest", "acme.tiles"),
        ] as [(String, String, String, String, String)])
    func addresses(_ text: String, _ host: String, _ name: String, _ reference: String, _ project: String) throws {
        let address = try RegistryAddress(text)
        #expect(address.host == host && address.name == name && address.reference == reference)
        #expect(address.project == project)
    }

    @Test(
        "What names no artifact is refused",
        arguments: [
            "oci://", "oci://registry.test", "oci://registry.test/", "oci://registry.test/Acme", "oci:///acme/tiles",
            "oci://registry.test/../x", "oci://registry.test/a//b", "oci://registry.test/a/b:",
            "oci://registry.test/a:b:c",
            "oci://registry.test/a@sha256:12", "oci://registry.test/a@md5:12", "oci://user:secret@registry.test/a",
            "oci://registry.test/a?x", "oci://registry.test:0/a", "oci://registry.test:99999/a", "oci://a b/c",
            "oci://registry.test/a___b", "oci://registry.test/-a", "https://registry.test/a", "oci://[x]/a",
        ])
    func noAddresses(_ text: String) { #expect(throws: ListingError.self) { try RegistryAddress(text) } }

    @Test(
        "What a refused address has of secrets is not repeated [V64]",
        arguments: [
            "oci://user:secret@registry.test/a", "oci://secret@registry.test", "oci://registry.test/a:b?token=secret",
            "oci://registry.test/a#secret",
        ])
    func secrets(_ text: String) {
        let error = #expect(throws: ListingError.self) { try RegistryAddress(text) }
        #expect(error.map { "\($0)".contains("secret") } == false)
    }

    @Test("A name without its registry is told from a user name")
    func noRegistry() {
        let error = #expect(throws: ListingError.self) { try RegistryAddress("oci://tower@\(Self.digest)") }
        #expect(error?.reason.contains("write oci://HOST/NAME@sha256:HEX") == true)
    }

    @Test("Plain http is spoken on this machine alone")
    func endpoints() throws {
        #expect(try RegistryAddress("oci://registry.test/a").endpoints == ["https://registry.test"])
        #expect(try RegistryAddress("oci://127.0.0.1.test/a").endpoints == ["https://127.0.0.1.test"])
        for host in ["localhost:5000", "127.0.0.1:5000", "[::1]:5000"] {
            #expect(try RegistryAddress("oci://\(host)/a").endpoints == ["http://\(host)", "https://\(host)"])
        }
    }

    private func layer(_ title: String?, type: String = "application/octet-stream", more: String = "") -> String {
        let annotations = (title.map { "\"org.opencontainers.image.title\":\"\($0)\"" } ?? "") + more
        return
            "{\"mediaType\":\"\(type)\",\"digest\":\"\(Self.digest)\",\"size\":7,\"annotations\":{\(annotations)}}"
    }

    private func read(_ text: String) throws -> RegistryAnswer.Manifest {
        try RegistryAnswer.read(
            Array(text.utf8), prefix: "p/", platform: RegistryAnswer.Platform(system: "linux", architecture: "amd64"))
    }

    private func files(_ layers: String...) throws -> [SourceListing.File] {
        guard
            case .files(let listing) = try read(
                "{\"schemaVersion\":2,\"config\":{\"digest\":\"x\"},\"layers\":[\(layers.joined(separator: ","))]}")
        else { return [] }
        return listing.files
    }

    @Test("Layers with a title are files, whatever their type says; the empty one is none")
    func layers() throws {
        let found = try files(
            layer("a.txt"), layer("x.tgz", type: "application/vnd.oci.image.layer.v1.tar+gzip"),
            layer("dir/b.tar", type: "application/vnd.oci.image.layer.v1.tar"),
            layer(
                nil, type: "application/vnd.cncf.model.weight.v1.raw", more: "\"org.cncf.model.filepath\":\"w/1.bin\""),
            layer("./c"),
            "{\"mediaType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"x\",\"size\":2,\"data\":\"e30=\"}")
        #expect(
            found.map { String(decoding: $0.path, as: UTF8.self) } == ["a.txt", "x.tgz", "dir/b.tar", "w/1.bin", "c"])
        #expect(found.allSatisfy { $0.isKnown && $0.size == 7 && $0.urls == ["p/\(Self.digest)"] })
    }

    @Test("Layers that are packed are named and refused")
    func packed() throws {
        let cases: [(String, String)] = [
            (layer(nil, type: "application/vnd.oci.image.layer.v1.tar+gzip"), "a tar archive without a title"),
            (layer(nil, type: "application/vnd.docker.image.rootfs.diff.tar.gzip"), "a tar archive without a title"),
            (layer(nil), "no annotation says what file it is"),
            (layer("maps", type: "application/vnd.oci.image.layer.v1.tar+gzip"), "packed into a tar archive"),
            (
                layer(
                    "maps", type: "application/vnd.oci.image.layer.v1.tar+gzip",
                    more: ",\"io.deis.oras.content.unpack\":\"true\""), "packed into a tar archive"
            ),
            (
                layer(
                    nil, type: "application/vnd.cncf.model.weight.v1.tar",
                    more: "\"org.cncf.model.filepath\":\"w/1.bin\""), "in a tar archive"
            ),
        ]
        for (text, reason) in cases {
            let error = #expect(throws: ListingError.self) { try files(layer("a"), text) }
            #expect(error?.place == "layer 2" && error?.reason.contains(reason) == true, "\(String(describing: error))")
            #expect(error?.reason.contains(Self.digest) == true)
        }
    }

    @Test(
        "Hostile manifests are refused [V1]",
        arguments: [
            "", "[]", "{}", "<html>", "{\"schemaVersion\":1,\"fsLayers\":[]}", "{\"layers\":[]}", "{\"layers\":{}}",
            "{\"mediaType\":\"application/vnd.helm+json\",\"layers\":[]}",
            "{\"layers\":[{\"digest\":\"\(digest)\",\"size\":1,\"annotations\":{\"org.opencontainers.image.title\":\"../x\"}}]}",
            "{\"layers\":[{\"digest\":\"\(digest)\",\"size\":1,\"annotations\":{\"org.opencontainers.image.title\":\"/x\"}}]}",
            "{\"layers\":[{\"digest\":\"\(digest)\",\"size\":-1,\"annotations\":{\"org.opencontainers.image.title\":\"x\"}}]}",
            "{\"layers\":[{\"digest\":\"\(digest)\",\"annotations\":{\"org.opencontainers.image.title\":\"x\"}}]}",
            "{\"layers\":[{\"digest\":\"sha256:../x\",\"size\":1,\"annotations\":{\"org.opencontainers.image.title\":\"x\"}}]}",
            "{\"layers\":[{\"digest\":\"md5:1\",\"size\":1,\"annotations\":{\"org.opencontainers.image.title\":\"x\"}}]}",
            "{\"manifests\":[]}", "{\"manifests\":[{\"mediaType\":\"text/plain\",\"digest\":\"\(digest)\"}]}",
        ])
    func hostile(_ text: String) { #expect(throws: ListingError.self) { try read(text) } }

    @Test("The same name twice with other contents, and more layers than there may be, are refused [V1]")
    func many() throws {
        let other = layer("a").replacing("abab", with: "cdcd")
        #expect(throws: ListingError.self) { try files(layer("a"), other) }
        let layers = (0...RegistryAnswer.mostLayers).map { layer("f\($0)") }
        let error = #expect(throws: ListingError.self) {
            try read("{\"layers\":[\(layers.joined(separator: ","))]}")
        }
        #expect(error?.reason.contains("layers") == true)
    }

    private func entry(_ digit: String, _ platform: String?, _ annotations: String = "") -> String {
        let at = platform.map { text -> String in
            let parts = text.split(separator: "/")
            return ",\"platform\":{\"os\":\"\(parts[0])\",\"architecture\":\"\(parts[1])\"}"
        }
        return
            "{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:\(String(repeating: digit, count: 64))\","
            + "\"size\":1\(at ?? ""),\"annotations\":{\(annotations)}}"
    }

    private func chosen(_ entries: String...) throws -> String? {
        let text =
            "{\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"manifests\":[\(entries.joined(separator: ","))]}"
        guard case .elsewhere(let digest) = try read(text) else { return nil }
        return String(digest.hex.prefix(1))
    }

    @Test("Of an index the manifest for this machine is chosen, or the only one")
    func index() throws {
        #expect(try chosen(entry("1", "linux/arm64"), entry("2", "linux/amd64")) == "2")
        #expect(try chosen(entry("1", "windows/amd64")) == "1")
        #expect(try chosen(entry("1", "linux/arm64"), entry("2", nil)) == "2")
        let statement = entry("1", "unknown/unknown", "\"vnd.docker.reference.type\":\"attestation-manifest\"")
        #expect(try chosen(statement, entry("2", "darwin/arm64")) == "2")
        let error = #expect(throws: ListingError.self) {
            try chosen(entry("1", "linux/arm64"), entry("2", "windows/amd64"))
        }
        #expect(error?.reason.contains("windows/amd64 at sha256:2222") == true)
        #expect(throws: ListingError.self) { try chosen(entry("1", nil), entry("2", nil)) }
    }

    @Test("What a registry asks for is read from its challenge")
    func challenges() {
        #expect(
            RegistryChallenge("Bearer realm=\"https://a.test/t\",service=\"r\",scope=\"repository:a/b:pull,push\"")
                == .bearer(realm: "https://a.test/t", service: "r", scope: "repository:a/b:pull,push"))
        #expect(
            RegistryChallenge("Basic realm=\"x\", Bearer realm = \"https://a.test/t\", error=\"invalid\\\"token\"")
                == .bearer(realm: "https://a.test/t", service: nil, scope: nil))
        #expect(RegistryChallenge("BASIC realm=\"x\"") == .basic)
        for text in [
            "", "Negotiate", "Bearer", "Bearer realm=", "Bearer realm=\"open", "=x", "\"", "Digest realm=\"x\"",
        ] {
            #expect(RegistryChallenge(text) == nil, "\(text)")
        }
        #expect(RegistryChallenge("Basic " + String(repeating: "a", count: 9_000)) == nil)
    }

    @Test("A token is what the answer has under either name, for a minute where it says nothing")
    func tokens() throws {
        #expect(try RegistryToken(Array("{\"token\":\"a.b\",\"expires_in\":300}".utf8)).seconds == 300)
        let other = try RegistryToken(Array("{\"access_token\":\"c\",\"scope\":\"x\"}".utf8))
        #expect(other.token == "c" && other.seconds == 60)
        for text in ["{}", "{\"token\":\"\"}", "{\"token\":\"a b\"}", "{\"token\":\"a\\nb\"}", "[]", "{\"token\":7}"] {
            #expect(throws: ListingError.self) { try RegistryToken(Array(text.utf8)) }
        }
    }
}

struct RegistryReleaseTests {
    private static let digest = SHA256Digest(hex: String(repeating: "ab", count: 32))

    private func release(_ count: Int = 2) throws -> RegistryRelease {
        let digest = try #require(Self.digest)
        var layers = [
            RegistryRelease.Layer(path: "trust/1.root", digest: digest, size: 5),
            RegistryRelease.Layer(path: "manifest.json.zst", digest: digest, size: 7),
        ]
        for number in 0..<max(0, count - 2) {
            layers.append(RegistryRelease.Layer(path: "trust/\(number + 2).root", digest: digest, size: UInt64(number)))
        }
        layers.append(RegistryRelease.Layer(path: "packs/\(digest).pack", digest: digest, size: 1 << 40))
        return RegistryRelease(
            project: "com.example.tower", revision: 42, created: "2026-11-20T02:00:00Z", manifest: digest,
            layers: layers)
    }

    private func read(_ text: String) throws -> RegistryRelease? {
        guard case .release(let release) = try RegistryAnswer.read(Array(text.utf8), prefix: "p/") else { return nil }
        return release
    }

    @Test("What is written of a release is what is read, in the order of its files")
    func both() throws {
        let release = try release()
        let text = String(decoding: release.json, as: UTF8.self)
        #expect(try read(text) == release)
        #expect(release.layers.map(\.path).first == "manifest.json.zst")
        #expect(release.layer("trust/1.root")?.size == 5 && release.layer("trust/2.root") == nil)
        // Registries that know no types of artifacts keep that of the configuration.
        let older = text.replacing("\"artifactType\":\"\(RegistryRelease.type)\",", with: "")
        #expect(older != text)
        #expect(try read(older) == release)
    }

    @Test(
        "A release that does not say what it is, or names other blobs, is refused [V1]",
        arguments: [
            ("\"com.syncagent.revision\":\"42\"", "\"com.syncagent.revision\":\"042\""),
            ("\"com.syncagent.revision\":\"42\"", "\"x\":\"42\""), ("\"com.syncagent.project\"", "\"y\""),
            ("\"com.syncagent.manifest\":\"ab", "\"com.syncagent.manifest\":\"zz"),
            ("packs/ab", "packs/cd"), ("sha256:abab", "sha512:abab"), ("\"size\":5", "\"size\":-5"),
            ("\"size\":5,", ""), ("trust/1.root", "manifest.json.zst"),
        ])
    func hostile(_ former: String, _ latter: String) throws {
        let text = String(decoding: try release().json, as: UTF8.self)
        #expect(text.contains(former))
        #expect(throws: ListingError.self) { try read(text.replacing(former, with: latter)) }
    }

    @Test("Layers that are no files of a published directory are left out")
    func others() throws {
        let text = String(decoding: try release().json, as: UTF8.self)
        for name in ["../x", "/etc/passwd", "trust/../x", "trust/.x", "x", "trust/a/b", "other/x", "trust/a b"] {
            let read = try #require(try read(text.replacing("trust/1.root", with: name)))
            #expect(read.layers.count == 2, "\(name)")
        }
    }

    @Test("A release has a tag of its own, which says its revision")
    func tags() throws {
        let address = try RegistryAddress("oci://r.test/a/b:v1")
        #expect(address.releaseTag(42) == "v1.r42" && address.revision(ofTag: "v1.r42") == 42)
        for tag in ["v1", "v1.r", "v1.r042", "v1.r-1", "v2.r42", "v1.r42.r1", "xv1.r42"] {
            #expect(address.revision(ofTag: tag) == nil, "\(tag)")
        }
        #expect(address.with("v1.r42").text == "oci://r.test/a/b:v1.r42")
    }
}
