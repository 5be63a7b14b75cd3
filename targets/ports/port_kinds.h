/* port_kinds: the ports of each kind, as targets/ports/port.c calls them. */
#ifndef SKEP_TARGETS_PORTS_PORT_KINDS_H
#define SKEP_TARGETS_PORTS_PORT_KINDS_H

#include "targets/os/machine.h"
#include "targets/ports/port.h"

const char *port_space_name(enum space space);

/* port_cpu_reserve: fill *block, of which bytes, shared and holes are set.
 * errors  as port_reserve; nothing is reserved then */
MUST_CHECK enum status port_cpu_reserve(struct port *port, enum space space,
                                        struct port_block *block, struct fault *fault);
void port_cpu_release(const struct port_block *block);

/* port_host_has_free: whether the host has that much memory free now; what it has in *machine. */
bool port_host_has_free(uint64_t bytes, struct machine *machine);

/* port_refuse_host: STATUS_FIT with need, have and the processes that hold the most. */
enum status port_refuse_host(const struct port *port, enum space space, uint64_t bytes,
                             const struct machine *machine, struct fault *fault);

/* The same of the cuda port, in builds that have it. port_cuda_finish comes after every release. */
MUST_CHECK enum status port_cuda_init(struct port *port, struct fault *fault);
MUST_CHECK enum status port_cuda_reserve(struct port *port, enum space space,
                                         struct port_block *block, struct fault *fault);
void port_cuda_release(struct port *port, enum space space);
void port_cuda_finish(struct port *port);

#endif
