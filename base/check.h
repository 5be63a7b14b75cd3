/* check: assertions that are enabled in release builds too. A failed assertion is a bug of the
 * program; invalid input is never the cause. */
#ifndef SKEP_BASE_CHECK_H
#define SKEP_BASE_CHECK_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))
#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* check_failed: print the condition that does not hold, and abort. Never returns, never
 * allocates. */
_Noreturn void check_failed(const char *file, int line, const char *condition);

#define ASSERT(condition)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            check_failed(__FILE__, __LINE__, #condition);                                          \
        }                                                                                          \
    } while (0)

#endif
