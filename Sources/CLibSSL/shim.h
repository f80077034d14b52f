#ifndef SYNCAGENT_CLIBSSL_SHIM_H
#define SYNCAGENT_CLIBSSL_SHIM_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#if OPENSSL_VERSION_NUMBER < 0x30000000L
#error "syncagent's test kit needs OpenSSL 3.0 or later."
#endif

/* Swift sees neither function-like macros nor variadic functions; each wrapper below is one of those. */

static inline EVP_PKEY *sa_new_ec_key(void) { return EVP_EC_gen("P-256"); }

static inline int sa_set_versions(SSL_CTX *context, int minimum, int maximum) {
    return SSL_CTX_set_min_proto_version(context, minimum) == 1
        && SSL_CTX_set_max_proto_version(context, maximum) == 1;
}

static inline long sa_bio_bytes(BIO *bio, char **bytes) { return BIO_get_mem_data(bio, bytes); }

#endif
