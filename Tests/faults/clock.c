// Preloaded where a trial sets the clock while a program runs, which it would otherwise read without any system call (vdso(7)).
// CLOCK_JUMP=N:SECONDS: from the N-th reading of the time of day on it is so much later, or earlier.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_long readings;

static time_t jump(void) {
    static atomic_long first = -1, seconds;
    if (first < 0) {
        const char *text = getenv("CLOCK_JUMP");
        char *rest = NULL;
        long number = text ? strtol(text, &rest, 10) : 0;
        seconds = rest && *rest == ':' ? strtol(rest + 1, NULL, 10) : 0;
        first = number;
    }
    return atomic_fetch_add(&readings, 1) >= first ? seconds : 0;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    int result = (int)syscall(SYS_clock_gettime, clock, found);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) found->tv_sec += jump();
    return result;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
