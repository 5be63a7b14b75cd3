#include "tests/tokenizer/executable_memory.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1, LINE_CAPACITY = 4096 };

bool refuse_executable_memory(void) {
    return prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) == 0;
}

bool has_generated_code(void) {
    char line[LINE_CAPACITY];
    char rights[8];
    unsigned long inode;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    ASSERT(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        ASSERT(sscanf(line, "%*s %7s %*s %*s %lu", rights, &inode) == 2);
        bool is_own = inode == 0 && strchr(line, '[') == NULL; /* not [vdso] */
        found = found || (rights[2] == 'x' && (is_own || strstr(line, "(deleted)") != NULL));
    }
    (void)fclose(maps);
    return found;
}
