#ifndef SYNCAGENT_CCURL_SHIM_H
#define SYNCAGENT_CCURL_SHIM_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/socket.h>
#include <curl/curl.h>

#if LIBCURL_VERSION_NUM < 0x075500
#error "syncagent needs libcurl 7.85.0 or later (CURLOPT_PROTOCOLS_STR)."
#endif

/* Swift cannot call C variadic functions. Each wrapper below fixes the one
   argument type that a family of options takes, so a wrong type is a compile
   error in Swift rather than a corrupted va_list at run time. */

typedef size_t (*sa_curl_data_callback)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode sa_curl_set_long(CURL *h, CURLoption o, long v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode sa_curl_set_offset(CURL *h, CURLoption o, curl_off_t v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode sa_curl_set_string(CURL *h, CURLoption o, const char *v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode sa_curl_set_pointer(CURL *h, CURLoption o, void *v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode sa_curl_set_callback(CURL *h, CURLoption o, sa_curl_data_callback v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode sa_curl_get_long(CURL *h, CURLINFO i, long *out) { return curl_easy_getinfo(h, i, out); }
static inline CURLcode sa_curl_get_offset(CURL *h, CURLINFO i, curl_off_t *out) { return curl_easy_getinfo(h, i, out); }
static inline CURLcode sa_curl_get_string(CURL *h, CURLINFO i, const char **out) { return curl_easy_getinfo(h, i, out); }
static inline CURLcode sa_curl_get_pointer(CURL *h, CURLINFO i, void **out) { return curl_easy_getinfo(h, i, out); }
static inline CURLcode sa_curl_set_prereq(CURL *h, curl_prereq_callback v) { return curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, v); }
static inline CURLcode sa_curl_set_opensocket(CURL *h, curl_opensocket_callback v) { return curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, v); }
static inline CURLcode sa_curl_set_seek(CURL *h, curl_seek_callback v) { return curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, v); }
static inline CURLcode sa_curl_set_list(CURL *h, CURLoption o, struct curl_slist *v) { return curl_easy_setopt(h, o, v); }
static inline CURLMcode sa_curl_multi_set_long(CURLM *m, CURLMoption o, long v) { return curl_multi_setopt(m, o, v); }

/* The member `data` of CURLMsg is a union; Swift reads its code through this. */
static inline CURLcode sa_curl_message_result(const CURLMsg *m) { return m->data.result; }

/* Macros with casts, which Swift does not import. */
static inline curl_socket_t sa_curl_socket_bad(void) { return CURL_SOCKET_BAD; }
static inline size_t sa_curl_read_abort(void) { return CURL_READFUNC_ABORT; }
static inline long sa_curl_auth_basic(void) { return (long)CURLAUTH_BASIC; }
static inline const curl_version_info_data *sa_curl_version(void) { return curl_version_info(CURLVERSION_NOW); }
/* A socket for an address that libcurl is about to connect to, close-on-exec: other threads start programs; and not
   blocking: libcurl sets that later, and does not look whether it could. The kernel buffers `buffer` bytes of what is received, as many as it likes for 0: best effort. CURL_SOCKET_BAD with errno set.
   CURLOPT_OPENSOCKETFUNCTION(3) */
static inline curl_socket_t sa_curl_socket(const struct curl_sockaddr *address, int buffer) {
#ifdef SOCK_CLOEXEC
    int descriptor = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol);
#else
    int descriptor = socket(address->family, address->socktype, address->protocol);
    if (descriptor >= 0) (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    if (descriptor >= 0) (void)fcntl(descriptor, F_SETFL, O_NONBLOCK);
#endif
    if (descriptor < 0) return CURL_SOCKET_BAD;
    if (buffer > 0) (void)setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    return descriptor;
}

/* A locale whose text is UTF-8, made once; 0 where the C library has none. newlocale(3) */
static inline locale_t sa_utf8_locale(void) {
    static locale_t made;
    locale_t found = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
    if (found) return found;
    locale_t fresh = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!fresh || __atomic_compare_exchange_n(&made, &found, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return fresh;
    freelocale(fresh);
    return found;
}

/* curl_url_get(3) with host names as they are asked for, "xn--…". libidn2 reads a name in the locale of its thread, which is
   "C" where nobody has set one, and knows no letter of UTF-8 then: uselocale(3). */
static inline CURLUcode sa_curl_url_get_ascii(CURLU *url, CURLUPart part, char **text, unsigned int flags) {
#ifdef CURLU_PUNYCODE
    locale_t utf8 = sa_utf8_locale();
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    CURLUcode code = curl_url_get(url, part, text, flags | CURLU_PUNYCODE);
    if (before) (void)uselocale(before);
    /* What libidn2 refuses comes back as no memory. */
    return code == CURLUE_OUT_OF_MEMORY ? CURLUE_BAD_HOSTNAME : code;
#else
    return curl_url_get(url, part, text, flags);
#endif
}

/* The bytes of a literal IP address, 16 at most, and how many they are; 0 for any other text. inet_pton(3) */
static inline int sa_curl_address(const char *text, unsigned char *bytes) {
    if (inet_pton(AF_INET, text, bytes) == 1) return 4;
    return inet_pton(AF_INET6, text, bytes) == 1 ? 16 : 0;
}

static inline CURLcode sa_curl_global_init(void) { return curl_global_init(CURL_GLOBAL_DEFAULT); }

#endif
