#ifndef SYNCAGENT_CPOSIX_MEMORY_H
#define SYNCAGENT_CPOSIX_MEMORY_H

#if defined(__linux__) && defined(__GLIBC__)
#include <malloc.h>

/* mallopt(3): at most `arenas` heaps, and whatever has at least `large` bytes comes from the kernel and goes back to it
   when it is freed. By default glibc has 8 heaps a core, and keeps up to 32 MiB once so much was freed. */
static inline void sa_bound_heaps(int arenas, int large) {
    (void)mallopt(M_ARENA_MAX, arenas);
    (void)mallopt(M_MMAP_THRESHOLD, large);
    (void)mallopt(M_TRIM_THRESHOLD, large);
}

/* malloc_trim(3): free pages of every heap go back to the kernel. */
static inline void sa_trim_heaps(void) { (void)malloc_trim(0); }
#else
static inline void sa_bound_heaps(int arenas, int large) {}
static inline void sa_trim_heaps(void) {}
#endif

#endif
