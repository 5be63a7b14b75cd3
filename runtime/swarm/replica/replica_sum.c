/* replica_sum: encodes a member's contribution to a round, and computes the means of the slices
 * that it owns. */
#include "base/check.h"
#include "kernels/outer.h"
#include "runtime/swarm/replica/replica_state.h"

#include <math.h>
#include <string.h>

/* Total weights must be below this, because outer_token_share requires it. */
static const uint64_t TOTAL_WEIGHT_END = (uint64_t)1 << 53;

uint8_t *replica_own_contribution(const struct replica *replica, uint32_t slice) {
    return replica->contribution + slices_range(&replica->shape.slices, slice).offset;
}

uint8_t *replica_result(const struct replica *replica, uint32_t round, uint32_t slice) {
    const struct slices *slices = &replica->shape.slices;
    return replica->results + round % RESULT_ROUNDS * slices_results_bytes(slices) +
           slices_range(slices, slice).result_offset;
}

double replica_slice_energy(const struct replica *replica, uint32_t slice, const uint8_t *bytes) {
    const struct slices *slices = &replica->shape.slices;
    struct slice_range range = slices_range(slices, slice);
    return slices_are_sparse(slices) ? sparse_energy(slices->sparse, range.end - range.begin, bytes)
                                     : codec_energy(slices->codec, range.end - range.begin, bytes);
}

bool replica_encoding_is_valid(const struct replica *replica, uint32_t slice, const uint8_t *bytes,
                               uint64_t size) {
    const struct slices *slices = &replica->shape.slices;
    const struct slice_range range = slices_range(slices, slice);
    const int64_t count = range.end - range.begin;
    struct fault fault;
    return slices_are_sparse(slices)
               ? sparse_check(slices->sparse, count, bytes, size, &fault) == OK
               : codec_check(slices->codec, count, bytes, size, &fault) == OK;
}

/* ---- this member's contribution ---- */

static bool encode_contribution_chunk(struct replica *replica, struct replica_chunk chunk) {
    float *gradient = replica_scratch(replica, 0);
    replica_pseudo_gradient(replica, chunk, gradient);
    struct codec_encode_args args = {
        .codec = replica->shape.slices.codec,
        .count = chunk.count,
        .source = gradient,
        .feedback = replica->feedback == NULL ? NULL : replica->feedback + chunk.begin};
    return codec_encode(replica->compute, &args,
                        replica->contribution + replica_encoded_offset(replica, chunk.begin));
}

/* Encodes on the device, which copies the encoding in one slot to host memory while it computes in
 * the other slot. */
static bool encode_on_device(struct replica *replica) {
    int64_t count = replica->shape.slices.parameter_count;
    struct replica_device *device = replica->device;
    bool finite = true;
    int slot = 0;
    for (int64_t at = 0; at < count; at += REPLICA_CHUNK_ELEMENTS) {
        finite = device->methods->wait(device, slot) && finite;
        device->methods->encode(device, slot, replica_chunk_at(at, count));
        slot = (slot + 1) % REPLICA_DEVICE_SLOTS;
    }
    for (int i = 0; i < REPLICA_DEVICE_SLOTS; i++) {
        finite = device->methods->wait(device, i) && finite;
    }
    return finite;
}

/* Encodes chunk by chunk, not slice by slice: slices are contiguous and consist of whole codec
 * blocks, so the concatenated encodings of the slices are the encoding of the whole space. */
bool replica_encode_contribution(struct replica *replica) {
    const struct slices *slices = &replica->shape.slices;
    const bool is_dense_on_cpu = replica->device == NULL && !slices_are_sparse(slices);
    bool finite = slices_are_sparse(slices) ? replica_encode_sparse(replica)
                  : replica->device != NULL ? encode_on_device(replica)
                                            : true;
    for (int64_t at = 0; is_dense_on_cpu && at < slices->parameter_count && finite;
         at += REPLICA_CHUNK_ELEMENTS) {
        finite = encode_contribution_chunk(replica, replica_chunk_at(at, slices->parameter_count));
    }
    if (!finite) {
        memset(replica->contribution, 0, slices->bytes);
    }
    return finite;
}

void replica_decode_contribution(const struct replica *replica, float *values) {
    const struct slices *slices = &replica->shape.slices;
    for (uint32_t slice = 0; slice < slices->count; slice++) {
        const struct slice_range range = slices_range(slices, slice);
        const uint8_t *bytes = replica_own_contribution(replica, slice);
        if (slices_are_sparse(slices)) {
            sparse_decode(replica->compute, slices->sparse, range.end - range.begin, bytes,
                          values + range.begin);
        } else {
            codec_decode(replica->compute, slices->codec, range.end - range.begin, bytes,
                         values + range.begin);
        }
    }
}

