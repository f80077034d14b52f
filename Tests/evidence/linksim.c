// linksim: a slow link between two network namespaces, in user space. Each namespace gets a TUN device "link0"; the
// packets that come out of one go into the other after a fixed delay, through a line of limited rate with a bounded
// drop-tail queue, except for a seeded random share that is lost. Real TCP runs over it.
//
//   linksim NAMESPACE_A NAMESPACE_B ONE_WAY_DELAY_MS RATE_MBIT LOSS_PERCENT [QUEUE_KIB [SEED]]
//
// Rate and loss hold for each direction. The queue is one bandwidth-delay product unless told otherwise, at least
// 64 KiB. Needs root. Ends on SIGTERM or SIGINT and prints what each direction carried. link.sh gives addresses.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PACKET 1500
#define TICK 200000  // ns: packets that are due within one tick leave together, so that the CPU can sleep between

typedef struct {
    int64_t due;
    uint16_t length;
    uint8_t bytes[PACKET];
} packet;

typedef struct {
    const char *name;
    int from, to;
    packet *slots;  // a ring; the delay is constant, so packets leave in the order they came
    size_t count, first, used;
    int64_t line_free;  // when the line has sent all it has accepted
    uint64_t random;
    uint64_t carried, carried_bytes, lost, dropped;
    int64_t longest_wait;
} direction;

static double ns_per_byte, loss;
static int64_t delay, longest_queue;
static volatile sig_atomic_t stopping;

static void stop(int signal) {
    (void)signal;
    stopping = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "linksim: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// xorshift64*: a number in 0 ..< 1.
static double next_random(direction *d) {
    d->random ^= d->random >> 12;
    d->random ^= d->random << 25;
    d->random ^= d->random >> 27;
    return (double)((d->random * 2685821657736338717u) >> 11) / 9007199254740992.0;
}

static int device_in(const char *namespace) {
    char path[300];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail(path);
    close(space);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq request = {.ifr_name = "link0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0) fail("/dev/net/tun");
    return device;
}

static void prepare(direction *d, const char *name, int from, int to, uint64_t seed) {
    *d = (direction){.name = name, .from = from, .to = to, .random = seed * 0x9E3779B97F4A7C15u | 1};
    // What the line can hold in packets of 200 bytes on average, and some.
    d->count = (size_t)((double)(delay + longest_queue) / ns_per_byte / 200) + 4096;
    d->slots = malloc(d->count * sizeof *d->slots);
    if (d->slots == NULL) fail("memory");
}

// Takes the packets that wait at one end: lost, dropped, or given the time at which they arrive.
static void accept_packets(direction *d) {
    static packet spare;
    for (int taken = 0; taken < 512; taken++) {
        bool full = d->used == d->count;
        packet *p = full ? &spare : &d->slots[(d->first + d->used) % d->count];
        ssize_t length = read(d->from, p->bytes, PACKET);
        if (length <= 0) return;
        int64_t time = now();
        int64_t start = d->line_free > time ? d->line_free : time;
        if (full || start - time > longest_queue) {
            d->dropped++;
            continue;
        }
        if (start - time > d->longest_wait) d->longest_wait = start - time;
        d->line_free = start + (int64_t)((double)length * ns_per_byte);
        if (loss > 0 && next_random(d) < loss) {  // a lost packet has used the line all the same
            d->lost++;
            continue;
        }
        p->length = (uint16_t)length;
        p->due = d->line_free + delay;
        d->used++;
    }
}

static void deliver_packets(direction *d, int64_t time) {
    while (d->used > 0 && d->slots[d->first].due <= time) {
        packet *p = &d->slots[d->first];
        if (write(d->to, p->bytes, p->length) < 0 && errno == EAGAIN) return;
        d->carried++;
        d->carried_bytes += p->length;
        d->first = (d->first + 1) % d->count;
        d->used--;
    }
}

static void tell(const direction *d) {
    fprintf(stderr, "%s: %llu packets, %llu bytes, %llu lost, %llu dropped by a full queue, longest queue %.1f ms\n", d->name,
            (unsigned long long)d->carried, (unsigned long long)d->carried_bytes, (unsigned long long)d->lost,
            (unsigned long long)d->dropped, (double)d->longest_wait / 1e6);
}

int main(int count, char **arguments) {
    if (count < 6 || count > 8 || atof(arguments[4]) <= 0) {
        fprintf(stderr, "usage: linksim NAMESPACE_A NAMESPACE_B ONE_WAY_DELAY_MS RATE_MBIT LOSS_PERCENT [QUEUE_KIB [SEED]]\n");
        return 64;
    }
    delay = (int64_t)(atof(arguments[3]) * 1e6);
    ns_per_byte = 8000 / atof(arguments[4]);
    loss = atof(arguments[5]) / 100;
    double queue = count > 6 ? atof(arguments[6]) * 1024 : 0;
    if (queue <= 0) queue = 2 * (double)delay / ns_per_byte;
    if (queue < 65536) queue = 65536;
    longest_queue = (int64_t)(queue * ns_per_byte);
    uint64_t seed = count > 7 ? strtoull(arguments[7], NULL, 10) : 1;

    int a = device_in(arguments[1]), b = device_in(arguments[2]);
    direction there, back;
    prepare(&there, "A to B", a, b, seed);
    prepare(&back, "B to A", b, a, seed + 1);
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    setpriority(PRIO_PROCESS, 0, -20);

    while (!stopping) {
        accept_packets(&there);
        accept_packets(&back);
        int64_t time = now();
        deliver_packets(&there, time);
        deliver_packets(&back, time);
        if (there.used + back.used > 0) {
            nanosleep(&(struct timespec){.tv_nsec = TICK}, NULL);
        } else {
            struct pollfd idle[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
            poll(idle, 2, 1000);
        }
    }
    tell(&there);
    tell(&back);
    return 0;
}
