// Preloaded where a trial works on forgetful.py: FUSE hands syncfs(2) on to no file system of its kind, so it goes there as an
// attribute that is set.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

static int on_fuse(int descriptor) {
    struct statfs found;
    return fstatfs(descriptor, &found) == 0 && found.f_type == 0x65735546;
}

// The program makes the call by its number.
long syscall(long number, ...) {
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) arguments[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_syncfs && on_fuse((int)arguments[0])) return fsetxattr((int)arguments[0], "user.syncfs", "1", 1, 0);
    // Looked for here: libraries make calls before a constructor of this one has run.
    long (*original)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return original(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

int syncfs(int descriptor) { return (int)syscall(SYS_syncfs, descriptor, 0, 0, 0, 0, 0); }
