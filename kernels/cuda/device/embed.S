/* One family's fatbin, as bytes of the binary. FATBIN is its file, SYMBOL its name in C. */
    .section .rodata
    .balign 16
    .global SYMBOL
    .hidden SYMBOL
    .type SYMBOL, %object
SYMBOL:
    .incbin FATBIN
    .size SYMBOL, . - SYMBOL
    .section .note.GNU-stack, "", %progbits
