/* thread: how a thread of ours begins: a stack of a stated size, and no signals. */
#ifndef SKEP_TARGETS_OS_THREAD_H
#define SKEP_TARGETS_OS_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* thread_start: run body(argument) beside the caller. Signals stay with the process's first thread,
 * which knows what to do with them. Before seal.
 * limits  stack_bytes whole pages
 * errors  0, or the error number of pthread_create */
int thread_start(pthread_t *thread, size_t stack_bytes, void *(*body)(void *), void *argument);

#endif
