// The kernels of the CPU path, behind a plain C interface: matrix products with fused epilogues, RMS norm, rotary positions with the
// write of keys and values, paged attention, draws. One source, compiled once for each tier of instructions (OCTAVO_TIER):
//
//   0  AVX2 + FMA     weights as integers, attention in fp32    products_avx2.h
//   1  AVX512-BF16    vdpbf16ps                                 products_avx512.h
//   2  AMX            tdpbf16ps                                 products_amx.h
//
// Activations are fp32 everywhere; weights are bf16 on tiers 1 and 2, integers of 12 bits on tier 0; keys and values bf16 or of 8 bits.
//
// The parts below are one translation unit, in the order in which each needs those before it: their functions are inlined into each
// other, and a tier is one choice for all of them.

#include <immintrin.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include <linux/futex.h>
#include <sys/syscall.h>

#ifndef OCTAVO_TIER
#error "compile with -DOCTAVO_TIER=0, 1 or 2"
#endif
#ifdef OCTAVO_EMULATED  // tests: the instructions of tiers 1 and 2 in plain C++, so that every machine can check their code
#include "emulated.h"
#endif

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#define UNROLL_SOME _Pragma("unroll 8")
#else
#define UNROLL _Pragma("GCC unroll 16")  // arrays of sums stay in registers only where every index is a constant
#define UNROLL_SOME _Pragma("GCC unroll 8")
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

#include "vectors.h"
#include "threads.h"
#include "products.h"
#include "kv_pages.h"
#include "kv_products.h"
#include "packed_weights.h"
#include "linear.h"
#include "rows.h"
#include "attention.h"
#include "importance.h"
#include "layers.h"
#include "sampling.h"

// What the source was when this was compiled: a caller of another source must not call it.
EXPORT uint32_t octavo_build() { return OCTAVO_BUILD; }

// Starts the threads that help the caller's; 0, or an errno where the kernel does not allow this tier's instructions.
EXPORT int octavo_start(int threads) {
    const Turn turn;
#if OCTAVO_TIER == 2 && !defined(OCTAVO_EMULATED)
    constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;  // arch_prctl: a process has to ask for the tiles' state
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA)) return errno;
#endif
    for (; pool.threads < threads && pool.threads < MOST_THREADS; pool.threads++) {
        pthread_t thread;
        if (int error = pthread_create(&thread, nullptr, serve, (void*)(intptr_t)pool.threads)) return error;
        pthread_detach(thread);
    }
    return 0;
}
