#ifndef SYNCAGENT_CPOSIX_SHIM_H
#define SYNCAGENT_CPOSIX_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

/* Swift cannot call variadic C functions such as openat(2) with a mode, nor raw system calls.
   Each wrapper below fixes the argument types and returns the call's result; errno is left as it is. */

static inline int sa_openat(int dir, const char *path, int flags, mode_t mode) {
    return openat(dir, path, flags | O_CLOEXEC, mode);
}

#ifdef __linux__
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

/* openat2(2): no component may be a symbolic link, and nothing may lead above `dir`. Kernel 5.6. */
static inline int sa_openat_beneath(int dir, const char *path, int flags, mode_t mode) {
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = (uint64_t)(unsigned int)(flags | O_CLOEXEC);
    how.mode = (flags & (O_CREAT | O_TMPFILE)) ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

/* ioctl_ficlone(2): shares the blocks of `source` with `target` where the filesystem can. */
static inline int sa_clone_file(int target, int source) { return ioctl(target, FICLONE, source); }

static inline int sa_syncfs(int fd) { return syncfs(fd); }
static inline uint32_t sa_rename_noreplace(void) { return RENAME_NOREPLACE; }
#endif

static inline int sa_rename(int olddir, const char *oldname, int newdir, const char *newname) {
    return renameat(olddir, oldname, newdir, newname);
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

#endif
