#ifndef SYNCAGENT_CMICROHTTPD_SHIM_H
#define SYNCAGENT_CMICROHTTPD_SHIM_H

/* No _GNU_SOURCE here: it would give glibc's types another shape than in Swift's own Glibc module. */
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <microhttpd.h>

#if MHD_VERSION < 0x00097300
#error "syncagent needs libmicrohttpd 0.9.73 or later."
#endif

/* Swift sees no variadic functions; each wrapper below is one of those, or a constant of another type. */

typedef void *(*sa_http_begun)(void *server, const char *target, struct MHD_Connection *connection);

/* MHD_start_daemon(3): `threads` threads that wait for connections which MHD_add_connection brings. Connections are
   counted by the caller, those of one address, too, so the library's own limit is above what he lets in. `stall` in seconds,
   0 for none. */
static inline struct MHD_Daemon *sa_http_start(
    unsigned int threads, unsigned int connections, unsigned int stall,
    MHD_AccessHandlerCallback answer,
    sa_http_begun begun, MHD_RequestCompletedCallback completed, MHD_NotifyConnectionCallback changed, void *server
) {
    unsigned int flags =
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    struct MHD_OptionItem pool[] = {
        {MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
#if MHD_VERSION >= 0x00097601
    const enum MHD_OPTION strict = MHD_OPTION_CLIENT_DISCIPLINE_LVL;
#else
    const enum MHD_OPTION strict = MHD_OPTION_STRICT_FOR_CLIENT;
#endif
    return MHD_start_daemon(
        flags, 0, NULL, NULL, answer, server,
        MHD_OPTION_ARRAY, threads > 1 ? pool : none,
        strict, 1,
        MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_CONNECTION_TIMEOUT, stall,
        MHD_OPTION_URI_LOG_CALLBACK, begun, server,
        MHD_OPTION_NOTIFY_COMPLETED, completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, changed, server,
        MHD_OPTION_END);
}

/* Before 0.9.76 libmicrohttpd lets through what two readers understand in two ways: it ends strings at a NUL, takes CR or LF
   alone for the end of a line, skips blanks in the first line, and glues a folded line to the name before it. All of that
   shows in where its strings stand: they are pieces of the lines as they came, with zeros for what it has read
   (connection.c, get_next_header_line, parse_initial_message_line and process_broken_line). Later ones refuse it. */
static inline int sa_http_shows_lines(void) {
    static const char *const versions[] = {"0.9.73", "0.9.74", "0.9.75"};
    const char *running = MHD_get_version();
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strcmp(running, versions[i]) == 0) return 1;
    return 0;
}

/* Whether the first line is `method`, one blank, `target_length` bytes, one blank, `version`, CR LF. */
static inline int sa_http_first_line_is_whole(
    const char *method, const char *target, size_t target_length, const char *version
) {
    if (!sa_http_shows_lines()) return 1;
    if (method == NULL || target == NULL || version == NULL || method + strlen(method) + 1 != target) return 0;
    if (target + target_length + 1 != version) return 0;
    /* Two zeros for CR LF: another line follows, if only the empty one. */
    return version[strlen(version) + 1] == 0;
}

/* Whether a line of the head is a name, a colon, blanks, a value, CR LF. */
static inline int sa_http_line_is_whole(
    const char *name, size_t name_length, const char *value, size_t value_length
) {
    if (!sa_http_shows_lines()) return 1;
    if (name == NULL || value == NULL || value <= name + name_length) return 0;
    for (const char *blank = name + name_length + 1; blank < value; blank++)
        if (*blank != ' ' && *blank != '\t') return 0;
    return value[value_length] == 0 && value[value_length + 1] == 0;
}

/* The connection's descriptor, -1 where there is none. */
static inline int sa_http_descriptor(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

/* What the callback for opened connections has left with the connection; NULL for nothing. */
static inline void *sa_http_context(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

static inline struct MHD_Response *sa_http_stream(int64_t length, size_t block, MHD_ContentReaderCallback read,
                                                  void *stream, MHD_ContentReaderFreeCallback forget) {
    uint64_t size = length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)length;
    return MHD_create_response_from_callback(size, block, read, stream, forget);
}

#define SA_HTTP_END ((ssize_t)-1) /* MHD_CONTENT_READER_END_OF_STREAM */
#define SA_HTTP_BROKEN ((ssize_t)-2) /* MHD_CONTENT_READER_END_WITH_ERROR */

/* accept(2), close-on-exec and not blocking from the first moment: other threads start programs. */
static inline int sa_http_accept(int listener, struct sockaddr *address, socklen_t *length) {
#ifdef __linux__
    extern int accept4(int, struct sockaddr *, socklen_t *, int);
    return accept4(listener, address, length, SOCK_CLOEXEC | SOCK_NONBLOCK);
#else
    int fd = accept(listener, address, length);
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    return fd;
#endif
}

/* What getaddrinfo(3) is asked for: addresses to listen at, the port as a number. */
static inline struct addrinfo sa_http_hints(void) {
    struct addrinfo hints;
    memset(&hints, 0, sizeof hints);
    hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    return hints;
}

/* socket(2) for a listener, close-on-exec and not blocking. */
static inline int sa_http_socket(int family) {
#ifdef __linux__
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#else
    int fd = socket(family, SOCK_STREAM, 0);
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    return fd;
#endif
}

/* TCP_NOTSENT_LOWAT, tcp(7): the kernel asks for more when fewer bytes than this have not been sent yet, and so a slow
   client is seen to take something again and again, not megabytes once in minutes. A hint; elsewhere nothing. */
static inline void sa_http_bound_unsent(int fd, int bytes) {
#ifdef __linux__
    (void)setsockopt(fd, IPPROTO_TCP, 25, &bytes, sizeof bytes);
#else
    (void)fd, (void)bytes;
#endif
}

/* Bytes that the other end has acknowledged since the connection began: tcpi_bytes_acked of struct tcp_info in
   <linux/tcp.h>, which glibc's does not have. 0 where the kernel does not say. */
static inline uint64_t sa_http_acknowledged(int fd) {
    uint64_t bytes = 0;
#ifdef __linux__
    unsigned char info[128];
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, 11 /* TCP_INFO */, info, &length) == 0 && length >= 128)
        memcpy(&bytes, info + 120, sizeof bytes);
#else
    (void)fd;
#endif
    return bytes;
}

/* What poll(2) says when the other end has gone or says nothing more. */
#ifdef __linux__
#define SA_POLL_GONE ((short)0x2000) /* POLLRDHUP */
#else
#define SA_POLL_GONE ((short)0)
#endif

#endif
