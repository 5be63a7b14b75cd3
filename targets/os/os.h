/* os: the operating system's services that the program uses, all Linux: the description of the
 * machine (machine.h), mapped memory (mapping.h), the thread pool (pool.h), threads (thread.h),
 * processes (process.h) and waiting on shared memory (futex.h).
 *
 * This module does not depend on targets or tensors. Files, clocks and sockets are in base and
 * transport.
 *
 * public   futex.h machine.h mapping.h pool.h process.h thread.h */
#ifndef SKEP_TARGETS_OS_OS_H
#define SKEP_TARGETS_OS_OS_H

#endif
