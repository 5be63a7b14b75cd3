/* limits: the fixed bounds that several modules use, each with the reason for its value. */
#ifndef SKEP_BASE_LIMITS_H
#define SKEP_BASE_LIMITS_H

enum {
    /* each parameter starts at a multiple of this offset in its unit; 256 bytes in f32 */
    GRANULE_ELEMENTS = 64,
    ARENA_ALIGN_BYTES = 256, /* a multiple of a cache line, an AVX-512 vector and a CUDA sector */
    TENSOR_RANK_MAX = 4,     /* [batch, heads, time, dim] */
    NAME_BYTES = 128,        /* parameter names of the supported families are below 80 bytes */
    PATH_BYTES = 4096,       /* size of a path; equal to PATH_MAX of Linux */
    THREADS_MAX = 256,       /* maximum number of threads of one pool */
    RANKS_MAX = 1024,        /* maximum number of ranks of one site */
    LANES_MAX = 4,           /* lanes for compute, collectives and copies, and one spare */
    OPERANDS_MAX = 12,       /* the largest operation, attention backward, has 10 operands */
    LAYERS_MAX = 1024,       /* the deepest published decoder has 126 layers */
    VOCAB_MAX = 1 << 24,     /* token ids are int32; the largest published vocabulary is 262,144 */
    HIDDEN_MAX = 1 << 20,    /* with VOCAB_MAX: a tensor has at most 2^44 elements, a model 2^58 */
    FFN_MAX = 1 << 22,       /* four times HIDDEN_MAX */
    HEADS_MAX = 1 << 12,     /* 32 times the largest head count of a published model */
    /* the largest published value; also the maximum width of an attention tile */
    HEAD_DIM_MAX = 256,
    POSITIONS_MAX = 1 << 30,    /* a position, and the count of positions, must fit in int32 */
    RUN_KEYS_MAX = 96,          /* maximum number of keys of a run file */
    CONFIG_BYTES_MAX = 1 << 20, /* size of config.json; the largest published one is below 64 KiB */
    YAML_BYTES_MAX = 1 << 20,   /* size of a run file or a profile */
    YAML_NODES_MAX = 4096,      /* keys and list items of one file; run files have fewer than 200 */
    YAML_DEPTH_MAX = 8,         /* nesting levels, including the root; run files have 4 */
    YAML_PATH_BYTES = 256,      /* size of a path such as "memory.device.declared[3].bytes" */
    JSON_DEPTH_MAX = 32,        /* nesting levels; jansson's own limit is 2048 */
    JSON_VALUES_MAX =
        1 << 22, /* 8 values for each of 500,000 tensors; jansson uses about 100 B a value */
    SAFETENSORS_HEADER_MAX = 100000000, /* bytes; the format's own limit */
};

#endif
