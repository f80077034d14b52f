#ifndef SYNCAGENT_CPOSIX_START_H
#define SYNCAGENT_CPOSIX_START_H

/* What the process was started with, also where /proc is not mounted: Swift's CommandLine reads proc(5). */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/auxv.h>

extern char **environ;
#endif

/* The arguments with the program's name first, and their number: on the initial stack the number, the arguments, a null
   pointer and the variables follow one another (System V ABI, "Initial Process Stack").
   To be called before anything sets a variable. NULL where what is found is not what the C library found. */
static inline char **sa_arguments(int *count) {
#if defined(__linux__) && defined(__GLIBC__)
    extern char *program_invocation_name;
    if (environ == NULL || environ[-1] != NULL) return NULL;
    char **end = environ - 1;
    intptr_t found = 0;
    while ((intptr_t)end[-1 - found] != found) found++;
    if (found == 0 || found > INT32_MAX || end[-found] != program_invocation_name) return NULL;
    *count = (int)found;
    return end - found;
#else
    (void)count;
    return NULL;
#endif
}

/* The path that the program was started by, as execve(2) got it. getauxval(3), AT_EXECFN. NULL where it is unknown. */
static inline const char *sa_program_path(void) {
#ifdef __linux__
    return (const char *)getauxval(AT_EXECFN);
#else
    return NULL;
#endif
}

#endif
