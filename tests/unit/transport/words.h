/* words: an environment as a line of text. */
#ifndef SKEP_TESTS_UNIT_TRANSPORT_WORDS_H
#define SKEP_TESTS_UNIT_TRANSPORT_WORDS_H

/* words_variable: what a launch_variable gives for `context`, a string "NAME=value NAME=value".
 * As in an environment a value stays while others are read, 64 of them.
 * errors  NULL when the name is not among them */
const char *words_variable(void *context, const char *name);

#endif
