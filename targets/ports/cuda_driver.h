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
 * members of the struct and the symbols to look up have the newest names. */
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
    X(cuFuncLoad)                                                                                  \
    X(cuFuncSetAttribute)                                                                          \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchHostFunc)

#define CUDA_DRIVER_MEMBER(name) __typeof__(&name) name;
struct cuda_driver {
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_MEMBER)
};
#undef CUDA_DRIVER_MEMBER

/* cuda_driver_open: load the driver of this machine and call cuInit. It stays loaded until the
 * process ends.
 * errors  STATUS_INPUT: no driver, a driver that lacks a needed function (named with the driver's
 *         version), or one that finds no device; *driver is then unchanged */
MUST_CHECK enum status cuda_driver_open(struct cuda_driver *driver, struct fault *fault);

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
