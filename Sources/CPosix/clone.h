#ifndef SYNCAGENT_CPOSIX_CLONE_H
#define SYNCAGENT_CPOSIX_CLONE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

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

#endif
