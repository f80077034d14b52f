// Runs a program in which one system call fails once, and no other does.
//
//     onecall RECORD count NUMBER,...            PROGRAM ARGUMENT...
//     onecall RECORD NUMBER POSITION ERRNO HOW   PROGRAM ARGUMENT...
//
// Calls are counted over all threads and processes of PROGRAM together (strace(1) counts each thread by itself, and would
// fail one call in each of them); programs that it starts, such as hooks, are left alone. HOW: `instead` of the call;
// `after` it was done, as close(2) reports what an earlier write could not do; `short`: with half of its bytes.
//
// RECORD gets a line for each call that was counted, or for the one that failed: number, thread, module and offset of the
// instruction, and those of the callers as far as frame pointers lead. Addresses are not randomized, so that a place in the
// program is the same in each run. A seccomp(2) filter stops the program at these calls only: all others run at full speed.
//
// Exit status: that of PROGRAM, 128 and the number of the signal that ended it, or 125 when nothing could be tried. SIGUSR1
// lets go of all threads and ends this program, so that a debugger can look at one that hangs.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "only for x86-64: registers and numbers of system calls are its own"
#endif

enum { MOST_CALLS = 200, MOST_FRAMES = 12, MOST_THREADS = 4096 };
enum how { COUNT, INSTEAD, AFTER, SHORT };

static int calls[MOST_CALLS], call_count;
static enum how how = COUNT;
static long position, failure, seen;
static FILE *record;
static char program[PATH_MAX];
static pid_t traced[MOST_THREADS], failing;   // Threads that are traced; the one whose call is done and is yet to fail.
static int traced_count;
static volatile sig_atomic_t let_go;

static void die(const char *what) {
    fprintf(stderr, "onecall: %s: %s\n", what, strerror(errno));
    exit(125);
}

static void wants_to_let_go(int number) { (void)number; let_go = 1; }

static void filter_calls(void) {
    struct sock_filter code[MOST_CALLS + 4];
    int n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < call_count; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], (unsigned char)(call_count - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog filter = {(unsigned short)n, code};
    if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("prctl");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) die("seccomp");
}

// Whether the thread is one of PROGRAM, and not of what it has started.
static int is_program(pid_t thread) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", thread);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strcmp(path, program) == 0;
}

// Module and offset of an address, from proc_pid_maps(5); whether it is code.
static int name_address(pid_t thread, uint64_t address, char *name, size_t size) {
    char path[64], line[PATH_MAX + 128];
    snprintf(path, sizeof path, "/proc/%d/maps", thread);
    FILE *maps = fopen(path, "re");
    if (!maps) return 0;
    int found = 0;
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned long start, end, offset;
        char access[8];
        int at = 0;
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %n", &start, &end, access, &offset, &at) < 4) continue;
        if (address < start || address >= end) continue;
        line[strcspn(line, "\n")] = 0;
        const char *file = at > 0 ? strrchr(line + at, '/') : NULL;
        snprintf(name, size, "%s+%lx", file ? file + 1 : "?", (unsigned long)(address - start + offset));
        found = access[2] == 'x';
        break;
    }
    fclose(maps);
    return found;
}

static int peek(pid_t thread, uint64_t address, uint64_t words[2]) {
    struct iovec here = {words, 16}, there = {(void *)address, 16};
    return process_vm_readv(thread, &here, 1, &there, 1, 0) == 16;
}

// The names of addresses that were met before: looking through the maps for each call would take most of the time.
struct known { uint64_t address; int is_code; char name[80]; };
static struct known memory[16384];

static const struct known *known_address(pid_t thread, uint64_t address) {
    struct known *one = &memory[(address ^ (address >> 14)) % 16384];
    if (one->address != address) {
        one->address = address;
        one->is_code = name_address(thread, address, one->name, sizeof one->name);
    }
    return one;
}

static void write_record(pid_t thread, const struct user_regs_struct *registers) {
    fprintf(record, "%lld %d %s", (long long)registers->orig_rax, thread, known_address(thread, registers->rip)->name);
    uint64_t frame = registers->rbp, words[2];
    for (int i = 0; i < MOST_FRAMES && frame > registers->rsp && peek(thread, frame, words); i++) {
        const struct known *caller = known_address(thread, words[1]);
        if (!caller->is_code) break;
        fprintf(record, " %s", caller->name);
        if (words[0] <= frame) break;
        frame = words[0];
    }
    // Libraries without frame pointers: what looks like their addresses on the stack, which may be old. Only for people to read.
    uint64_t stack[2];
    for (int i = 0, most = 6; how != COUNT && i < 400 && most > 0 && peek(thread, registers->rsp + 8 * (uint64_t)i, stack); i++) {
        const struct known *caller = known_address(thread, stack[0]);
        if (!caller->is_code || strncmp(caller->name, "libc.so", 7) == 0) continue;
        fprintf(record, " ~%s", caller->name);
        most--;
    }
    fputc('\n', record);
}

// Whether this call can fail so, as far as that depends on what its descriptor is: a disk's faults are those of files.
static int is_plausible(pid_t thread, const struct user_regs_struct *registers) {
    long call = (long)registers->orig_rax;
    if (call != SYS_write && call != SYS_writev && call != SYS_read && call != SYS_readv) return 1;
    char link[64], target[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, (int)registers->rdi);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 1;
    target[length] = 0;
    // EAGAIN of an event's descriptor says that it is set already, and eight bytes are all or none: eventfd(2).
    if (strncmp(target, "anon_inode:", 11) == 0) return how != SHORT && failure == EINTR;
    if (how == SHORT) return 1;
    int is_of_disk = failure == EIO || failure == ENOSPC || failure == EDQUOT || failure == EFBIG || failure == EPERM || failure == EISDIR;
    return !is_of_disk || (strncmp(target, "socket:", 7) != 0 && strncmp(target, "pipe:", 5) != 0);
}

