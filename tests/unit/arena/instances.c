#include "instances.h"

#include "base/random.h"

#include <stdio.h>

static uint64_t drawn(uint64_t key, uint64_t *index, uint64_t below) {
    return (uint64_t)(random_uniform(key, (*index)++) * (double)below);
}

static const char *numbered(struct region *region, const char *prefix, int number) {
    char name[64];
    snprintf(name, sizeof name, "%s%d", prefix, number);
    return region_copy_text(region, name);
}

struct instance instance_random(const struct random_instance *with, struct region *region) {
    struct instance instance = {region_alloc(region, (size_t)with->count, sizeof(struct extent)),
                                with->count};
    uint64_t index = 0;
    for (int i = 0; i < with->count; i++) {
        uint32_t life = 1 + (uint32_t)drawn(with->seed, &index, with->life_max);
        life = life < with->steps ? life : with->steps;
        uint32_t first = (uint32_t)drawn(with->seed, &index, with->steps - life + 1);
        uint64_t units = 1 + drawn(with->seed, &index, with->bytes_max / with->unit);
        uint64_t align = 1;
        while (align < with->align_max && drawn(with->seed, &index, 2) == 0) {
            align *= 2;
        }
        instance.extents[i] = (struct extent){
            .name = numbered(region, "r", i),
            .role = (enum extent_role)drawn(with->seed, &index, ROLE_COUNT),
            .space = (enum space)drawn(with->seed, &index, (uint64_t)with->space_count),
            .bytes = units * with->unit,
            .align = align,
            .first = first,
            .last = first + life,
        };
    }
    return instance;
}

struct instance instance_tiling(uint64_t seed, int count, uint32_t steps, uint64_t bytes,
                                struct region *region) {
    struct instance instance = {region_alloc(region, (size_t)count, sizeof(struct extent)), 1};
    uint64_t index = 0;
    instance.extents[0] = (struct extent){.bytes = bytes, .align = 1, .last = steps};
    for (int tries = 0; tries < 1000 * count && instance.count < count; tries++) {
        /* Split the larger of two drawn rectangles, so that sizes do not differ too much. */
        struct extent *a = &instance.extents[drawn(seed, &index, (uint64_t)instance.count)];
        struct extent *b = &instance.extents[drawn(seed, &index, (uint64_t)instance.count)];
        double area_a = (double)a->bytes * (a->last - a->first);
        double area_b = (double)b->bytes * (b->last - b->first);
        struct extent *cut = area_a >= area_b ? a : b;
        struct extent *rest = &instance.extents[instance.count];
        *rest = *cut;
        if (drawn(seed, &index, 2) == 0 && cut->last - cut->first > 1) {
            uint32_t at =
                cut->first + 1 + (uint32_t)drawn(seed, &index, cut->last - cut->first - 1);
            cut->last = at;
            rest->first = at;
            instance.count++;
        } else if (cut->bytes > 1) {
            uint64_t low = 1 + drawn(seed, &index, cut->bytes - 1);
            rest->bytes = cut->bytes - low;
            cut->bytes = low;
            instance.count++;
        }
    }
    for (int i = 0; i < instance.count; i++) {
        instance.extents[i].name = numbered(region, "t", i);
        instance.extents[i].role = (enum extent_role)(i % ROLE_COUNT);
    }
    return instance;
}

/* Append an extent with the settings that all generated extents share. */
static void push(struct instance *instance, struct extent extent) {
    extent.align = 256;
    extent.bytes = (extent.bytes + 255) & ~(uint64_t)255;
    instance->extents[instance->count++] = extent;
}

struct instance instance_stack(int layers, struct region *region) {
    struct instance stack = {region_alloc(region, (size_t)layers * 4, sizeof(struct extent)), 0};
    uint32_t steps = (uint32_t)layers * 2;
    for (int i = 0; i < layers; i++) {
        uint32_t forward = (uint32_t)i, backward = steps - 1 - (uint32_t)i;
        uint64_t bytes = 4096 * (uint64_t)(1 + i % 7);
        push(&stack, (struct extent){.name = numbered(region, "weights.", i),
                                     .role = ROLE_PARAMS,
                                     .bytes = 3 * bytes,
                                     .last = steps});
        push(&stack, (struct extent){.name = numbered(region, "saved.", i),
                                     .role = ROLE_ACTIVATIONS,
                                     .bytes = bytes,
                                     .first = forward,
                                     .last = backward + 1});
        push(&stack, (struct extent){.name = numbered(region, "forward.", i),
                                     .role = ROLE_WORKSPACE,
                                     .bytes = bytes * 5 / 2,
                                     .first = forward,
                                     .last = forward + 1});
        push(&stack, (struct extent){.name = numbered(region, "backward.", i),
                                     .role = ROLE_WORKSPACE,
                                     .bytes = bytes * 9 / 2,
                                     .first = backward,
                                     .last = backward + 1});
    }
    return stack;
}

