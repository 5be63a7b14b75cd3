/* port_kinds: the functions of the CPU port and the CUDA port, which ports.c calls. */
#ifndef SKEP_TARGETS_PORTS_PORT_KINDS_H
#define SKEP_TARGETS_PORTS_PORT_KINDS_H

#include "targets/os/machine.h"
#include "targets/ports/ports.h"

const char *port_space_name(enum space space);

/* port_cpu_reserve: map the block described by block->bytes, shared and unused_ranges, and fill in
 * its other fields.
 * errors  as port_reserve; nothing is reserved then */
MUST_CHECK enum status port_cpu_reserve(struct port *port, enum space space,
                                        struct port_block *block, struct fault *fault);
void port_cpu_release(const struct port_block *block);

/* port_host_has_free: whether `bytes` of host memory are free now. Fills *machine. */
bool port_host_has_free(uint64_t bytes, struct machine *machine);

/* port_host_fault: set a STATUS_FIT fault with the bytes needed and free, and the processes that
 * use the most memory. */
enum status port_host_fault(const struct port *port, enum space space, uint64_t bytes,
                            const struct machine *machine, struct fault *fault);

/* The functions of the CUDA port. In a build without CUDA, port_cuda_init returns a fault.
 * port_cuda_finish is called after all releases. */
MUST_CHECK enum status port_cuda_init(struct port *port, struct fault *fault);
MUST_CHECK enum status port_cuda_reserve(struct port *port, enum space space,
                                         struct port_block *block, struct fault *fault);
void port_cuda_release(struct port *port, enum space space);
void port_cuda_finish(struct port *port);

#endif
