#ifndef SYNCAGENT_CPOSIX_SHIM_H
#define SYNCAGENT_CPOSIX_SHIM_H

/* No _GNU_SOURCE here: it would give glibc's types another shape than in Swift's own Glibc module. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

/* Swift cannot call variadic C functions such as openat(2) with a mode, nor raw system calls.
   Each wrapper below fixes the argument types and returns the call's result; errno is left as it is. */

static inline int sa_errno(void) { return errno; }
static inline void sa_set_errno(int code) { errno = code; }

/* The columns and rows of a terminal, ioctl_tty(2), TIOCGWINSZ; -1 where there is none. */
static inline int sa_terminal_size(int fd, int *columns, int *rows) {
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0) return -1;
    *columns = size.ws_col;
    *rows = size.ws_row;
    return 0;
}

/* 0 regular file, 1 directory, 2 symbolic link, 3 anything else: inode(7), "The file type and mode". */
static inline int sa_file_kind(const struct stat *status) {
    if (S_ISREG(status->st_mode)) return 0;
    if (S_ISDIR(status->st_mode)) return 1;
    return S_ISLNK(status->st_mode) ? 2 : 3;
}

/* When the content was changed last, and when anything was: macOS has other names for them. */
static inline struct timespec sa_modified(const struct stat *status) {
#ifdef __APPLE__
    return status->st_mtimespec;
#else
    return status->st_mtim;
#endif
}

static inline struct timespec sa_changed(const struct stat *status) {
#ifdef __APPLE__
    return status->st_ctimespec;
#else
    return status->st_ctim;
#endif
}

static inline int sa_openat(int dir, const char *path, int flags, mode_t mode) {
    return openat(dir, path, flags | O_CLOEXEC, mode);
}

#ifdef __linux__
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

/* openat2(2): no component may be a symbolic link, and nothing may lead above `dir`. Kernel 5.6. */
static inline int sa_openat_beneath(int dir, const char *path, int flags, mode_t mode) {
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = (uint64_t)(unsigned int)(flags | O_CLOEXEC);
    how.mode = (flags & O_CREAT) ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

/* ioctl_ficlone(2): shares the blocks of `source` with `target` where the filesystem can. */
static inline int sa_clone_file(int target, int source) { return ioctl(target, FICLONE, source); }

/* FS_CASEFOLD_FL, ioctl_iflags(2): 1 where a directory of ext4, f2fs or tmpfs takes names for one that differ in case. */
static inline int sa_folds_case(int directory) {
    int flags = 0;
    return ioctl(directory, FS_IOC_GETFLAGS, &flags) == 0 && (flags & 0x40000000) != 0;
}

/* syncfs(2): writes everything of one filesystem to its disk. Sandboxes and file systems that do not have it get sync(2),
   which on Linux waits, too. */
static inline int sa_syncfs(int fd) {
    int result = (int)syscall(SYS_syncfs, fd);
    if (result == 0 || (errno != ENOSYS && errno != EOPNOTSUPP && errno != EINVAL)) return result;
    sync();
    return 0;
}

/* sync_file_range(2), SYNC_FILE_RANGE_WRITE: the disk begins with what is there; a hint, nobody waits. */
static inline void sa_start_writeback(int fd) { (void)syscall(SYS_sync_file_range, fd, 0L, 0L, 2U); }

/* posix_fadvise(2): the file will be read from its beginning to its end; a hint. */
static inline void sa_will_read_through(int fd) { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); }

/* statfs(2): f_type of the filesystem that something is on, 0 where that is unknown. */
static inline uint32_t sa_file_system(const char *path) {
    struct statfs system;
    return statfs(path, &system) == 0 ? (uint32_t)system.f_type : 0;
}

/* socket(2), close-on-exec from the first moment: other threads start programs. -1 with errno set. */
static inline int sa_stream_socket(int family) { return socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0); }
static inline int sa_datagram_socket(int family) { return socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0); }

/* send(2), without SIGPIPE where the other end has gone. */
static inline ssize_t sa_send_quietly(int fd, const void *bytes, size_t count) {
    return send(fd, bytes, count, MSG_NOSIGNAL);
}

