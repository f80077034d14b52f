#ifndef SYNCAGENT_CPOSIX_TASKS_H
#define SYNCAGENT_CPOSIX_TASKS_H

/* Where Swift's tasks run. The runtime asks swift_task_enqueueGlobal_hook, where that is set, instead of libdispatch:
   include/swift/Runtime/Concurrency.h of Swift. */

#if defined(__linux__) && __has_attribute(swiftcall)
#include <stddef.h>
#include <stdint.h>

/* Defined by whoever includes this and calls sa_take_tasks_over(). */
extern void sa_take_job(void *job);

/* The runtime's own variable, by name and not by dlsym(3): a program linked with the runtime inside exports no symbols.
   Weak: a runtime without it leaves the address NULL. */
extern void *swift_task_enqueueGlobal_hook __attribute__((weak));

__attribute__((swiftcall)) static void sa_enqueue_job(void *job, void *original) {
    (void)original;
    sa_take_job(job);
}

/* Whether every task of this process goes to sa_take_job() from here on. To be called once, from the main thread, before
   the first task. 0 where the runtime has no such hook, or somebody has it already. */
static inline int sa_take_tasks_over(void) {
    void **hook = &swift_task_enqueueGlobal_hook;
    void *expected = NULL;
    if (hook == NULL) return 0;
    return __atomic_compare_exchange_n(hook, &expected, (void *)sa_enqueue_job, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
#endif

#endif
