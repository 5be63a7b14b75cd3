/* limits: every fixed bound of the program in one place, each with the reason for its size. */
#ifndef SKEP_BASE_LIMITS_H
#define SKEP_BASE_LIMITS_H

enum {
    GRANULE_ELEMENTS = 64,   /* parameters start on it (design: flat units); 256 B in fp32 */
    ARENA_ALIGN_BYTES = 256, /* covers a cache line, AVX-512 and CUDA's coalescing unit */
    TENSOR_RANK_MAX = 4,     /* [batch, heads, time, dim] */
    NAME_BYTES = 128,        /* longest parameter name of the known families is below 80 */
    PATH_BYTES = 4096,       /* PATH_MAX */
    THREADS_MAX = 256,       /* one pool per process */
    RANKS_MAX = 1024,        /* of one site; tables of ranks are this long */
    LANES_MAX = 4,           /* compute, collective, copy, net */
    OPERANDS_MAX = 12,       /* attention backward: 6 in, 3 out, positions, 2 spare */
    LAYERS_MAX = 1024,       /* the deepest published decoder has 126 */
    VOCAB_MAX = 1 << 24,     /* token ids are int32; the largest published vocabulary is 262,144 */
    HIDDEN_MAX = 1 << 20,    /* with VOCAB_MAX: no tensor above 2^44 elements, no model 2^58 */
    FFN_MAX = 1 << 22,       /* four times HIDDEN_MAX */
    HEADS_MAX = 1 << 12,     /* 32 times the most of a published model */
    HEAD_DIM_MAX = 256,      /* the largest published one, and a tile row of attention */
    POSITIONS_MAX = 1 << 30, /* positions are int32, and so is one past the last */
    RUN_KEYS_MAX = 96,       /* the keys of run.yaml */
    CONFIG_BYTES_MAX = 1 << 20, /* config.json; the largest published one is below 64 KiB */
    YAML_BYTES_MAX = 1 << 20,   /* run files and profiles */
    YAML_NODES_MAX = 4096,      /* keys and list items of one file; run files have below 200 */
    YAML_DEPTH_MAX = 8,         /* maps and lists within each other, with the root; ours 4 */
    YAML_PATH_BYTES = 256,      /* "memory.device.declared[3].bytes" and the like */
    JSON_DEPTH_MAX = 32,        /* nesting; jansson's own limit is 2048 */
    JSON_VALUES_MAX = 1 << 22,  /* 8 a tensor for 500,000 tensors; some 100 B each in jansson */
    SAFETENSORS_HEADER_MAX = 100000000, /* the format's own limit */
};

#endif