/* SIOCOUTQ of tcp(7): bytes that the other end's system has not acknowledged; 0 where that is unknown. */
static inline int sa_unacknowledged(int fd) {
    int count = 0;
    return ioctl(fd, TIOCOUTQ, &count) == 0 ? count : 0;
}

/* statx(2), STATX_MNT_ID: which mount an open directory is on, and 0; -1 where the kernel does not tell. Kernel 5.8. Raw
   offsets, since glibc hides the structure behind _GNU_SOURCE. */
static inline int sa_mount(int fd, uint64_t *mount) {
    unsigned char answer[256] = {0};
    uint32_t mask;
    if (syscall(SYS_statx, fd, "", 0x1000 /* AT_EMPTY_PATH */, 0x1000U, answer) != 0) return -1;
    memcpy(&mask, answer, sizeof mask);
    if ((mask & 0x1000U) == 0) return -1;
    memcpy(mount, answer + 144, sizeof *mount);
    return 0;
}

/* acl(5): the default ACL of a directory, the ACL of a file; in the bytes of the extended attributes. -1 with errno set. */
static inline ssize_t sa_default_acl(int fd, void *bytes, size_t count) {
    return fgetxattr(fd, "system.posix_acl_default", bytes, count);
}
static inline int sa_set_acl(int fd, const void *bytes, size_t count) {
    return fsetxattr(fd, "system.posix_acl_access", bytes, count, 0);
}
static inline int sa_drop_default_acl(int fd) { return fremovexattr(fd, "system.posix_acl_default"); }
/* Whether a file system has ACLs. */
static inline int sa_can_have_acl(int fd) {
    return fgetxattr(fd, "system.posix_acl_access", NULL, 0) >= 0 || errno == ENODATA;
}
/* Gives a file or directory the ACL that another one has by this name, or none. Nothing is set that is so already, since
   only the owner may. -1 with errno set. */
static inline int sa_copy_acl(int from, int to, const char *name) {
    if (fgetxattr(from, name, NULL, 0) < 0) {
        /* The other codes are various ways to say that there is none. */
        if (errno == EIO || errno == ENOMEM || errno == ESTALE) return -1;
        return fgetxattr(to, name, NULL, 0) < 0 ? 0 : fremovexattr(to, name);
    }
    char wanted[65536], there[65536]; /* The most of an extended attribute. xattr(7) */
    ssize_t count = fgetxattr(from, name, wanted, sizeof wanted);
    if (count < 0) return -1;
    if (fgetxattr(to, name, there, sizeof there) == count && memcmp(wanted, there, (size_t)count) == 0) return 0;
    return fsetxattr(to, name, wanted, (size_t)count, 0);
}

/* F_SETLEASE of fcntl(2), which glibc hides behind _GNU_SOURCE: a read lease is given while nobody can write. */
static inline int sa_lease(int fd, int kind) { return fcntl(fd, 1024, kind); }

