import CLibSSL

/// How a ``FaultServer`` speaks TLS.
public struct ServerTLS: Sendable {
    /// The server's certificate and key.
    public var identity: TestIdentity
    /// Whether HTTP/2 is offered by ALPN (RFC 7301).
    public var offersHTTP2 = true
    /// A certificate in PEM; clients must show one that it signed. `nil` asks for none.
    public var clientAuthority: String?
    /// Speaks TLS 1.0 and nothing newer.
    public var isOnlyTLS10 = false

    /// Serves with a certificate.
    public init(_ identity: TestIdentity) { self.identity = identity }
}

/// OpenSSL's side of ``ServerTLS``; shared by the threads of a server.
final class TLSContext: @unchecked Sendable {  // Safe: set up once, then read.
    // An SSL_CTX that is set up may make connections on any thread: openssl-threads(7), SSL_new(3).
    private let context: OpaquePointer

    init(_ tls: ServerTLS) throws(TestKitError) {
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw .openSSL("SSL_CTX_new") }
        self.context = context
        let certificate = try readCertificate(tls.identity.certificate)
        defer { X509_free(certificate) }
        let key = try readKey(tls.identity.privateKey)
        defer { EVP_PKEY_free(key) }
        if tls.isOnlyTLS10 {
            // TLS 1.0 signs with SHA-1, which level 1 forbids. SSL_CTX_set_security_level(3)
            SSL_CTX_set_security_level(context, 0)
            _ = sa_set_versions(context, TLS1_VERSION, TLS1_VERSION)
        } else {
            _ = sa_set_versions(context, TLS1_2_VERSION, 0)
        }
        guard SSL_CTX_use_certificate(context, certificate) == 1, SSL_CTX_use_PrivateKey(context, key) == 1 else {
            throw .openSSL("SSL_CTX_use_certificate")
        }
        if let text = tls.clientAuthority {
            let authority = try readCertificate(text)
            defer { X509_free(authority) }
            X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority)
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        }
        // The call back gets the last argument: anything but NULL stands for HTTP/2.
        SSL_CTX_set_alpn_select_cb(
            context,
            { _, chosen, length, offered, count, http2 in
                choose(http2 == nil ? ["http/1.1"] : ["h2", "http/1.1"], chosen, length, offered, count)
            }, tls.offersHTTP2 ? UnsafeMutableRawPointer(context) : nil)
    }

    deinit { SSL_CTX_free(context) }

    /// Shakes hands over a new connection; `nil` when that fails.
    func accept(_ socket: Socket) -> TLSWire? {
        guard let ssl = SSL_new(context) else { return nil }
        guard SSL_set_fd(ssl, socket.descriptor) == 1, SSL_accept(ssl) == 1 else {
            SSL_free(ssl)
            ERR_clear_error()
            return nil
        }
        return TLSWire(socket: socket, ssl: ssl)
    }
}

/// One TLS connection. Stays on its connection's thread.
final class TLSWire: FaultWire {
    let socket: Socket
    private let ssl: OpaquePointer

    init(socket: Socket, ssl: OpaquePointer) {
        self.socket = socket
        self.ssl = ssl
    }

    deinit { SSL_free(ssl) }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        ERR_clear_error()
        let count = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        if count > 0 { return Int(count) }
        return SSL_get_error(ssl, count) == SSL_ERROR_ZERO_RETURN ? 0 : nil
    }

    func write(_ buffer: UnsafeRawBufferPointer) -> Int? {
        guard !buffer.isEmpty else { return 0 }
        ERR_clear_error()
        let count = SSL_write(ssl, buffer.baseAddress, Int32(clamping: min(buffer.count, 16_384)))
        return count > 0 ? Int(count) : nil
    }

    func waitReadable(milliseconds: Int32) -> Bool {
        SSL_pending(ssl) > 0 || socket.waitReadable(milliseconds: milliseconds)
    }

    /// Sends close_notify. RFC 8446 §6.1.
    func endCleanly() {
        ERR_clear_error()
        SSL_shutdown(ssl)
    }
}

/// Points `chosen` at the first of our protocols in the client's list. `SSL_CTX_set_alpn_select_cb(3)`
private func choose(
    _ ours: [String], _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ length: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32
) -> Int32 {
    guard let offered else { return SSL_TLSEXT_ERR_NOACK }
    let list = UnsafeBufferPointer(start: offered, count: Int(offeredLength))
    for protocolName in ours {
        var position = 0
        while position < list.count {
            let count = Int(list[position])
            guard position + 1 + count <= list.count else { break }
            if list[(position + 1)..<(position + 1 + count)].elementsEqual(protocolName.utf8) {
                chosen?.pointee = offered + position + 1
                length?.pointee = list[position]
                return SSL_TLSEXT_ERR_OK
            }
            position += 1 + count
        }
    }
    return SSL_TLSEXT_ERR_NOACK
}