/* ---- means ---- */

uint64_t replica_total_weight(const struct addend *addends, uint32_t count) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (addends[i].weight >= TOTAL_WEIGHT_END - total) {
            return 0;
        }
        total += addends[i].weight;
    }
    return total;
}

float replica_addend_share(const struct addend *addend, uint64_t total) {
    ASSERT(addend->clip >= 0 && addend->clip <= 1);
    return total == 0 ? 0
                      : outer_token_share((int64_t)addend->weight, (int64_t)total) * addend->clip;
}

/* Returns the factor of this member's own addend in the mean; 0 if there is none. */
static float own_addend_share(const struct addend *addends, uint32_t count, uint64_t total) {
    float share = 0;
    for (uint32_t i = 0; i < count; i++) {
        share = addends[i].is_own ? replica_addend_share(&addends[i], total) : share;
    }
    return share;
}

/* Returns the divisor of the residual. A small divisor amplifies the residual if all shares are
 * equal in the next round; the lower bound limits the amplification to four. */
static float residual_divisor(float share, uint32_t count) {
    float least = 0.25F / (float)(count == 0 ? 1 : count);
    return share > 0 && share < least ? least : share;
}

struct mean {                     /* weighted mean of the contributions to a slice */
    const struct addend *addends; /* contributions to the mean, with their weights */
    uint32_t count;               /* number of addends */
    uint64_t total;               /* sum of the weights of all addends */
    struct slice_range range;     /* elements and bytes of the slice */
    uint8_t *result;              /* receives the encoded mean */
    float *residual;              /* [P]: receives the error of the encoding; NULL: not needed */
};

/* Encodes one chunk of a slice's mean into the result. Returns false if a value is too large for
 * the codec. */
static bool encode_mean_of_chunk(const struct replica *replica, const struct mean *mean,
                                 struct replica_chunk chunk) {
    enum codec codec = replica->shape.slices.codec;
    float *sums = replica_scratch(replica, 0);
    uint64_t offset = codec_bytes(codec, chunk.begin - mean->range.begin);
    memset(sums, 0, sizeof *sums * (size_t)chunk.count);
    for (uint32_t i = 0; i < mean->count; i++) {
        struct codec_add_args add = {.codec = codec,
                                     .count = chunk.count,
                                     .weight =
                                         replica_addend_share(&mean->addends[i], mean->total)};
        codec_decode_add(replica->compute, &add, mean->addends[i].bytes + offset, sums);
    }
    struct codec_encode_args encode = {
        .codec = codec,
        .count = chunk.count,
        .source = sums,
        .residual = mean->residual == NULL ? NULL : mean->residual + chunk.begin};
    return codec_encode(replica->compute, &encode, mean->result + offset);
}

/* Encodes the mean of a slice. If a value is too large for the codec, encodes zeros and returns
 * false. */
static bool encode_mean(const struct replica *replica, const struct mean *mean) {
    bool fits = true;
    for (int64_t at = mean->range.begin; at < mean->range.end && fits;
         at += REPLICA_CHUNK_ELEMENTS) {
        fits = encode_mean_of_chunk(replica, mean, replica_chunk_at(at, mean->range.end));
    }
    if (!fits) {
        memset(mean->result, 0, mean->range.bytes);
    }
    return fits;
}

void replica_encode_mean(const struct replica *replica, uint32_t slice,
                         const struct addend *addends, uint32_t count, uint8_t *bytes) {
    struct mean mean = {.addends = addends,
                        .count = count,
                        .total = replica_total_weight(addends, count),
                        .range = slices_range(&replica->shape.slices, slice),
                        .result = bytes};
    (void)encode_mean(replica, &mean);
}

struct hash replica_sum(struct replica *replica, uint32_t round, uint32_t slice,
                        const struct addend *addends, uint32_t count) {
    struct mean mean = {.addends = addends,
                        .count = count,
                        .total = replica_total_weight(addends, count),
                        .range = slices_range(&replica->shape.slices, slice),
                        .result = replica_result(replica, round, slice),
                        .residual = replica->residual};
    replica_drop_voted_root(replica);
    bool fits = encode_mean(replica, &mean);
    struct hash hash = hash_of(mean.result, mean.range.bytes);
    if (replica->residual_sources != NULL) {
        float share = own_addend_share(addends, count, mean.total);
        float divisor = fits ? residual_divisor(share, count) : 0;
        replica->residual_sources[slice] = (struct residual_source){hash, divisor};
    }
    return hash;
}
