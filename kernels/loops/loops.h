/* loops: the innermost loops of the CPU kernels, one implementation for each instruction set.
 *
 * NAME.h declares a family's table of function pointers and NAME.c its plain C functions, which run
 * everywhere. NAME_lanes.h writes a loop once in terms of vector operations, and x86/ and arm/
 * compile it for their instruction sets. NAME_kernels_init() fills a table with the fastest
 * variants that a level permits. Only kernels/cpu calls the loops. Loops of the codec, the outer
 * step, the optimizer, sketches and random values give the same bits at every level.
 *
 * public   attention.h attention_lanes.h codec.h codec_lanes.h element.h elementwise.h
 *          elementwise_lanes.h embedding.h head_loss.h head_loss_lanes.h matmul.h matmul_tiles.h
 *          norm.h norm_lanes.h optimizer.h optimizer_lanes.h outer.h outer_lanes.h
 *          random_normals.h sketch.h sketch_lanes.h sparse.h */
#ifndef SKEP_KERNELS_LOOPS_LOOPS_H
#define SKEP_KERNELS_LOOPS_LOOPS_H

#include "kernels/loops/attention.h"
#include "kernels/loops/codec.h"
#include "kernels/loops/elementwise.h"
#include "kernels/loops/embedding.h"
#include "kernels/loops/head_loss.h"
#include "kernels/loops/matmul.h"
#include "kernels/loops/norm.h"
#include "kernels/loops/optimizer.h"
#include "kernels/loops/outer.h"
#include "kernels/loops/random_normals.h"
#include "kernels/loops/sketch.h"
#include "kernels/loops/sparse.h"

#endif
