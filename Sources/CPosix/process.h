#ifndef SYNCAGENT_CPOSIX_PROCESS_H
#define SYNCAGENT_CPOSIX_PROCESS_H

/* Starting, watching and ending a program of its own session. */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

/* Marks every descriptor from 3 up as close-on-exec; the only calls here are async-signal-safe. */
static inline void sa_close_others_on_exec(void) {
#ifdef SYS_close_range
    /* close_range(2), CLOSE_RANGE_CLOEXEC: kernel 5.11. */
    if (syscall(SYS_close_range, 3U, ~0U, 4U) == 0) return;
#endif
    long limit = sysconf(_SC_OPEN_MAX);
    if (limit < 0 || limit > 1048576) limit = 1048576;
    for (int fd = 3; fd < limit; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}

/* What a child may take up, setrlimit(2); 0 leaves a limit as it is. Each process has them for itself. */
struct sa_limits {
    uint64_t data;        /* bytes, RLIMIT_DATA: heap and private writable mappings */
    uint64_t cpu;         /* seconds, RLIMIT_CPU */
    uint64_t descriptors; /* RLIMIT_NOFILE */
};

/* Lowers a limit, never raises it. A system call and nothing else, so safe between fork and execve. */
static inline int sa_lower_limit(int resource, rlim_t value) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) return errno;
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > value) limit.rlim_max = value;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(resource, &limit) == 0 ? 0 : errno;
}

static inline int sa_apply_limits(const struct sa_limits *limits) {
    int code = sa_lower_limit(RLIMIT_CORE, 0);
    if (code == 0 && limits->data) code = sa_lower_limit(RLIMIT_DATA, limits->data);
    if (code == 0 && limits->cpu) code = sa_lower_limit(RLIMIT_CPU, limits->cpu);
    if (code == 0 && limits->descriptors) code = sa_lower_limit(RLIMIT_NOFILE, limits->descriptors);
    return code;
}

/* The child's half of sa_spawn_limited: between fork and execve only async-signal-safe calls, signal-safety(7). */
static inline int sa_become(
    const char *program, char *const argv[], char *const envp[], int directory, int input, int output, int error,
    mode_t mask, const struct sa_limits *limits
) {
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    for (int number = 1; number < 65; number++) sigaction(number, &standard, 0);
    sigset_t none;
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, 0) != 0) return errno;
    if (setsid() < 0) return errno;
    umask(mask);
    if (fchdir(directory) != 0) return errno;
    if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(error, 2) < 0) return errno;
    sa_close_others_on_exec();
    if (limits) {
        int code = sa_apply_limits(limits);
        if (code != 0) return code;
    }
    execve(program, argv, envp);
    return errno;
}

/* Starts `program` as the leader of a session and process group of its own: signal handlers and mask at their
   defaults, `directory` as working directory, `input`, `output` and `error` as standard input, output and error,
   every other descriptor closed, `mask` as umask, `limits` (or null) as resource limits. posix_spawn(3) can set neither
   the umask nor limits nor, portably, the working directory. The four descriptors must be above 2.
   Returns the process id; or -1 with errno, also when execve(2) in the child failed. */
static inline pid_t sa_spawn_limited(
    const char *program, char *const argv[], char *const envp[], int directory, int input, int output, int error,
    mode_t mask, const struct sa_limits *limits
) {
    int report[2];
    if (pipe(report) != 0) return -1;
    fcntl(report[0], F_SETFD, FD_CLOEXEC);
    fcntl(report[1], F_SETFD, FD_CLOEXEC);
    /* The write end must survive the child's dup2 onto 0, 1 and 2. */
    int high = fcntl(report[1], F_DUPFD_CLOEXEC, 3);
    int code = errno;
    close(report[1]);
    if (high < 0) {
        close(report[0]);
        errno = code;
        return -1;
    }
    /* No handler of ours may run in the child before it has been reset. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0) {
        int failure = sa_become(program, argv, envp, directory, input, output, error, mask, limits);
        ssize_t written = write(high, &failure, sizeof failure);
        _exit(written == (ssize_t)sizeof failure ? 127 : 126);
    }
    code = errno;
    pthread_sigmask(SIG_SETMASK, &before, 0);
    close(high);
    if (child > 0) {
        int failure = 0;
        ssize_t count;
        do count = read(report[0], &failure, sizeof failure); while (count < 0 && errno == EINTR);
        if (count == (ssize_t)sizeof failure) {
            while (waitpid(child, 0, 0) < 0 && errno == EINTR) {}
            child = -1;
            code = failure;
        }
    }
    close(report[0]);
    errno = code;
    return child;
}

/* Whether a child has ended, without taking its end: its number and its group's stay its own. waitid(2), WNOWAIT. */
static inline int sa_has_ended(pid_t process) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    return waitid(P_PID, (id_t)process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == process;
}

/* Whether reads and writes wait, O_NONBLOCK. */
static inline int sa_set_blocking(int fd, int waits) {
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, waits ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/* write(2); Swift has too many of that name. */
static inline ssize_t sa_write(int fd, const void *bytes, size_t count) { return write(fd, bytes, count); }

/* Makes a pipe or FIFO hold more; a hint. fcntl(2), F_SETPIPE_SZ. */
static inline void sa_set_pipe_size(int fd, int size) {
#ifdef __linux__
    (void)fcntl(fd, 1031 /* F_SETPIPE_SZ, behind _GNU_SOURCE */, size);
#else
    (void)fd;
    (void)size;
#endif
}

/* Blocks SIGPIPE for the calling thread: a write to a program that has ended fails with EPIPE and nothing more. */
static inline void sa_block_pipe_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, 0);
}

