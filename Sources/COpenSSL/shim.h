#ifndef SYNCAGENT_COPENSSL_SHIM_H
#define SYNCAGENT_COPENSSL_SHIM_H

#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <openssl/rand.h>
#include <openssl/x509_vfy.h>

#if OPENSSL_VERSION_NUMBER < 0x30000000L
#error "syncagent needs OpenSSL 3.0 or later (EVP_MD_fetch)."
#endif

#endif
