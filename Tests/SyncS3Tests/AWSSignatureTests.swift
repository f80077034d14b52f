import Foundation
import SyncModel
import Testing

@testable import SyncRemotes

@Suite
struct AWSSignatureTests {
    private struct Vectors: Decodable {
        struct Vector: Decodable {
            let method, host, region, key, path, payload, authorization: String
            let session: String?
            let query: [[String]]
            let headers: [String: String]
            let time: Int64
        }
        let vectors: [Vector]
    }

    @Test("200 requests with odd names and queries are signed as botocore signs them, byte by byte")
    func vectors() throws {
        let file = try #require(
            Bundle.module.url(forResource: "botocore", withExtension: "json", subdirectory: "Vectors"))
        let all = try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: file)).vectors
        #expect(all.count == 200)
        for vector in all {
            let endpoint = try S3Endpoint("assets", endpoint: "http://\(vector.host)", region: vector.region)
            #expect(endpoint.path(vector.key) == vector.path)
            var signature = AWSSignature(host: vector.host, path: endpoint.path(vector.key))
            (signature.method, signature.payload) = (vector.method, vector.payload)
            signature.query = vector.query.map { ($0[0], $0[1]) }
            signature.headers = vector.headers.map { ($0.key, $0.value) }
            let keys = AWSKeys(
                access: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", session: vector.session)
            let lines = try signature.signed(by: keys, region: vector.region, now: vector.time)
            #expect(lines.contains("Authorization: \(vector.authorization)"), "\(vector.key) \(vector.query)")
        }
    }

    @Test("Keys are in no text that is made of them")
    func secrecy() {
        let keys = AWSKeys(access: "AKID", secret: "hidden", session: "hidden")
        #expect(!"\(keys)".contains("hidden"))
        var text = ""
        dump(keys, to: &text)
        #expect(!text.contains("hidden"))
    }

    @Test("Where a bucket is: by its name's host at AWS, by its path elsewhere and where a certificate would not fit")
    func endpoints() throws {
        func url(_ bucket: String, _ endpoint: String? = nil, _ region: String = "eu-west-1") throws -> String {
            try S3Endpoint(bucket, endpoint: endpoint, region: region).url("a b/c+d")
        }
        #expect(try url("assets") == "https://assets.s3.eu-west-1.amazonaws.com/a%20b/c%2Bd")
        #expect(try url("my.assets") == "https://s3.eu-west-1.amazonaws.com/my.assets/a%20b/c%2Bd")
        #expect(try url("assets", nil, "cn-north-1") == "https://assets.s3.cn-north-1.amazonaws.com.cn/a%20b/c%2Bd")
        #expect(try url("assets", "http://127.0.0.1:9000/") == "http://127.0.0.1:9000/assets/a%20b/c%2Bd")
        #expect(
            try url("assets", "https://Storage.example.com/base")
                == "https://storage.example.com/base/assets/a%20b/c%2Bd")
        for (endpoint, region) in [
            ("ftp://x", "a"), ("127.0.0.1:9000", "a"), ("https://x?y=1", "a"), ("", "a"), ("https://x", "a/b"),
            ("https://x", ""),
        ] {
            #expect(throws: S3Fault.self, "\(endpoint) \(region)") {
                try S3Endpoint("assets", endpoint: endpoint, region: region)
            }
        }
    }

    @Test("Addresses are read as they are written, and again")
    func addresses() throws {
        let plain = try S3Address("s3://assets/maps/night one%2B/")
        #expect(plain.bucket == "assets" && plain.prefix == "maps/night one+")
        #expect(plain.shown == "s3://assets/maps/night one+" && plain.text == "s3://assets/maps/night%20one%2B")
        #expect(plain.object("manifest.json").prefix == "maps/night one+/manifest.json")
        var other = try S3Address("S3://assets?endpoint=http%3A%2F%2Fh%3A9&region=auto")
        #expect(other.endpoint == "http://h:9" && other.region == "auto" && other.prefix.isEmpty)
        #expect(try S3Address(other.text) == other)
        other.region = nil
        #expect(try S3Address(other.text) == other && other.shown == "s3://assets")
        for text in [
            "s3://", "s3://ab", "http://assets/x", "s3://as sets", "s3://assets/a//b", "s3://assets/./b",
            "s3://assets/%00", "s3://assets/%ff", "s3://assets?x=1", "s3://assets/a%0Ab",
        ] {
            #expect(throws: S3Fault.self, "\(text)") { try S3Address(text) }
        }
        for text in ["s3://key:hidden@assets/x", "s3://assets/x?token=hidden"] {
            let fault = #expect(throws: S3Fault.self) { try S3Address(text) }
            #expect(fault.map { $0.reason.contains("hidden") } == false)
        }
    }
}
