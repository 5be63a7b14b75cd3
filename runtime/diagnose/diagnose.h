/* diagnose: measures and describes a machine or a run, for the commands that report on them. comm.h
 * tests and times collectives between ranks, dump.h writes the logits and gradients of one batch,
 * plan_site.h describes how a program is spread over ranks, probe_gpu.h measures a GPU, NCCL and
 * cuBLASLt, ledger_export.h writes a ledger as JSON lines, doctor.h checks what a machine lacks,
 * and versions.h describes the build. This module has no state between
 * calls and prints nothing: runtime/cli calls it and prints the results.
 *
 * public   comm.h doctor.h dump.h ledger_export.h plan_site.h probe_gpu.h versions.h */
#ifndef SKEP_DIAGNOSE_DIAGNOSE_H
#define SKEP_DIAGNOSE_DIAGNOSE_H
#endif