/* rtnetlink(7): a socket that tells of changed links, addresses and routes; not blocking. -1 with errno set. */
static inline int sa_route_socket(void) {
    /* struct sockaddr_nl, with port 0 for "choose one", and of linux/rtnetlink.h RTMGRP_LINK, RTMGRP_IPV4_IFADDR,
       RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE. */
    struct { uint16_t family, padding; uint32_t port, groups; } address = {AF_NETLINK, 0, 0, 0x1 | 0x10 | 0x40 | 0x100 | 0x400};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0 /* NETLINK_ROUTE */);
    if (fd >= 0 && bind(fd, (struct sockaddr *)(void *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* PR_SET_NAME, prctl(2): the calling thread's name, 15 bytes at most. */
static inline void sa_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37 /* fcntl(2); hidden behind _GNU_SOURCE in glibc's headers. */
#endif
#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#endif
#endif

#ifndef __linux__
static inline int sa_openat_beneath(int dir, const char *path, int flags, mode_t mode) {
    errno = ENOSYS;
    return -1;
}
static inline int sa_folds_case(int directory) { return 0; }
static inline int sa_syncfs(int fd) { sync(); return 0; }
static inline void sa_start_writeback(int fd) {}
static inline void sa_will_read_through(int fd) {}
static inline uint32_t sa_file_system(const char *path) { return 0; }
static inline int sa_stream_socket(int family) { return socket(family, SOCK_STREAM, 0); }
static inline int sa_datagram_socket(int family) { return socket(family, SOCK_DGRAM, 0); }
static inline ssize_t sa_send_quietly(int fd, const void *bytes, size_t count) { return send(fd, bytes, count, 0); }
static inline int sa_unacknowledged(int fd) { return 0; }
static inline int sa_lease(int fd, int kind) { return 0; }
static inline int sa_route_socket(void) { return -1; }
static inline int sa_clone_file(int target, int source) { return -1; }
static inline int sa_mount(int fd, uint64_t *mount) { return -1; }
static inline ssize_t sa_default_acl(int fd, void *bytes, size_t count) {
    errno = ENOTSUP;
    return -1;
}
static inline int sa_set_acl(int fd, const void *bytes, size_t count) { return -1; }
static inline int sa_drop_default_acl(int fd) { return 0; }
static inline int sa_can_have_acl(int fd) { return 0; }
static inline int sa_copy_acl(int from, int to, const char *name) { return 0; }
static inline void sa_name_thread(const char *name) { pthread_setname_np(name); }
#endif

/* CLOCK_MONOTONIC in nanoseconds. clock_gettime(2) */
static inline int64_t sa_monotonic(void) {
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? (int64_t)now.tv_sec * 1000000000 + now.tv_nsec : 0;
}

/* A condition whose deadlines are on CLOCK_MONOTONIC. pthread_condattr_setclock(3) */
static inline int sa_cond_init_monotonic(pthread_cond_t *condition) {
#ifdef __APPLE__
    return pthread_cond_init(condition, NULL);
#else
    pthread_condattr_t attributes;
    int code = pthread_condattr_init(&attributes);
    if (code != 0) return code;
    code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (code == 0) code = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return code;
#endif
}

/* pthread_cond_timedwait(3), for a condition of sa_cond_init_monotonic(), until so many nanoseconds of sa_monotonic(). */
static inline int sa_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t nanoseconds) {
#ifdef __APPLE__
    nanoseconds -= sa_monotonic();
    if (nanoseconds < 0) nanoseconds = 0;
#endif
    struct timespec time = {
        .tv_sec = (time_t)(nanoseconds / 1000000000), .tv_nsec = (long)(nanoseconds % 1000000000)};
#ifdef __APPLE__
    return pthread_cond_timedwait_relative_np(condition, mutex, &time);
#else
    return pthread_cond_timedwait(condition, mutex, &time);
#endif
}

/* Who is at the other end of a Unix socket. 0, or -1 with errno set. */
static inline int sa_peer_user(int fd, uid_t *user) {
#ifdef __linux__
    /* struct ucred of unix(7), which glibc hides behind _GNU_SOURCE. */
    struct { pid_t process; uid_t user; gid_t group; } peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -1;
    *user = peer.user;
    return 0;
#else
    gid_t group;
    return getpeereid(fd, user, &group);
#endif
}

/* Raises the soft limit on open files towards the hard one, to `most` at most, and says what it is now: getrlimit(2). 0
   where that is unknown. */
static inline rlim_t sa_raise_open_files(rlim_t most) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    if (limit.rlim_cur >= most) return limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < most ? limit.rlim_max : most;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

/* How many bytes of address space this process may have, getrlimit(2); UINT64_MAX for as many as there are. */
static inline uint64_t sa_address_space_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur;
}

/* Gives or takes the execute bits, where the file may be read: fchmod(2). Set-id and sticky bits are dropped. */
static inline int sa_set_executable(int fd, int executable) {
    struct stat status;
    if (fstat(fd, &status) != 0) return -1;
    mode_t mode = status.st_mode & 0666;
    if (executable) mode |= (mode & 0444) >> 2;
    return fchmod(fd, mode);
}

static inline int sa_is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }
static inline void sa_set_close_on_exec(int fd) { (void)fcntl(fd, F_SETFD, FD_CLOEXEC); }

