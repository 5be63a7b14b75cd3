/* thread: starts a thread with a stack of a given size and all signals blocked. */
#ifndef SKEP_TARGETS_OS_THREAD_H
#define SKEP_TARGETS_OS_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* thread_start: run body(argument) on a new thread. Only the first thread of the process handles
 * signals. Call it before the seal.
 * limits  stack_bytes is a multiple of the page size
 * errors  0, or the error number of pthread_create */
int thread_start(pthread_t *thread, size_t stack_bytes, void *(*body)(void *), void *argument);

#endif