// A call has begun: counts it, and lets it fail when it is the one. How to go on with the thread.
static enum __ptrace_request begun(pid_t thread) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0 || !is_program(thread)) return PTRACE_CONT;
    // Only waiting may fail: whoever wakes others and cannot has no way to say so. Nor has who takes a descriptor out of a set.
    if (registers.orig_rax == SYS_futex && (registers.rsi & 0x7f) != 0 && (registers.rsi & 0x7f) != 9) return PTRACE_CONT;
    if (registers.orig_rax == SYS_epoll_ctl && registers.rsi == 2) return PTRACE_CONT;
    seen++;
    if (how == COUNT) {
        write_record(thread, &registers);
        return PTRACE_CONT;
    }
    if (seen != position || !is_plausible(thread, &registers)) return PTRACE_CONT;
    write_record(thread, &registers);
    fflush(record);
    if (how == AFTER) {
        failing = thread;
        return PTRACE_SYSCALL;
    }
    if (how == SHORT) {
        registers.rdx = registers.rdx > 1 ? registers.rdx / 2 : registers.rdx;
    } else {
        registers.orig_rax = (unsigned long long)-1;
        registers.rax = (unsigned long long)-failure;
    }
    // A thread that is being ended at this moment has no registers, and makes no call any more.
    if (ptrace(PTRACE_SETREGS, thread, 0, &registers) != 0 && errno != ESRCH) die("setting registers");
    return PTRACE_CONT;
}

static void ended(pid_t thread) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0) return;
    registers.rax = (unsigned long long)-failure;
    ptrace(PTRACE_SETREGS, thread, 0, &registers);
}

static void remember(pid_t thread) {
    for (int i = 0; i < traced_count; i++)
        if (traced[i] == thread) return;
    if (traced_count < MOST_THREADS) traced[traced_count++] = thread;
}

static void forget(pid_t thread) {
    for (int i = 0; i < traced_count; i++)
        if (traced[i] == thread) traced[i] = traced[--traced_count];
}

static void release_all(void) {
    for (int i = 0; i < traced_count; i++) ptrace(PTRACE_INTERRUPT, traced[i], 0, 0);
    for (int left = traced_count; left > 0; left--) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) break;
        if (WIFSTOPPED(status)) ptrace(PTRACE_DETACH, thread, 0, 0);
    }
}

static int watch(pid_t root) {
    int result = 125, is_over = 0;
    struct timespec end = {0, 0};
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL | (is_over ? WNOHANG : 0));
        if (let_go) {
            release_all();
            return 124;
        }
        if (thread < 0 && errno == EINTR) continue;
        if (thread < 0) return result;
        if (thread == 0) {
            // The program has ended. What it left behind may go on for a while; then it is killed with this program.
            struct timespec now, pause = {0, 2000000};
            clock_gettime(CLOCK_MONOTONIC, &now);
            if (now.tv_sec > end.tv_sec + 5) return result;
            nanosleep(&pause, NULL);
            continue;
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            forget(thread);
            if (thread == root) {
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                is_over = 1;
                clock_gettime(CLOCK_MONOTONIC, &end);
            }
            continue;
        }
        remember(thread);
        enum __ptrace_request next = PTRACE_CONT;
        long sent = 0;
        int event = status >> 16, number = WSTOPSIG(status);
        if (event == PTRACE_EVENT_SECCOMP) {
            next = begun(thread);
        } else if (event == PTRACE_EVENT_STOP) {
            if (number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU) next = PTRACE_LISTEN;
        } else if (event == 0 && number == (SIGTRAP | 0x80)) {
            if (thread == failing) {
                struct __ptrace_syscall_info info;
                if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) > 0 && info.op == PTRACE_SYSCALL_INFO_EXIT) {
                    ended(thread);
                    failing = 0;
                } else {
                    next = PTRACE_SYSCALL;
                }
            }
        } else if (event == 0) {
            sent = number;
        }
        ptrace(next, thread, 0, sent);
    }
}

int main(int argc, char **argv) {
    int first = 0;
    if (argc >= 5 && strcmp(argv[2], "count") == 0) {
        char *list = argv[3];
        for (char *word; (word = strsep(&list, ",")) && call_count < MOST_CALLS;) calls[call_count++] = atoi(word);
        first = 4;
    } else if (argc >= 7) {
        calls[call_count++] = atoi(argv[2]);
        position = atol(argv[3]);
        failure = atol(argv[4]);
        how = strcmp(argv[5], "after") == 0 ? AFTER : strcmp(argv[5], "short") == 0 ? SHORT : INSTEAD;
        first = 6;
    } else {
        errno = EINVAL;
        die("usage");
    }
    if (!realpath(argv[first], program)) die(argv[first]);
    record = fopen(argv[1], "we");
    if (!record) die(argv[1]);
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        raise(SIGSTOP);
        personality(ADDR_NO_RANDOMIZE);
        filter_calls();
        execv(program, argv + first);
        die(program);
    }
    int status;
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) die("waiting");
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |
        PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, child, 0, options) != 0) die("tracing");
    struct sigaction action = {.sa_handler = wants_to_let_go};
    sigaction(SIGUSR1, &action, NULL);
    kill(child, SIGCONT);
    int result = watch(child);
    if (fclose(record) != 0) die(argv[1]);
    return result;
}