enum { FORWARD_OPS = 11, BACKWARD_OPS = 19, EXTENTS_A_LAYER = 28 };

/* One layer of a step of 2 x layers stretches: ops of forward, then ops of backward. Sizes are
 * those of a block with width 768, 12 heads, 1024 tokens, in bf16. */
static void push_layer(struct instance *instance, int layer, int layers, struct region *region) {
    static const uint32_t SAVED_AT[] = {0, 1, 2, 4, 5, 6, 7, 8, 9};
    static const uint64_t SAVED_WIDTH[] = {768, 4, 2304, 768, 24, 768, 768, 4, 3072};
    uint32_t forward = 2 + (uint32_t)layer * FORWARD_OPS;
    uint32_t backward =
        2 + (uint32_t)layers * FORWARD_OPS + 4 + (uint32_t)(layers - 1 - layer) * BACKWARD_OPS;
    for (uint32_t i = 0; i < ARRAY_COUNT(SAVED_AT); i++) {
        push(instance, (struct extent){.name = numbered(region, "saved.", layer),
                                       .role = ROLE_ACTIVATIONS,
                                       .bytes = 2048 * SAVED_WIDTH[i],
                                       .first = forward + SAVED_AT[i],
                                       .last = backward + BACKWARD_OPS - 2 * SAVED_AT[i]});
    }
    /* The weights are gathered one layer ahead, twice. */
    push(instance, (struct extent){.name = numbered(region, "gathered.forward.", layer),
                                   .role = ROLE_PARAMS,
                                   .bytes = 2 * 7087872,
                                   .first = layer == 0 ? 0 : forward - FORWARD_OPS,
                                   .last = forward + FORWARD_OPS});
    push(instance, (struct extent){.name = numbered(region, "gathered.backward.", layer),
                                   .role = ROLE_PARAMS,
                                   .bytes = 2 * 7087872,
                                   .first = backward - 4,
                                   .last = backward + BACKWARD_OPS});
    push(instance, (struct extent){.name = numbered(region, "gradient.", layer),
                                   .role = ROLE_GRADIENTS,
                                   .bytes = 4 * 7087872,
                                   .first = backward,
                                   .last = backward + BACKWARD_OPS + 3});
    for (uint32_t i = 0; i < 6; i++) {
        push(instance, (struct extent){.name = numbered(region, "forward.", layer),
                                       .role = ROLE_WORKSPACE,
                                       .bytes = 2048 * 768 * (1 + (uint64_t)i % 4),
                                       .first = forward + i,
                                       .last = forward + i + 2 + i % 3});
    }
    for (uint32_t i = 0; i < 10; i++) {
        push(instance, (struct extent){.name = numbered(region, "backward.", layer),
                                       .role = ROLE_ACTIVATION_GRADIENTS,
                                       .bytes = 2048 * 768 * (1 + (uint64_t)(i * i) % 5),
                                       .first = backward + i,
                                       .last = backward + i + 3 + i % 5});
    }
}

struct instance instance_training(int layers, struct region *region) {
    size_t capacity = (size_t)layers * EXTENTS_A_LAYER + 8;
    struct instance training = {region_alloc(region, capacity, sizeof(struct extent)), 0};
    uint32_t head = 2 + (uint32_t)layers * FORWARD_OPS;
    uint32_t steps = head + 4 + (uint32_t)layers * BACKWARD_OPS + 8;
    uint64_t shard_bytes = (uint64_t)layers * 7087872 / 4;
    push(&training, (struct extent){"master", ROLE_MASTER, 0, shard_bytes * 4, 0, 0, steps});
    push(&training, (struct extent){"moments", ROLE_MOMENTS, 0, shard_bytes * 8, 0, 0, steps});
    push(&training, (struct extent){"scalars", ROLE_SCALARS, 0, 256, 0, 0, steps});
    push(&training, (struct extent){"tokens", ROLE_BATCH, 0, 4096, 0, 0, steps - 8});
    push(&training,
         (struct extent){"logits", ROLE_ACTIVATIONS, 0, 2048ull * 50304, 0, head, head + 4});
    for (int i = 0; i < layers; i++) {
        push_layer(&training, i, layers, region);
    }
    return training;
}
