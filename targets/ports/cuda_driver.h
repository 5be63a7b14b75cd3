/* cuda_driver: the functions of NVIDIA's driver that the CUDA port calls, found when the program
 * starts. The binary links no NVIDIA library: without the driver it still runs, and reports a fault
 * only when a CUDA target is requested. Tests fill the table with an emulated device. All calls use
 * the device's primary context, as cuBLASLt and NCCL do. */
#ifndef SKEP_TARGETS_PORTS_CUDA_DRIVER_H
#define SKEP_TARGETS_PORTS_CUDA_DRIVER_H

#include "base/fault.h"

#include <cuda.h>
#include <stdbool.h>

/* Macros of cuda.h replace some of these names by their newest version (cuMemAlloc_v2), so the
 * members of the struct and the symbols to look up have the newest names. All of these are in the
 * driver of CUDA 12.0. The test `driver_floor` checks this, so that a newer toolkit cannot exclude
 * older drivers unnoticed. The newest version of cuEventElapsedTime is of CUDA 12.8; the first one
 * has the same arguments, and every driver keeps it. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

#define CUDA_DRIVER_FUNCTIONS(X)                                                                   \
    X(cuInit)                                                                                      \
    X(cuDriverGetVersion)                                                                          \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetPCIBusId)                                                                         \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDeviceTotalMem)                                                                            \
    X(cuDevicePrimaryCtxSetFlags)                                                                  \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuCtxGetStreamPriorityRange)                                                                 \
    X(cuMemGetInfo)                                                                                \
    X(cuMemGetAllocationGranularity)                                                               \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemcpyAsync)                                                                               \
    X(cuMemsetD8Async)                                                                             \
    X(cuStreamCreate)                                                                              \
    X(cuStreamCreateWithPriority)                                                                  \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamQuery)                                                                               \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamWaitEvent)                                                                           \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphUpload)                                                                               \
    X(cuGraphLaunch)                                                                               \
    X(cuGraphDestroy)                                                                              \
    X(cuGraphExecDestroy)                                                                          \
    X(cuEventCreate)                                                                               \
    X(cuEventDestroy)                                                                              \
    X(cuEventRecord)                                                                               \
    X(cuEventQuery)                                                                                \
    X(cuEventElapsedTime)                                                                          \
    X(cuLibraryLoadData)                                                                           \
    X(cuLibraryUnload)                                                                             \
    X(cuLibraryGetKernel)                                                                          \
    X(cuKernelGetFunction)                                                                         \
    X(cuFuncGetAttribute)                                                                          \
    X(cuFuncSetAttribute)                                                                          \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchHostFunc)

/* Members that are NULL if the driver lacks the function: cuFuncLoad is new in CUDA 12.4. */
#define CUDA_DRIVER_OPTIONAL_FUNCTIONS(X) X(cuFuncLoad)

#define CUDA_DRIVER_MEMBER(name) __typeof__(&name) name;
struct cuda_driver {
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_MEMBER)
    CUDA_DRIVER_OPTIONAL_FUNCTIONS(CUDA_DRIVER_MEMBER)
};
#undef CUDA_DRIVER_MEMBER

/* cuda_driver_open: load the driver of this machine, check its version and call cuInit. It stays
 * loaded until the process ends.
 * errors  STATUS_INPUT: no driver; one that is too old, or lacks a needed function; or one that
 *         finds no device. *driver is then unchanged, and the remedy says how to install the driver
 *         on this machine's system */
MUST_CHECK enum status cuda_driver_open(struct cuda_driver *driver, struct fault *fault);

/* cuda_driver_check_version: check that a driver of this version can load this build's GPU code.
 * version  of CUDA, as cuDriverGetVersion reports it: 12040 for 12.4
 * errors   STATUS_INPUT: the driver is too old; the fault names both versions */
MUST_CHECK enum status cuda_driver_check_version(int version, struct fault *fault);

/* cuda_driver_is_present: whether a driver is installed, even if it does not work. */
bool cuda_driver_is_present(void);

/* cuda_fault: set the fault "cannot ACTION: NAME, TEXT" for `result`. action  a verb and its
 * object: "reserve 12 GiB of device memory" */
enum status cuda_fault(const struct cuda_driver *driver, CUresult result, enum status status,
                       const char *subject, const char *action, struct fault *fault);

/* TRY_CUDA: return the result of `call` from this function unless it is CUDA_SUCCESS. */
#define TRY_CUDA(call)                                                                             \
    do {                                                                                           \
        CUresult try_result = (call);                                                              \
        if (try_result != CUDA_SUCCESS) {                                                          \
            return try_result;                                                                     \
        }                                                                                          \
    } while (0)

#endif
