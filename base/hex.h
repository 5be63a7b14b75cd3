/* hex: conversion between bytes and lower-case hexadecimal digits. */
#ifndef SKEP_BASE_HEX_H
#define SKEP_BASE_HEX_H

#include "base/text.h"

/* hex_add: appends two digits for each byte. */
void hex_add(struct text *text, const void *bytes, size_t count);

/* hex_read: converts exactly 2 * count digits at `digits`, which need no NUL, to `count` bytes.
 * returns  false when a character is not one of 0-9 and a-f; `bytes` is then unchanged */
MUST_CHECK bool hex_read(const char *digits, size_t count, void *bytes);

#endif
