#include "allocations.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#ifdef __GLIBC__
#include <malloc.h>

static atomic_uint_fast64_t calls, bytes;

static void count(size_t size) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&bytes, size, memory_order_relaxed);
}

// glibc's own, under the names it keeps for those who take over the others.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) {
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    count(number * size);
    return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) {
    count(size);
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
    count(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count(size);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) return EINVAL;
    count(size);
    void *memory = __libc_memalign(alignment, size);
    if (memory == NULL) return ENOMEM;
    *result = memory;
    return 0;
}

int sa_allocations_are_counted(void) { return 1; }
uint64_t sa_allocations(void) { return atomic_load(&calls); }
uint64_t sa_allocated_bytes(void) { return atomic_load(&bytes); }

uint64_t sa_bytes_in_use(void) {
    struct mallinfo2 information = mallinfo2();
    return information.uordblks + information.hblkhd;
}
#else
int sa_allocations_are_counted(void) { return 0; }
uint64_t sa_allocations(void) { return 0; }
uint64_t sa_allocated_bytes(void) { return 0; }
uint64_t sa_bytes_in_use(void) { return 0; }
#endif