/* What a program inherits of whoever started it and no command here can work with, exec(3): ignored signals and the mask
   of blocked ones. With SIGCHLD ignored no child has an exit status. An ignored SIGHUP, SIGINT or SIGQUIT is what nohup(1)
   and a shell's `&` ask for, and job control belongs to the shell: those stay. To be called before the first thread. */
static inline void sa_reset_signals(void) {
    for (int number = 1; number < 65; number++) {
        struct sigaction found;
        switch (number) {
        case SIGHUP: case SIGINT: case SIGQUIT: case SIGPIPE: case SIGTSTP: case SIGTTIN: case SIGTTOU: continue;
        default: break;
        }
        if (sigaction(number, 0, &found) == 0 && found.sa_handler == SIG_IGN) signal(number, SIG_DFL);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
}

/* The umask of this process, umask(2) and proc_pid_status(5). Without proc(5) it is asked for by setting it, which other
   threads can see for a moment. */
static inline mode_t sa_umask(void) {
#ifdef __linux__
    char text[4096];
    FILE *file = fopen("/proc/self/status", "re");
    if (file != NULL) {
        size_t count = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[count] = 0;
        const char *field = strstr(text, "\nUmask:\t");
        if (field != NULL) return (mode_t)strtoul(field + 8, NULL, 8) & 0777;
    }
#endif
    mode_t mask = umask(077);
    umask(mask);
    return mask;
}

/* Lets a signal reach the calling thread: a process can be started with all of them blocked. pthread_sigmask(3) */
static inline void sa_unblock_signal(int number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
}

/* Installs a handler. nohup(1) and a shell's `&` hand down an ignored signal, which stays ignored; SIGTERM never is.
   signal(2) */
static inline void sa_handle_signal(int number, void (*handler)(int)) {
    if (signal(number, handler) == SIG_IGN && number != SIGTERM) signal(number, SIG_IGN);
}

/* pidfd_open(2), kernel 5.3: readable when the process has ended. -1 where there is none. */
static inline int sa_process_descriptor(pid_t process) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, process, 0U);
#else
    (void)process;
    errno = ENOSYS;
    return -1;
#endif
}

/* Takes the end of a child without waiting. 0: still running; 1: exited with *value; 2: ended by signal *value;
   -1: errno. */
static inline int sa_reap(pid_t process, int *value) {
    int status = 0;
    pid_t done = waitpid(process, &status, WNOHANG);
    if (done <= 0) return (int)done;
    if (WIFEXITED(status)) {
        *value = WEXITSTATUS(status);
        return 1;
    }
    *value = WTERMSIG(status);
    return 2;
}

/* Takes the ends of those of a group whose parents have ended, and which are this process's children now: process 1, as in a
   container, gets them, and while they are zombies the group is not empty. */
static inline void sa_reap_group(pid_t group) {
    while (waitpid(-group, NULL, WNOHANG) > 0) {}
}

/* An unnamed file in memory, memfd_create(2); elsewhere an unlinked temporary file. */
static inline int sa_unnamed_file(const char *name) {
#ifdef SYS_memfd_create
    return (int)syscall(SYS_memfd_create, name, 1U /* MFD_CLOEXEC */);
#else
    (void)name;
    char path[] = "/tmp/.syncagent.XXXXXX";
    int fd = mkstemp(path);
    if (fd >= 0) {
        unlink(path);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
#endif
}

/* fcntl(2), F_DUPFD_CLOEXEC: the same open file under a number that no dup2 onto 0, 1 or 2 can hit. */
static inline int sa_duplicate_above2(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 3); }

/* pipe(2), both ends close-on-exec, numbered above 2, and not blocking for the reader. */
static inline int sa_pipe(int ends[2]) {
    int low[2];
    if (pipe(low) != 0) return -1;
    ends[0] = sa_duplicate_above2(low[0]);
    ends[1] = sa_duplicate_above2(low[1]);
    int code = errno;
    close(low[0]);
    close(low[1]);
    if (ends[0] < 0 || ends[1] < 0) {
        if (ends[0] >= 0) close(ends[0]);
        if (ends[1] >= 0) close(ends[1]);
        errno = code;
        return -1;
    }
    fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) | O_NONBLOCK);
    return 0;
}

#endif