/* UTIME_OMIT, which Swift does not see. */
static inline long sa_utime_omit(void) { return UTIME_OMIT; }

/* Whether a default ACL says what new files in this directory permit, and no umask: acl(5), umask(2). */
static inline int sa_has_default_acl(int directory) {
#ifdef __linux__
    return fgetxattr(directory, "system.posix_acl_default", NULL, 0) > 0;
#else
    return 0;
#endif
}

/* Whether new directories get something from this one that a moved one does not: mkdir(2), acl(5). */
static inline int sa_hands_down(int directory) {
    struct stat status;
    if (fstat(directory, &status) != 0 || (status.st_mode & S_ISGID) != 0) return 1;
    return sa_has_default_acl(directory);
}

/* renameat2(2) with RENAME_NOREPLACE: EEXIST where there is something of that name. Where the file system cannot, a look
   before the rename. */
static inline int sa_rename_to_free(int olddir, const char *oldname, int newdir, const char *newname) {
#if defined(__linux__) && defined(SYS_renameat2)
    if (syscall(SYS_renameat2, olddir, oldname, newdir, newname, 1U) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EPERM && errno != EOPNOTSUPP) return -1;
#endif
    struct stat found;
    if (fstatat(newdir, newname, &found, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return errno == ENOENT ? renameat(olddir, oldname, newdir, newname) : -1;
}

/* renameat2(2) with RENAME_EXCHANGE: two names change places in one step. EINVAL where the file system cannot. */
static inline int sa_exchange(int olddir, const char *oldname, int newdir, const char *newname) {
#if defined(__linux__) && defined(SYS_renameat2)
    return (int)syscall(SYS_renameat2, olddir, oldname, newdir, newname, 2U);
#else
    errno = ENOSYS;
    return -1;
#endif
}

/* fcntl(2) with open file description locks: released by the kernel when the last descriptor closes. */
static inline int sa_try_lock(int fd) {
    struct flock region;
    memset(&region, 0, sizeof region);
    region.l_type = F_WRLCK;
    region.l_whence = SEEK_SET;
#ifdef F_OFD_SETLK
    return fcntl(fd, F_OFD_SETLK, &region);
#else
    return flock(fd, LOCK_EX | LOCK_NB);
#endif
}

/* The same for a lock that several may have at once, so long as nobody has it alone. fcntl(2), F_RDLCK. */
static inline int sa_try_share(int fd) {
#ifdef F_OFD_SETLK
    struct flock region;
    memset(&region, 0, sizeof region);
    region.l_type = F_RDLCK;
    region.l_whence = SEEK_SET;
    return fcntl(fd, F_OFD_SETLK, &region);
#else
    return flock(fd, LOCK_SH | LOCK_NB);
#endif
}

/* Gives back what sa_try_lock took, whoever else has the descriptor. fcntl(2), F_UNLCK. */
static inline int sa_unlock(int fd) {
#ifdef F_OFD_SETLK
    struct flock region;
    memset(&region, 0, sizeof region);
    region.l_type = F_UNLCK;
    region.l_whence = SEEK_SET;
    return fcntl(fd, F_OFD_SETLK, &region);
#else
    return flock(fd, LOCK_UN);
#endif
}

// Whether somebody else has the lock that sa_try_lock takes, without taking it; -1 with errno where that cannot be found out:
// fcntl(2), F_OFD_GETLK.
static inline int sa_is_locked(int fd) {
#ifdef F_OFD_GETLK
    struct flock region;
    memset(&region, 0, sizeof region);
    region.l_type = F_WRLCK;
    region.l_whence = SEEK_SET;
    if (fcntl(fd, F_OFD_GETLK, &region) != 0) return -1;
    return region.l_type != F_UNLCK;
#else
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) return 1;
    flock(fd, LOCK_UN);
    return 0;
#endif
}

#endif
