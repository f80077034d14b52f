import SyncModel
import Testing

@testable import SyncManifest

struct HubTests {
    @Test(
        "hf:// names models, datasets and spaces, at a branch, a tag or a commit",
        arguments: [
            ("hf://acme/site", "models", "acme/site", "main", "acme.site"),
            ("hf://datasets/acme/tiles@v1.0", "datasets", "acme/tiles", "v1.0", "acme.tiles"),
            ("hf://spaces/acme/demo@refs/pr/3", "spaces", "acme/demo", "refs/pr/3", "acme.demo"),
            ("hf://datasets/squad", "datasets", "squad", "main", "squad"),
        ] as [(String, String, String, String, String)])
    func addresses(_ text: String, _ kind: String, _ repository: String, _ revision: String, _ project: String) throws {
        let address = try HubAddress(text)
        #expect(address.kind.rawValue == kind && address.repository == repository && address.revision == revision)
        #expect(address.project == project)
    }

    @Test(
        "What names no repository is refused",
        arguments: [
            "hf://", "hf://acme", "hf://acme/", "hf://acme/site/more", "hf://../x", "hf://acme/..", "hf://a b/c",
            "hf://acme/site@", "hf://acme/site@a b", "hf://user:secret@acme/site", "hf://datasets/",
            "https://acme/site",
            "hf://acme/si%74e", "hf://acme/site?x",
        ])
    func noAddresses(_ text: String) { #expect(throws: ListingError.self) { try HubAddress(text) } }

    @Test("URLs are those that huggingface_hub asks")
    func urls() throws {
        let hub = "https://hub.test"
        let model = try HubAddress("hf://acme/site@refs/pr/1")
        #expect(model.revisionURL(hub) == "https://hub.test/api/models/acme/site/revision/refs%2Fpr%2F1")
        #expect(
            model.treeURL(hub, commit: "abc")
                == "https://hub.test/api/models/acme/site/tree/abc?recursive=true&expand=false")
        #expect(model.filePrefix(hub, commit: "abc") == "https://hub.test/acme/site/resolve/abc/")
        let data = try HubAddress("hf://datasets/acme/tiles")
        #expect(data.filePrefix(hub, commit: "abc") == "https://hub.test/datasets/acme/tiles/resolve/abc/")
    }

    @Test("A tree's page gives LFS digests, git's digests and sizes")
    func tree() throws {
        let sha256 = String(repeating: "ab", count: 32)
        let page = """
            [{"type":"directory","oid":"1","size":0,"path":"dir"},
             {"type":"file","oid":"\(String(repeating: "1", count: 40))","size":12,"path":"config.json","lfs":null,"score":-1.5e3},
             {"type":"file","oid":"\(String(repeating: "2", count: 40))","size":5000000000,"path":"dir/m o.bin",
              "lfs":{"oid":"\(sha256)","size":5000000000,"pointerSize":135},"xetHash":"77"},
             {"type":"file","oid":"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391","size":0,"path":"empty"}]
            """
        var listing = SourceListing()
        try HubAnswer.add(Array(page.utf8), prefix: "https://hub.test/a/b/resolve/c/", to: &listing)
        let files = listing.files
        #expect(files.map { String(decoding: $0.path, as: UTF8.self) } == ["config.json", "dir/m o.bin", "empty"])
        #expect(files[0].digest?.algorithm == .gitSHA1 && files[0].size == 12)
        #expect(files[1].digest?.hex == sha256 && files[1].size == 5_000_000_000)
        #expect(files[1].urls == ["https://hub.test/a/b/resolve/c/dir/m%20o.bin"])
        #expect(files[2].isKnown)
        // The next page may not say otherwise.
        #expect(throws: ListingError.self) {
            let other = page.replacing("\"size\":12", with: "\"size\":13").replacing(
                String(repeating: "1", count: 40), with: String(repeating: "3", count: 40))
            try HubAnswer.add(Array(other.utf8), prefix: "x/", to: &listing)
        }
    }

    @Test(
        "Hostile trees are refused [V1]",
        arguments: [
            "[{\"type\":\"file\",\"oid\":\"1111111111111111111111111111111111111111\",\"size\":1,\"path\":\"../x\"}]",
            "[{\"type\":\"file\",\"oid\":\"1111111111111111111111111111111111111111\",\"size\":1,\"path\":\"/x\"}]",
            "[{\"type\":\"file\",\"oid\":\"12\",\"size\":1,\"path\":\"x\"}]",
            "[{\"type\":\"file\",\"size\":1,\"path\":\"x\"}]",
            "[{\"type\":\"file\",\"oid\":\"1111111111111111111111111111111111111111\",\"path\":\"x\"}]",
            "[{\"type\":\"file\",\"oid\":\"1111111111111111111111111111111111111111\",\"size\":-1,\"path\":\"x\"}]",
            "[{\"type\":\"symlink\",\"oid\":\"1111111111111111111111111111111111111111\",\"size\":1,\"path\":\"x\"}]",
            "{\"error\":\"no\"}", "[", "<html>", "",
        ])
    func hostile(_ page: String) {
        var listing = SourceListing()
        #expect(throws: ListingError.self) { try HubAnswer.add(Array(page.utf8), prefix: "p/", to: &listing) }
    }

    @Test("The commit is what the hub says it is")
    func commit() throws {
        let commit = String(repeating: "a1", count: 20)
        #expect(
            try HubAnswer.commit(
                Array("{\"id\":\"x\",\"sha\":\"\(commit)\",\"siblings\":[{\"rfilename\":\"a\"}]}".utf8)) == commit)
        for text in ["{}", "{\"sha\":\"../x\"}", "{\"sha\":\"\"}", "[]", "{\"sha\":7}"] {
            #expect(throws: ListingError.self) { try HubAnswer.commit(Array(text.utf8)) }
        }
    }
}
