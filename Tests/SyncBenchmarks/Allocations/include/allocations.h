// Counts every allocation of the process: the functions of malloc(3) are taken over, and do the same as before.
#ifndef SYNCAGENT_BENCHMARK_ALLOCATIONS_H
#define SYNCAGENT_BENCHMARK_ALLOCATIONS_H

#include <stdint.h>

/// Whether allocations can be counted here: glibc only.
int sa_allocations_are_counted(void);
/// Allocations since the process began, of all threads.
uint64_t sa_allocations(void);
/// Bytes that were asked for in them.
uint64_t sa_allocated_bytes(void);
/// Bytes in use now, by mallinfo2(3).
uint64_t sa_bytes_in_use(void);

#endif
