#ifndef SYNCAGENT_CPOSIX_MEMORY_H
#define SYNCAGENT_CPOSIX_MEMORY_H

#if defined(__linux__) && defined(__GLIBC__)
#include <link.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* mallopt(3): at most `arenas` heaps, and whatever has at least `large` bytes comes from the kernel and goes back to it
   when it is freed. By default glibc has 8 heaps a core, and keeps up to 32 MiB once so much was freed. */
static inline void sa_bound_heaps(int arenas, int large) {
    (void)mallopt(M_ARENA_MAX, arenas);
    (void)mallopt(M_MMAP_THRESHOLD, large);
    (void)mallopt(M_TRIM_THRESHOLD, large);
}

/* malloc_trim(3): free pages of every heap go back to the kernel. */
static inline void sa_trim_heaps(void) { (void)malloc_trim(0); }

/* Bytes that are resident and belong to no file; 0 when that is not known. proc_pid_statm(5) */
static inline long sa_anonymous_memory(void) {
    long resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) return 0;
    int count = fscanf(file, "%*d %ld %ld", &resident, &shared);
    fclose(file);
    return count == 2 ? (resident - shared) * sysconf(_SC_PAGESIZE) : 0;
}

/* Whether a debugger or a tracer is attached, or cannot be ruled out. proc_pid_status(5), TracerPid. */
static inline int sa_is_traced(void) {
    char text[4096];
    FILE *file = fopen("/proc/self/status", "re");
    if (file == NULL) return 1;
    size_t count = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[count] = 0;
    const char *field = strstr(text, "\nTracerPid:\t");
    return field == NULL || field[12] != '0';
}

/* The start of struct dl_phdr_info, which <link.h> shows to GNU sources only. */
struct sa_object {
    ElfW(Addr) address;
    const char *name;
    const ElfW(Phdr) *segments;
    ElfW(Half) count;
};
extern int dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *);

static inline int sa_release_object(struct dl_phdr_info *info, size_t size, void *context) {
    const struct sa_object *object = (const struct sa_object *)(const void *)info;
    uintptr_t page = *(const uintptr_t *)context;
    if (size < sizeof *object) return 1;
    for (int i = 0; i < object->count; i++) {
        const ElfW(Phdr) *segment = &object->segments[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0) continue;
        uintptr_t start = object->address + segment->p_vaddr;
        uintptr_t end = (start + segment->p_filesz) & ~(page - 1);
        start = (start + page - 1) & ~(page - 1);
        if (start < end) (void)madvise((void *)start, end - start, MADV_DONTNEED);
    }
    return 0;
}

/* Unmaps the pages of programs and libraries that were read and are never written: what is needed again comes back
   from the page cache. dl_iterate_phdr(3), MADV_DONTNEED of madvise(2). Not under a debugger: its breakpoints are
   written into such pages. */
static inline void sa_release_code(void) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!sa_is_traced()) (void)dl_iterate_phdr(sa_release_object, &page);
}
#else
static inline void sa_bound_heaps(int arenas, int large) {}
static inline void sa_trim_heaps(void) {}
static inline long sa_anonymous_memory(void) { return 0; }
static inline void sa_release_code(void) {}
#endif

#endif
