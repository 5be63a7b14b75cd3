/* tokenizer_script: where tokenize.py, which makes tokens from text, lies on this machine. */
#ifndef SKEP_DATA_TOKENIZER_SCRIPT_H
#define SKEP_DATA_TOKENIZER_SCRIPT_H

#include <stddef.h>

/* tokenizer_script_path: writes the path of the script to `path`: share/skep/tokenize.py of the
 * installation that this program belongs to, or tools/tokenize.py of the source tree that has its
 * build folder; where neither exists, tools/tokenize.py. */
void tokenizer_script_path(char *path, size_t capacity);

#endif
