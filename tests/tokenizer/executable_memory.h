/* executable_memory: a process that may not make memory executable, for tests of patterns, which
 * PCRE2 then interprets. */
#ifndef SKEP_TESTS_TOKENIZER_EXECUTABLE_MEMORY_H
#define SKEP_TESTS_TOKENIZER_EXECUTABLE_MEMORY_H

#include <stdbool.h>

/* refuse_executable_memory: from now on the kernel refuses memory that this process could write and
 * execute. Call it before the first pattern is compiled: PCRE2 keeps memory that it has freed.
 * returns  false: the kernel, before Linux 6.3, has no such setting */
bool refuse_executable_memory(void);

/* has_generated_code: true if the process has executable memory that is from no file. */
bool has_generated_code(void);

#endif
