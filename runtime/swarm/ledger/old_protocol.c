#include "runtime/swarm/ledger/ledger_file.h"

enum status old_protocol_fault(struct fault *fault, const char *place) {
    return fault_set(fault, STATUS_INPUT, place, "start a new swarm, or use Skep 0.1.0",
                     "uses protocol 1; Skep 0.1.0 was the last version that could read it");
}
