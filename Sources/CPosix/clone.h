#ifndef SYNCAGENT_CPOSIX_CLONE_H
#define SYNCAGENT_CPOSIX_CLONE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/fs.h>

/* ioctl_ficlonerange(2): shares a part of `source` with `target` where the filesystem can. Offsets and length are
   multiples of its block size. 0, or -1 with errno set. */
static inline int sa_clone_range(int target, uint64_t to, int source, uint64_t from, uint64_t length) {
    struct file_clone_range range;
    memset(&range, 0, sizeof range);
    range.src_fd = source;
    range.src_offset = from;
    range.src_length = length;
    range.dest_offset = to;
    return ioctl(target, FICLONERANGE, &range);
}
#else
static inline int sa_clone_range(int target, uint64_t to, int source, uint64_t from, uint64_t length) {
    errno = ENOTSUP;
    return -1;
}
#endif

/* SEEK_DATA of lseek(2): where data begins at or behind `offset`; INT64_MAX when only a hole follows, `offset` itself
   where holes are not known. Moves the descriptor's own position. */
static inline int64_t sa_next_data(int fd, int64_t offset) {
#ifdef __linux__
    off_t found = lseek(fd, (off_t)offset, 3 /* SEEK_DATA, behind _GNU_SOURCE */);
#else
    off_t found = lseek(fd, (off_t)offset, 4);
#endif
    if (found >= 0) return found;
    return errno == ENXIO ? INT64_MAX : offset;
}

/* SEEK_HOLE: where a hole begins at or behind `offset`, or the file ends; INT64_MAX where holes are not known. Moves the
   descriptor's own position. */
static inline int64_t sa_next_hole(int fd, int64_t offset) {
#ifdef __linux__
    off_t found = lseek(fd, (off_t)offset, 4);
#else
    off_t found = lseek(fd, (off_t)offset, 3);
#endif
    if (found >= 0) return found;
    return errno == ENXIO ? offset : INT64_MAX;
}

#endif
