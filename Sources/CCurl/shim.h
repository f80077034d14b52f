#ifndef SYNCAGENT_CCURL_SHIM_H
#define SYNCAGENT_CCURL_SHIM_H

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
static inline CURLMcode sa_curl_multi_set_long(CURLM *m, CURLMoption o, long v) { return curl_multi_setopt(m, o, v); }

#endif
