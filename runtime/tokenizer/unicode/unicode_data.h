/* The compact Unicode tables: tools/unicode_tables.py writes this file, and describes the form of
 * the tables. */
#ifndef SKEP_TOKENIZER_UNICODE_UNICODE_DATA_H
#define SKEP_TOKENIZER_UNICODE_UNICODE_DATA_H

#include <stdint.h>

enum {
    UNICODE_CLASSES_WORDS = 2399, /* size of unicode_classes in 32-bit words */
    UNICODE_FORMS_WORDS = 3188,   /* size of unicode_forms in 32-bit words */
};

extern const uint32_t unicode_classes[UNICODE_CLASSES_WORDS];
extern const uint32_t unicode_forms[UNICODE_FORMS_WORDS];

#endif
