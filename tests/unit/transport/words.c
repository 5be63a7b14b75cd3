#include "words.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

const char *words_variable(void *context, const char *name) {
    static char values[64][320];
    static unsigned newest;
    char *value = values[newest % ARRAY_COUNT(values)];
    size_t length = strlen(name);
    for (const char *at = context; *at != '\0'; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word > length && at[length] == '=' && strncmp(at, name, length) == 0) {
            snprintf(value, sizeof values[0], "%.*s", (int)(word - length - 1), at + length + 1);
            newest++;
            return value;
        }
        at += word;
    }
    return NULL;
}
