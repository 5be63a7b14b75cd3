/* tokenizer_script: finds the script tokenize.py, which converts text to tokens, on this
 * machine. */
#ifndef SKEP_DATA_TOKENIZER_SCRIPT_H
#define SKEP_DATA_TOKENIZER_SCRIPT_H

#include <stddef.h>

/* tokenizer_script_path: writes the path of tokenize.py to `path`: share/skep/tokenize.py if this
 * program is installed, or tools/tokenize.py of the source tree if this program is in a build
 * folder. If neither file exists, the path is tools/tokenize.py. */
void tokenizer_script_path(char *path, size_t capacity);

#endif
