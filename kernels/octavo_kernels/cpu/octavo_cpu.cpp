// The kernels of the CPU path, behind a plain C interface: matrix products with fused epilogues, RMS norm, rotary positions with the
// write of keys and values, paged attention. One source, compiled once for each tier of instructions (OCTAVO_TIER):
//
//   0  AVX2 + FMA     weights as integers, see below; attention in fp32, to which bf16 comes by a shift or a mask as it is loaded
//   1  AVX512-BF16    vdpbf16ps: 16 lanes, each adds two bf16 products to an fp32 sum
//   2  AMX            tdpbf16ps: a tile of 16 x 32 times one of 32 x 16 bf16, added to 16 x 16 fp32
//
// Activations are fp32 everywhere; weights are bf16 on tiers 1 and 2, keys and values bf16 or of 8 bits (kv_pages.h). Everything that is multiplied with has one layout, the *panel*:
// 16 columns (output features, tokens, or dimensions) of all K terms, two terms of a column side by side:
//
//   panel[K / 2][16][2]        the order that vdpbf16ps and tdpbf16ps take (Intel calls it VNNI)
//
// A weight [N, K] is N / 16 panels. A page of keys is page / 16 panels of K = D terms, a page of values D / 16 panels of K = page terms,
// so that q·kᵀ, p·v and every linear layer are the same function, `multiply`.
//
// AVX2 has no product of bf16, but one of 16-bit integers that adds neighbours (vpmaddwd), with 1.6 times the products of fp32's fused
// multiply-add in the same time here. So on tier 0 a weight is packed as 12-bit integers with one scale for 64 terms of a column, and
// rows become 15-bit integers with one scale for the same 64 terms: 64 products stay below 2^31, and what is rounded away is less than
// what bf16 operands lose on the other tiers. Few rows are bound by memory, so the 12 bits lie in 12 bits and become a panel of 16-bit
// integers just before they are used.
//
// Each sum runs over its terms in one fixed order, whatever else is in the batch: what a row gives never depends on its company.
// Work is split into items that threads take as they come, so that a thread that loses its core for a while holds up one item only.

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

namespace {

typedef uint16_t bf16;

// A vector of a tier's width; gcc and clang turn arithmetic on it into the tier's instructions.
constexpr int LANES = OCTAVO_TIER ? 16 : 8;
typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef int32_t Integers __attribute__((vector_size(LANES * 4)));
typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));

Vector load(const float* from) { Vector v; memcpy(&v, from, sizeof v); return v; }
void store(float* to, Vector v) { memcpy(to, &v, sizeof v); }
Vector splat(float x) { return Vector{} + x; }
Vector select(Integers mask, Vector yes, Vector no) { return (Vector)((mask & (Integers)yes) | (~mask & (Integers)no)); }
Vector largest(Vector a, Vector b) { return select(a > b, a, b); }

bool any(Integers mask) {
    uint64_t words[LANES / 2], found = 0;
    memcpy(words, &mask, sizeof words);
    for (int i = 0; i < LANES / 2; i++) found |= words[i];
    return found;
}

float sum(Vector v) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += v[i];
    return total;
}

float largest_lane(Vector v) {
    float best = v[0];
    for (int i = 1; i < LANES; i++) best = v[i] > best ? v[i] : best;
    return best;
}

// 2^x to 2 units in the last place, 0 below 2^-126. x = n + f with |f| <= 1/2; a polynomial for 2^f, n goes into the exponent's bits.
Vector exp2v(Vector x) {
    const Vector rounder = splat(12582912.0f);  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const Integers tiny = x < splat(-126.0f);
    const Vector bounded = select(x > splat(127.0f), splat(127.0f), select(tiny, splat(-126.0f), x));
    const Vector shifted = bounded + rounder;
    const Vector f = bounded - (shifted - rounder);
    Vector p = splat(1.5403530394e-4f);  // ln(2)^k / k!
    p = p * f + 1.3333558146e-3f;
    p = p * f + 9.6181291076e-3f;
    p = p * f + 5.5504108665e-2f;
    p = p * f + 2.4022650696e-1f;
    p = p * f + 6.9314718056e-1f;
    p = p * f + 1.0f;
    const Vector scaled = (Vector)((Integers)p + (((Integers)shifted - (Integers)rounder) << 23));
    return select(tiny, splat(0.0f), scaled);
}

constexpr float LOG2_E = 1.4426950408889634f;
Vector silu(Vector x) { return x / (1.0f + exp2v(x * -LOG2_E)); }

// Nearest bf16, ties to even. What is not finite stays so.
Halves to_bf16(Vector v) {
    typedef uint32_t Words __attribute__((vector_size(LANES * 4)));
    const Words bits = (Words)v;
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Integers nan = v != v;
    return __builtin_convertvector((Words)((Integers)rounded & ~nan) | ((Words)nan & 0x7fc0), Halves);
}

bf16 to_bf16(float x) { return to_bf16(splat(x))[0]; }

float to_float(bf16 x) {
    const uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

// Bring what is needed soon from memory, while something else is computed.
void fetch(const void* from, size_t bytes) {
    for (size_t line = 0; line < bytes; line += 64) _mm_prefetch((const char*)from + line, _MM_HINT_T1);
}

// ---- Threads -----------------------------------------------------------------------------------------------------------------------

constexpr int MOST_THREADS = 256;
constexpr int SPINS = 20000;  // some 100 us: longer than what lies between two products of a step

typedef void (*Work)(const void* job, int item, int thread);

// One job at a time. `ticket` holds the job's number in its upper and the next item in its lower half, so that taking an item and making
// sure that it is of the job that was read is one compare-and-swap. A thread that wakes late finds no item and has held up nobody.
struct Pool {
    int threads = 1;
    std::atomic<uint64_t> ticket{0};
    std::atomic<int> done{0};
    std::atomic<uint32_t> signal{0};  // counts jobs; what sleeping threads wait on
    std::atomic<int> sleeping{0};
    std::atomic<Work> work{nullptr};
    std::atomic<const void*> job{nullptr};
    std::atomic<int> items{0};
} pool;

thread_local bool tiles_ready = false;
void prepare_thread();

void take_items(int thread) {
    for (;;) {
        uint64_t ticket = pool.ticket.load(std::memory_order_acquire);
        const int items = pool.items.load(std::memory_order_acquire), item = (int)(uint32_t)ticket;
        if (item >= items) return;
        const Work work = pool.work.load(std::memory_order_relaxed);  // at least as new as `items`; if newer, the ticket is gone
        const void* job = pool.job.load(std::memory_order_relaxed);
        if (!pool.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
        work(job, item, thread);
        pool.done.fetch_add(1, std::memory_order_release);
    }
}

void* serve(void* number) {
    prepare_thread();
    uint32_t seen = 0;
    for (;;) {
        int spins = 0;
        uint32_t now;
        while ((now = pool.signal.load(std::memory_order_acquire)) == seen) {
            if (++spins < SPINS) { _mm_pause(); continue; }
            pool.sleeping.fetch_add(1);
            syscall(SYS_futex, &pool.signal, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
            pool.sleeping.fetch_sub(1);
            spins = 0;
        }
        seen = now;
        take_items((int)(intptr_t)number);
    }
    return nullptr;
}

// Threads, scratch memory and results in progress are those of one call at a time: every exported function holds a turn.
pthread_mutex_t turns = PTHREAD_MUTEX_INITIALIZER;
struct Turn {
    Turn() { pthread_mutex_lock(&turns); }
    ~Turn() { pthread_mutex_unlock(&turns); }
};

void run(Work work, const void* job, int items) {
    if (!tiles_ready) prepare_thread();
    if (pool.threads == 1 || items <= 1) {
        for (int item = 0; item < items; item++) work(job, item, 0);
        return;
    }
    const uint64_t number = (pool.ticket.load(std::memory_order_relaxed) >> 32) + 1;
    // Nobody takes items while these change: the last job has none left, and its ticket does not fit the next one.
    pool.items.store(0, std::memory_order_relaxed);
    pool.ticket.store(number << 32, std::memory_order_release);
    pool.done.store(0, std::memory_order_relaxed);
    pool.work.store(work, std::memory_order_relaxed);
    pool.job.store(job, std::memory_order_relaxed);
    pool.items.store(items, std::memory_order_release);
    pool.signal.fetch_add(1);
    if (pool.sleeping.load()) syscall(SYS_futex, &pool.signal, FUTEX_WAKE_PRIVATE, MOST_THREADS, nullptr, nullptr, 0);
    take_items(0);
    while (pool.done.load(std::memory_order_acquire) < items) _mm_pause();
}

// Calls work(item, thread) for 0 … items - 1 on all threads, the caller's too; returns when all are done.
template <class F>
void parallel(int items, const F& work) {
    run([](const void* job, int item, int thread) { (*(const F*)job)(item, thread); }, &work, items);
}

// Memory of a thread that grows to what was asked for most; what it holds is lost when more is asked for.
struct Scratch {
    void* memory = nullptr;
    size_t bytes = 0;
    template <class T>
    T* get(size_t count) {
        if (count * sizeof(T) > bytes) {
            free(memory);
            bytes = (count * sizeof(T) + 4095) / 4096 * 4096;
            memory = aligned_alloc(64, bytes);
            if (!memory) abort();
        }
        return (T*)memory;
    }
};

// ---- multiply: rows times panels ---------------------------------------------------------------------------------------------------

constexpr int WIDTH = 16;      // columns of a panel
constexpr int MOST_ROWS = 32;  // rows of one call

#if OCTAVO_TIER == 0

typedef float Operand;  // what rows are multiplied as

void prepare_thread() { tiles_ready = true; }

// ROWS x (PANELS * 16) sums in registers: at least 8, so that two fused multiply-adds can start in every cycle while each takes four. With
// 10 or 12 sums, gcc 12 keeps some in memory, which costs more than the loads that more rows save.
template <int ROWS, int PANELS>
void block(const float* x, size_t x_stride, const bf16* panels, size_t panel_stride, int pairs, bool add, float* out, size_t out_stride) {
    constexpr int COLUMNS = 2 * PANELS;  // vectors of 8
    __m256 total[ROWS][COLUMNS];
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < COLUMNS; c++) total[r][c] = add ? _mm256_loadu_ps(out + r * out_stride + 8 * c) : _mm256_setzero_ps();
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    for (int pair = 0; pair < pairs; pair++) {
        const bf16* terms = panels + pair * 2 * WIDTH;
        UNROLL
        for (int odd = 0; odd < 2; odd++) {  // the two terms of a column are the halves of a 32-bit word
            __asm__ volatile("" ::: "memory");  // loads of the next term may not come earlier: they would push sums out of registers
            __m256 w[COLUMNS];
            UNROLL
            for (int c = 0; c < COLUMNS; c++) {
                const __m256i both = _mm256_loadu_si256((const __m256i*)(terms + (c / 2) * panel_stride + (c % 2) * WIDTH));
                w[c] = _mm256_castsi256_ps(odd ? _mm256_and_si256(both, upper) : _mm256_slli_epi32(both, 16));
            }
            UNROLL
            for (int r = 0; r < ROWS; r++) {
                const __m256 xr = _mm256_broadcast_ss(x + r * x_stride + 2 * pair + odd);
                UNROLL
                for (int c = 0; c < COLUMNS; c++) total[r][c] = _mm256_fmadd_ps(xr, w[c], total[r][c]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < COLUMNS; c++) _mm256_storeu_ps(out + r * out_stride + 8 * c, total[r][c]);
}

// What rows are multiplied with weights as: integers, with a scale for each SPAN terms.
typedef int16_t Factor;
constexpr int SPAN = 64, MOST_WEIGHT = 2047, MOST_FACTOR = 16383;  // 64 * 2047 * 16383 < 2^31

// Four terms of a panel, that is two pairs of its 16 columns: 64 integers of 12 bits in 96 bytes. Of 16-bit words 0 to 47, the upper 12
// bits are integers 0 to 47 in the order of a panel; the lower four bits of words i, 16 + i and 32 + i are integer 48 + i, from its low end.
constexpr int GROUP_BYTES = 96, GROUPS = SPAN / 4;

void pack_group(const Factor* from, uint8_t* to) {
    uint16_t words[48];
    for (int i = 0; i < 48; i++) words[i] = (uint16_t)(from[i] << 4 | (from[48 + i % 16] >> (4 * (i / 16)) & 15));
    memcpy(to, words, GROUP_BYTES);
}

Factor packed_at(const uint8_t* group, int i) {
    uint16_t words[48];
    memcpy(words, group, GROUP_BYTES);
    if (i < 48) return (Factor)words[i] >> 4;
    return (Factor)((words[i - 48] & 15) << 4 | (words[i - 32] & 15) << 8 | words[i - 16] << 12) >> 4;
}

// Four terms of a panel as two pairs of vectors.
void unpack_group(const uint8_t* group, __m256i w[2][2]) {
    const __m256i low = _mm256_set1_epi16(15);
    const __m256i a = _mm256_loadu_si256((const __m256i*)group), b = _mm256_loadu_si256((const __m256i*)(group + 32)), c = _mm256_loadu_si256((const __m256i*)(group + 64));
    const __m256i lower = _mm256_or_si256(_mm256_slli_epi16(_mm256_and_si256(a, low), 4), _mm256_slli_epi16(_mm256_and_si256(b, low), 8));
    w[0][0] = _mm256_srai_epi16(a, 4), w[0][1] = _mm256_srai_epi16(b, 4), w[1][0] = _mm256_srai_epi16(c, 4);
    w[1][1] = _mm256_srai_epi16(_mm256_or_si256(lower, _mm256_slli_epi16(c, 12)), 4);
}

// Rows as integers and their scales, from some span on: those of rows `stride` and `scale_stride` apart.
struct IntegerRows {
    const Factor* terms;
    const float* scales;
    size_t stride, scale_stride;
    IntegerRows from(int row) const { return {terms + row * stride, scales + row * scale_stride, stride, scale_stride}; }
    __m256i pair(int row, int term) const {  // in every lane
        int32_t both;
        memcpy(&both, terms + row * stride + term, 4);
        return _mm256_set1_epi32(both);
    }
};

// out (+)= the sums of a span times its scales, those of the rows and the panel's [16].
template <int ROWS>
void add_span(const __m256i total[ROWS][2], const IntegerRows& x, int span, const float* scales, bool add, float* out, size_t out_stride) {
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < 2; c++) {
            const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(scales + 8 * c), _mm256_broadcast_ss(x.scales + r * x.scale_stride + span));
            const __m256 before = add ? _mm256_loadu_ps(out + r * out_stride + 8 * c) : _mm256_setzero_ps();
            _mm256_storeu_ps(out + r * out_stride + 8 * c, _mm256_fmadd_ps(_mm256_cvtepi32_ps(total[r][c]), scale, before));
        }
}

// out (+)= ROWS rows times one packed panel, `spans` spans of terms with scales [spans][16]. The first rows that take a panel unpack it as
// they multiply, so that it comes from memory meanwhile, and fetch `next`, which this thread needs soon. KEEP: into `unpacked`, for others.
template <int ROWS, bool KEEP>
void packed_block(const IntegerRows& x, const uint8_t* panel, const float* scales, int spans, bool add, const uint8_t* next, Factor* unpacked, float* out, size_t out_stride) {
    for (int span = 0; span < spans; span++) {
        __m256i total[ROWS][2] = {};
        for (int group = 0; group < GROUPS; group++, panel += GROUP_BYTES, next += GROUP_BYTES, unpacked += 4 * WIDTH) {
            _mm_prefetch((const char*)next, _MM_HINT_T1);
            if (group % 2) _mm_prefetch((const char*)next + 64, _MM_HINT_T1);  // two groups are three lines
            __m256i w[2][2];
            unpack_group(panel, w);
            UNROLL
            for (int pair = 0; pair < 2; pair++) {
                UNROLL
                for (int c = 0; KEEP && c < 2; c++) _mm256_store_si256((__m256i*)(unpacked + (2 * pair + c) * WIDTH), w[pair][c]);
                UNROLL
                for (int r = 0; r < ROWS; r++) {
                    const __m256i xr = x.pair(r, span * SPAN + 4 * group + 2 * pair);
                    UNROLL
                    for (int c = 0; c < 2; c++) total[r][c] = _mm256_add_epi32(total[r][c], _mm256_madd_epi16(xr, w[pair][c]));
                }
            }
        }
        add_span<ROWS>(total, x, span, scales + span * WIDTH, add || span, out, out_stride);
    }
}

// The same with what packed_block kept.
template <int ROWS>
void integer_block(const IntegerRows& x, const Factor* panel, const float* scales, int spans, bool add, float* out, size_t out_stride) {
    for (int span = 0; span < spans; span++) {
        __m256i total[ROWS][2] = {};
        const Factor* terms = panel + span * SPAN * WIDTH;
        UNROLL_SOME  // gcc 12 gives each sum a new register and copies it back at the end: once for all of them
        for (int pair = 0; pair < SPAN / 2; pair++) {
            __m256i left = _mm256_load_si256((const __m256i*)(terms + pair * 2 * WIDTH));
            __m256i right = _mm256_load_si256((const __m256i*)(terms + pair * 2 * WIDTH + WIDTH));
            __asm__("" : "+x"(left), "+x"(right));  // or gcc loads them again for each row, more than a cycle can load
            UNROLL
            for (int r = 0; r < ROWS; r++) {
                const __m256i xr = x.pair(r, span * SPAN + 2 * pair);
                total[r][0] = _mm256_add_epi32(total[r][0], _mm256_madd_epi16(xr, left));
                total[r][1] = _mm256_add_epi32(total[r][1], _mm256_madd_epi16(xr, right));
            }
        }
        add_span<ROWS>(total, x, span, scales + span * WIDTH, add || span, out, out_stride);
    }
}

constexpr int BLOCK_ROWS = 4, MOST_SUMS = 4;  // sums in units of a row of a panel

#else

typedef bf16 Operand;
typedef bf16 Factor;       // what rows are multiplied with weights as
constexpr int SPAN = 32;  // what their terms are padded to: a tile

template <int ROWS, int PANELS>
void block(const bf16* x, size_t x_stride, const bf16* panels, size_t panel_stride, int pairs, bool add, float* out, size_t out_stride) {
    __m512 total[ROWS][PANELS];
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < PANELS; c++) total[r][c] = add ? _mm512_loadu_ps(out + r * out_stride + 16 * c) : _mm512_setzero_ps();
    for (int pair = 0; pair < pairs; pair++) {
        __m512i w[PANELS];
        UNROLL
        for (int c = 0; c < PANELS; c++) w[c] = _mm512_loadu_si512(panels + c * panel_stride + pair * 2 * WIDTH);
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            int32_t both;
            memcpy(&both, x + r * x_stride + 2 * pair, 4);
            const __m512i xr = _mm512_set1_epi32(both);
            UNROLL
            for (int c = 0; c < PANELS; c++) total[r][c] = _mm512_dpbf16_ps(total[r][c], (__m512bh)xr, (__m512bh)w[c]);
        }
    }
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < PANELS; c++) _mm512_storeu_ps(out + r * out_stride + 16 * c, total[r][c]);
}

constexpr int BLOCK_ROWS = 12, MOST_SUMS = 24;

#endif

// rows <= BLOCK_ROWS: the number becomes a constant, and few rows take more panels at once, for sums to wait on that are not the last one.
template <int ROWS>
void blocks(const Operand* x, size_t x_stride, int rows, const bf16* panels, size_t panel_stride, int count, int pairs, bool add, float* out, size_t out_stride) {
    if constexpr (ROWS > 1) {
        if (rows < ROWS) return blocks<ROWS - 1>(x, x_stride, rows, panels, panel_stride, count, pairs, add, out, out_stride);
    }
    constexpr int WIDE = ROWS * 4 <= MOST_SUMS ? 4 : ROWS * 2 <= MOST_SUMS ? 2 : 1;
    int c = 0;
    for (; c + WIDE <= count; c += WIDE)
        block<ROWS, WIDE>(x, x_stride, panels + c * panel_stride, panel_stride, pairs, add, out + c * WIDTH, out_stride);
    for (; c < count; c++)
        block<ROWS, 1>(x, x_stride, panels + c * panel_stride, panel_stride, pairs, add, out + c * WIDTH, out_stride);
}

void multiply_by_vectors(const Operand* x, size_t x_stride, int rows, const bf16* panels, size_t panel_stride, int count, int pairs, bool add, float* out, size_t out_stride) {
    for (int r = 0; r < rows; r += BLOCK_ROWS) {
        const int some = rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS;
        blocks<BLOCK_ROWS>(x + r * x_stride, x_stride, some, panels, panel_stride, count, pairs, add, out + r * out_stride, out_stride);
    }
}

#if OCTAVO_TIER == 2

constexpr int ITEM_ROWS = 32;  // rows of an item of work
constexpr int WEIGHT_ROWS = ITEM_ROWS;  // where it multiplies with a weight
constexpr int TILE_PAIRS = 16;

void prepare_thread() {
    struct { uint8_t palette = 1, start_row = 0, reserved[14] = {}; uint16_t bytes[16] = {}; uint8_t rows[16] = {}; } config;
    for (int tile = 0; tile < 8; tile++) config.bytes[tile] = 64, config.rows[tile] = 16;
    _tile_loadconfig(&config);
    tiles_ready = true;
}

// Tiles 0 to 3 hold the sums of 2 x 2 tiles, 4 and 5 rows, 6 and 7 columns: each tile that is loaded is used twice. Rows beyond `rows`
// are computed up to the next multiple of 16: `x` and `out` have room for them.
void multiply_by_tiles(const bf16* x, size_t x_stride, int rows, const bf16* panels, size_t panel_stride, int count, int pairs, bool add, float* out, size_t out_stride) {
    const size_t x_bytes = x_stride * sizeof(bf16), out_bytes = out_stride * sizeof(float);
    const bool low = rows > 16;
    const bf16* x_low = x + 16 * x_stride;
    float* out_low = out + 16 * out_stride;
    for (int c = 0; c < count; c += 2) {
        const bool right = c + 1 < count;
        float *to = out + c * WIDTH, *to_low = out_low + c * WIDTH;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        if (add) {
            _tile_loadd(0, to, out_bytes);
            if (right) _tile_loadd(1, to + WIDTH, out_bytes);
            if (low) _tile_loadd(2, to_low, out_bytes);
            if (low && right) _tile_loadd(3, to_low + WIDTH, out_bytes);
        }
        const bf16* left_terms = panels + c * panel_stride;
        const bf16* right_terms = left_terms + panel_stride;
        for (int pair = 0; pair < pairs; pair += TILE_PAIRS) {
            _tile_loadd(4, x + 2 * pair, x_bytes);
            _tile_loadd(6, left_terms + pair * 2 * WIDTH, 64);
            _tile_dpbf16ps(0, 4, 6);
            if (low) {
                _tile_loadd(5, x_low + 2 * pair, x_bytes);
                _tile_dpbf16ps(2, 5, 6);
            }
            if (right) {
                _tile_loadd(7, right_terms + pair * 2 * WIDTH, 64);
                _tile_dpbf16ps(1, 4, 7);
                if (low) _tile_dpbf16ps(3, 5, 7);
            }
        }
        _tile_stored(0, to, out_bytes);
        if (right) _tile_stored(1, to + WIDTH, out_bytes);
        if (low) _tile_stored(2, to_low, out_bytes);
        if (low && right) _tile_stored(3, to_low + WIDTH, out_bytes);
    }
}

#else

constexpr int ITEM_ROWS = 24;

#if OCTAVO_TIER == 0
constexpr int WEIGHT_ROWS = 64;  // more rows for each time that a weight is unpacked
#else
constexpr int WEIGHT_ROWS = ITEM_ROWS;
void prepare_thread() { tiles_ready = true; }
#endif

#endif

// out[rows, count * 16] (+)= x[rows, 2 * pairs] times `count` panels, `panel_stride` elements apart. rows <= MOST_ROWS. On tier 2, x and
// out have room for a multiple of 16 rows.
void multiply(const Operand* x, size_t x_stride, int rows, const bf16* panels, size_t panel_stride, int count, int pairs, bool add, float* out, size_t out_stride) {
#if OCTAVO_TIER == 2
    if (pairs % TILE_PAIRS == 0) return multiply_by_tiles(x, x_stride, rows, panels, panel_stride, count, pairs, add, out, out_stride);
#endif
    multiply_by_vectors(x, x_stride, rows, panels, panel_stride, count, pairs, add, out, out_stride);
}

void to_operands(const float* from, size_t count, float factor, Operand* to) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
#if OCTAVO_TIER == 0
        store(to + i, load(from + i) * factor);
#else
        const Halves halves = to_bf16(load(from + i) * factor);
        memcpy(to + i, &halves, sizeof halves);
#endif
    }
#if OCTAVO_TIER == 0
    for (; i < count; i++) to[i] = from[i] * factor;
#else
    for (; i < count; i++) to[i] = to_bf16(from[i] * factor);
#endif
}

int over(int count, int by) { return (count + by - 1) / by; }

}  // namespace

#include "kv_pages.h"

// ---- Linear layers -----------------------------------------------------------------------------------------------------------------

// A weight [n, k] as over(n, 16) panels of `terms` = k rounded up to whole spans; what is not there is zero. On tier 0 the panels hold
// groups of integers, and `scales` [panels][terms / SPAN][16] what to multiply them with.
struct PackedWeight {
    uint8_t* panels;
    float* scales;
    int32_t n, k, terms;
    size_t panel_bytes;
    const uint8_t* panel(int number) const { return panels + number * panel_bytes; }
    const float* scales_of(int number) const { return scales + (size_t)number * (terms / SPAN) * WIDTH; }
};

enum Epilogue { NONE = 0, SILU_MUL = 1, ARGMAX = 2 };

namespace {

struct Best { float value; int32_t index; };

Scratch operands, bests, partials;  // of the call that runs: there is one at a time
thread_local Scratch own;

// Rows as they are multiplied with a weight, terms padded with zeros and, for tiles, room for whole items.
struct Factors {
    const Factor* rows;
    const float* scales;  // tier 0: [rows][terms / SPAN]
};

#if OCTAVO_TIER == 0
// One span as integers and their scale; what is not finite makes the scale NaN, so that it is not lost.
void to_factors(const float* from, int count, Factor* to, float& scale) {
    float padded[SPAN] = {};
    if (count < SPAN) from = (const float*)memcpy(padded, from, count * sizeof(float));
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();  // of magnitudes as integers, which are in the order of the floats, what is not finite above all
    for (int i = 0; i < SPAN; i += LANES) most = _mm256_max_epi32(most, _mm256_and_si256((__m256i)load(from + i), magnitude));
    __m128i greatest = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    greatest = _mm_max_epi32(greatest, _mm_shuffle_epi32(greatest, 0x4e));
    greatest = _mm_max_epi32(greatest, _mm_shuffle_epi32(greatest, 0xb1));
    const float size = _mm_cvtss_f32(_mm_castsi128_ps(greatest));
    scale = size < INFINITY ? size / MOST_FACTOR : NAN;
    const float factor = size > 1e-30f && size < INFINITY ? MOST_FACTOR / size : 0;  // smaller ones have no factor in fp32
    for (int i = 0; i < SPAN; i += LANES) {
        const __m256i wide = _mm256_cvtps_epi32((__m256)(load(from + i) * factor));
        const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packs_epi32(wide, wide), 0xd8);
        _mm_storeu_si128((__m128i*)(to + i), _mm256_castsi256_si128(pairs));
    }
}
#endif

// row(r): where row r's k terms are, fp32; called by any thread, once for each row.
template <class F>
Factors factors_of(int rows, int k, int terms, const F& row) {
    const int spans = terms / SPAN;
    const size_t room = (size_t)over(rows, WEIGHT_ROWS) * WEIGHT_ROWS * terms;
    char* memory = operands.get<char>(room * sizeof(Factor) + (size_t)rows * spans * sizeof(float));
    Factor* to = (Factor*)memory;
    float* scales = (float*)(memory + room * sizeof(Factor));
    const int some = over(rows, 4 * pool.threads);
    parallel(over(rows, some), [=](int item, int) {
        for (int r = item * some; r < rows && r < (item + 1) * some; r++) {
            const float* from = row(r);
            Factor* factors = to + (size_t)r * terms;
#if OCTAVO_TIER == 0
            for (int span = 0; span < spans; span++)
                to_factors(from + span * SPAN, k - span * SPAN < SPAN ? k - span * SPAN : SPAN, factors + span * SPAN, scales[(size_t)r * spans + span]);
#else
            to_operands(from, k, 1.0f, factors);
            memset(factors + k, 0, (terms - k) * sizeof(Factor));
#endif
        }
    });
    return {to, scales};
}

// sums[rows, 32] = rows from `row` times two panels of a weight, `apart` panels from each other (count 1: the first alone). What this thread
// takes next lies `ahead` panels further on.
void multiply_weight(const Factors& x, int row, int rows, const PackedWeight* weight, int panel, int apart, int count, int ahead, float* sums) {
#if OCTAVO_TIER == 0
    constexpr int SOME = 9;  // spans of a panel that are unpacked at once: they stay in the nearest cache while all rows take them
    alignas(64) Factor unpacked[SOME * SPAN * WIDTH];
    const int spans = weight->terms / SPAN, at_once = rows > BLOCK_ROWS ? SOME : spans;
    for (int span = 0; span < spans; span += at_once) {
        const int some = spans - span < at_once ? spans - span : at_once;
        const IntegerRows all = {x.rows + (size_t)row * weight->terms + span * SPAN, x.scales + (size_t)row * spans + span, (size_t)weight->terms, (size_t)spans};
        for (int c = 0; c < count; c++) {
            const uint8_t* packed = weight->panel(panel + c * apart) + (size_t)span * GROUPS * GROUP_BYTES;
            const float* scales = weight->scales_of(panel + c * apart) + (size_t)span * WIDTH;
            fetch(scales + (size_t)ahead * spans * WIDTH, some * WIDTH * sizeof(float));
            float* to = sums + c * WIDTH;
            const auto first = [&](auto block) { block(all, packed, scales, some, span > 0, packed + ahead * weight->panel_bytes, unpacked, to, 2 * WIDTH); };
            switch (rows) {
                case 1: first(packed_block<1, false>); break;
                case 2: first(packed_block<2, false>); break;
                case 3: first(packed_block<3, false>); break;
                case 4: first(packed_block<4, false>); break;
                default: first(packed_block<4, true>);
            }
            for (int r = BLOCK_ROWS; r < rows; r += BLOCK_ROWS) {
                const auto call = [&](auto block) { block(all.from(r), unpacked, scales, some, span > 0, to + r * 2 * WIDTH, 2 * WIDTH); };
                switch (rows - r) {
                    case 1: call(integer_block<1>); break;
                    case 2: call(integer_block<2>); break;
                    case 3: call(integer_block<3>); break;
                    default: call(integer_block<4>);
                }
            }
        }
    }
#else
    (void)ahead;
    const size_t elements = (size_t)weight->terms * WIDTH;
    multiply(x.rows + (size_t)row * weight->terms, weight->terms, rows, (const bf16*)weight->panel(panel), apart * elements, count, weight->terms / 2, false, sums, 2 * WIDTH);
#endif
}

void store_columns(const float* sums, int rows, int columns, const float* addend, size_t addend_stride, float* out, size_t out_stride) {
    for (int r = 0; r < rows; r++) {
        const float* from = sums + r * 2 * WIDTH;
        float* to = out + r * out_stride;
        if (addend)
            for (int c = 0; c < columns; c++) to[c] = from[c] + addend[r * addend_stride + c];
        else
            memcpy(to, from, columns * sizeof(float));
    }
}

// Gates are the first 16 of 32 columns, what they gate the others.
void store_gated(const float* sums, int rows, float* out, size_t out_stride) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < WIDTH; c += LANES) {
            const float* gate = sums + r * 2 * WIDTH + c;
            store(out + r * out_stride + c, silu(load(gate)) * load(gate + WIDTH));
        }
}

// The greater value wins, of equal ones the lower index: whoever finds it first.
void keep_best(Best& best, float value, int32_t index) {
    if (value > best.value || (value == best.value && index < best.index)) best = {value, index};
}

}  // namespace

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

// How a weight [n, k] lies in `memory` (or would); the bytes that it takes.
EXPORT size_t octavo_weight(void* memory, int n, int k, PackedWeight* out) {
    const int terms = over(k, SPAN) * SPAN, panels = over(n, WIDTH);
#if OCTAVO_TIER == 0
    const size_t panel_bytes = (size_t)terms / 4 * GROUP_BYTES, scale_bytes = (size_t)terms / SPAN * WIDTH * sizeof(float);
#else
    const size_t panel_bytes = (size_t)terms * WIDTH * sizeof(Factor), scale_bytes = 0;
#endif
    *out = {(uint8_t*)memory, (float*)((uint8_t*)memory + panels * panel_bytes), n, k, terms, panel_bytes};
    return panels * (panel_bytes + scale_bytes);
}

// `from` bf16 [n, k], row by row, into the memory that octavo_weight laid out.
EXPORT void octavo_pack(const bf16* from, const PackedWeight* weight) {
    const Turn turn;
    const int n = weight->n, k = weight->k, terms = weight->terms;
    parallel(over(n, WIDTH), [=](int number, int) {
        uint8_t* panel = weight->panels + number * weight->panel_bytes;
#if OCTAVO_TIER == 0
        float* scales = weight->scales + (size_t)number * (terms / SPAN) * WIDTH;
        memset(scales, 0, terms / SPAN * WIDTH * sizeof(float));
        Factor* to = own.get<Factor>((size_t)terms * WIDTH);
#else
        Factor* to = (Factor*)panel;
#endif
        memset(to, 0, (size_t)terms * WIDTH * sizeof(Factor));
        for (int c = 0; c < WIDTH && number * WIDTH + c < n; c++) {
            const bf16* row = from + ((size_t)number * WIDTH + c) * k;
            const auto place = [=](int term) -> Factor& { return to[(term / 2) * 2 * WIDTH + 2 * c + term % 2]; };
#if OCTAVO_TIER == 0
            for (int span = 0; span < terms / SPAN; span++) {
                const int end = k < (span + 1) * SPAN ? k : (span + 1) * SPAN;
                float most = 0, poison = 0;  // what is not finite makes the scale NaN, so that a broken weight shows
                for (int term = span * SPAN; term < end; term++) {
                    most = fmaxf(most, fabsf(to_float(row[term])));
                    poison += to_float(row[term]) * 0.0f;
                }
                const bool usable = most > 0 && poison == 0;
                for (int term = span * SPAN; term < end; term++) place(term) = (Factor)(usable ? nearbyintf(to_float(row[term]) / most * MOST_WEIGHT) : 0);
                scales[span * WIDTH + c] = most / MOST_WEIGHT + poison;
            }
#else
            for (int term = 0; term < k; term++) place(term) = row[term];
#endif
        }
#if OCTAVO_TIER == 0
        for (int group = 0; group < terms / 4; group++) pack_group(to + group * 4 * WIDTH, panel + group * GROUP_BYTES);
#endif
    });
}

// Rows `ids` of a packed weight, out fp32 [count, k]: the embedding of a model that ties it to its head.
EXPORT void octavo_rows(const PackedWeight* weight, const int64_t* ids, int count, float* out) {
    const Turn turn;
    parallel(count, [=](int item, int) {
        const int number = (int)(ids[item] / WIDTH), c = ids[item] % WIDTH;
        const uint8_t* panel = weight->panel(number);
        float* to = out + (size_t)item * weight->k;
        for (int term = 0; term < weight->k; term++) {
#if OCTAVO_TIER == 0
            const Factor value = packed_at(panel + term / 4 * GROUP_BYTES, term % 4 / 2 * 2 * WIDTH + 2 * c + term % 2);
            to[term] = value * weight->scales_of(number)[term / SPAN * WIDTH + c];
#else
            to[term] = to_float(((const bf16*)panel)[term / 2 * 2 * WIDTH + 2 * c + term % 2]);
#endif
        }
    });
}

namespace {

// As octavo_linear, with row(r) for row r of x.
template <class F>
void linear(const PackedWeight* weight, int rows, const F& row, const float* addend, size_t addend_stride, int epilogue, void* out) {
    const int n = weight->n, panels = over(n, WIDTH), units = epilogue == SILU_MUL ? panels / 2 : over(panels, 2);
    int item_rows = WEIGHT_ROWS;
    while (item_rows > 16 && units * over(rows, item_rows) < 4 * pool.threads) item_rows /= 2;  // something to do for every thread
    const int row_items = over(rows, item_rows);
    const int ahead = (epilogue == SILU_MUL ? 1 : 2) * (row_items > 1 ? 1 : pool.threads);  // panels, to the next that a thread takes
    const Factors factors = factors_of(rows, weight->k, weight->terms, row);
    Best* best = epilogue == ARGMAX ? bests.get<Best>((size_t)pool.threads * rows) : nullptr;
    if (best)
        for (int i = 0; i < pool.threads * rows; i++) best[i] = {-INFINITY, 0};
    // Items of one pair of panels follow each other, so that threads share what they load of the weight.
    parallel(units * row_items, [=](int item, int thread) {
        const int unit = item / row_items, first = item % row_items * item_rows;
        const int some = rows - first < item_rows ? rows - first : item_rows;
        alignas(64) float sums[WEIGHT_ROWS * 2 * WIDTH];
        if (epilogue == SILU_MUL) {
            multiply_weight(factors, first, some, weight, unit, panels / 2, 2, ahead, sums);
            store_gated(sums, some, (float*)out + (size_t)first * (n / 2) + unit * WIDTH, n / 2);
            return;
        }
        const int column = unit * 2 * WIDTH, columns = n - column < 2 * WIDTH ? n - column : 2 * WIDTH;
        multiply_weight(factors, first, some, weight, 2 * unit, 1, over(columns, WIDTH), ahead, sums);
        if (epilogue == NONE) {
            const float* add = addend ? addend + first * addend_stride + column : nullptr;
            store_columns(sums, some, columns, add, addend_stride, (float*)out + (size_t)first * n + column, n);
            return;
        }
        for (int r = 0; r < some; r++) {
            Best& found = best[(size_t)thread * rows + first + r];
            Integers better = {};
            for (int c = 0; c < columns; c += LANES) better |= load(sums + r * 2 * WIDTH + c) >= splat(found.value);
            if (!any(better)) continue;
            for (int c = 0; c < columns; c++) keep_best(found, sums[r * 2 * WIDTH + c], column + c);
        }
    });
    for (int r = 0; best && r < rows; r++) {
        Best found = best[r];
        for (int thread = 1; thread < pool.threads; thread++) keep_best(found, best[(size_t)thread * rows + r].value, best[(size_t)thread * rows + r].index);
        ((int64_t*)out)[r] = found.index;
    }
}

}  // namespace

// epilogue(x · Wᵀ + addend): x fp32 [rows, k]; addend fp32 with rows `addend_stride` apart (0: one for all), or null.
// NONE: out fp32 [rows, n], which may be the addend. SILU_MUL (no addend): [rows, n / 2], gates in the upper half of W, n / 2 a multiple
// of 16. ARGMAX (no addend): out int64 [rows], the columns with the greatest value.
EXPORT void octavo_linear(const PackedWeight* weight, const float* x, int rows, const float* addend, size_t addend_stride, int epilogue, void* out) {
    const Turn turn;
    linear(weight, rows, [=](int r) { return x + (size_t)r * weight->k; }, addend, addend_stride, epilogue, out);
}

// ---- Norms, rotation, the write of keys and values ----------------------------------------------------------------------------------

namespace {

float root_mean_square(const float* x, int n, float eps) {
    Vector squares = {};
    int i = 0;
    for (; i + LANES <= n; i += LANES) squares += load(x + i) * load(x + i);
    float total = sum(squares);
    for (; i < n; i++) total += x[i] * x[i];
    return 1.0f / sqrtf(total / n + eps);
}

void norm(const float* x, const float* weight, int n, float eps, float* out) {
    const float factor = root_mean_square(x, n, eps);
    for (int i = 0; i < n; i++) out[i] = x[i] * factor * weight[i];
}

// The halves (first, second) turned by the angles of a position.
void rotate(float* head, const float* cos, const float* sin, int dim) {
    float *first = head, *second = head + dim / 2;
    for (int i = 0; i < dim / 2; i++) {
        const float a = first[i], b = second[i];
        first[i] = a * cos[i] - b * sin[i];
        second[i] = b * cos[i] + a * sin[i];
    }
}

// Rows of an item where each takes a microsecond or less: few are not worth waking a thread for.
int rows_per_item(int rows) { return rows < 4 * pool.threads ? (rows > 1 ? rows : 1) : over(rows, 4 * pool.threads); }

}  // namespace

// residual[rows, n] += delta (null: nothing); out = residual / rms(residual) * weight. All fp32.
EXPORT void octavo_add_rms_norm(float* residual, const float* delta, const float* weight, float eps, int rows, int n, float* out) {
    const Turn turn;
    const int some = rows_per_item(rows);
    parallel(over(rows, some), [=](int item, int) {
        for (int r = item * some; r < rows && r < (item + 1) * some; r++) {
            float* x = residual + (size_t)r * n;
            for (int i = 0; delta && i < n; i++) x[i] += delta[(size_t)r * n + i];
            norm(x, weight, n, eps, out + (size_t)r * n);
        }
    });
}

namespace {

void rotate_and_write(const Shape* shapes, const uint8_t* forms, float* qkv, int tokens, const float* cos, const float* sin, const int64_t* positions, const float* q_norm, const float* k_norm, float eps, uint8_t* kv, const int64_t* slot_map) {
    const int heads = shapes->heads, kv_heads = shapes->kv_heads, dim = shapes->dim, some = rows_per_item(tokens);
    parallel(over(tokens, some), [=](int item, int) {
        for (int t = item * some; t < tokens && t < (item + 1) * some; t++) {
            float* row = qkv + (size_t)t * (heads + 2 * kv_heads) * dim;
            for (int h = 0; h < heads + kv_heads; h++) {
                const float* weight = h < heads ? q_norm : k_norm;
                if (weight) norm(row + h * dim, weight, dim, eps, row + h * dim);
                rotate(row + h * dim, cos + positions[t] * (dim / 2), sin + positions[t] * (dim / 2), dim);
            }
            const Shape& shape = shapes[forms ? forms[t] : 0];
            for (int h = 0; h < kv_heads; h++) {
                const float* key = row + (heads + h) * dim;
                write_token(shape, head_of(shape, kv, slot_map[t] / shape.page, h), slot_map[t] % shape.page, key, key + kv_heads * dim);
            }
        }
    });
}

}  // namespace

// qkv fp32 [tokens, heads + 2 kv_heads, dim]: q and k are normed (weights [dim] or null) and turned to their positions in place; k and v
// go to slot_map[t] = page number * page + offset of `kv`. Token t's page is that of shapes[forms[t]] (null: shapes[0]).
EXPORT void octavo_rotate_and_write(const Shape* shapes, const uint8_t* forms, float* qkv, int tokens, const float* cos, const float* sin, const int64_t* positions, const float* q_norm, const float* k_norm, float eps, uint8_t* kv, const int64_t* slot_map) {
    const Turn turn;
    rotate_and_write(shapes, forms, qkv, tokens, cos, sin, positions, q_norm, k_norm, eps, kv, slot_map);
}

// ---- Paged attention ---------------------------------------------------------------------------------------------------------------

namespace {

// Slots whose scores are held at once. A row's answer is folded from such parts in order, also where it has its thread for itself: so
// one long sequence keeps all threads busy, and a row's sums are the same in a prompt's chunk and alone.
constexpr int PART = 256;
constexpr float UNSEEN = -3.0e38f;

struct Batch {
    const Shape* shapes;
    const uint8_t* forms;  // which shape's pages a sequence has; null: the first's
    const float* q;
    size_t q_stride;
    uint8_t* kv;
    const int64_t* page_table;
    size_t table_stride;
    const int32_t *cu_q, *kv_len;
    float scale;
    int window;
    float* out;
    int heads() const { return shapes->heads; }
    int dim() const { return shapes->dim; }
    int group() const { return shapes->heads / shapes->kv_heads; }
    const Shape& shape(int sequence) const { return shapes[forms ? forms[sequence] : 0]; }
};

// Tokens first … first + tokens - 1 of a sequence's queries, for one KV head; parts from … to - 1 of its slots.
struct Item { int sequence, head, first, tokens, from, to, partial; };

// The running softmax of some rows: greatest score, sum of weights, weighted sum of values.
struct State {
    float *greatest, *weight, *values;
    int rows, dim;
    static size_t floats(int rows, int dim) { return (size_t)rows * (dim + 2); }
    State(float* memory, int rows, int dim) : greatest(memory), weight(memory + rows), values(memory + 2 * rows), rows(rows), dim(dim) {}

    void clear() {
        for (int r = 0; r < rows; r++) greatest[r] = UNSEEN, weight[r] = 0;
        memset(values, 0, (size_t)rows * dim * sizeof(float));
    }

    void fold(const State& part) {
        for (int r = 0; r < rows; r++) {
            if (part.weight[r] == 0) continue;
            const float most = part.greatest[r] > greatest[r] ? part.greatest[r] : greatest[r];
            const float keep = weight[r] == 0 ? 0 : exp2v(splat(greatest[r] - most))[0], add = exp2v(splat(part.greatest[r] - most))[0];
            weight[r] = weight[r] * keep + part.weight[r] * add;
            for (int d = 0; d < dim; d++) values[(size_t)r * dim + d] = values[(size_t)r * dim + d] * keep + part.values[(size_t)r * dim + d] * add;
            greatest[r] = most;
        }
    }

    // Row r is token r / group's head r % group of KV head `head`.
    void write(const Batch& batch, const Item& item) const {
        const int group = batch.group();
        const size_t token = batch.cu_q[item.sequence] + item.first;
        for (int r = 0; r < rows; r++) {
            const float factor = weight[r] == 0 ? 0 : 1.0f / weight[r];
            float* to = batch.out + ((token + r / group) * batch.heads() + item.head * group + r % group) * dim;
            for (int d = 0; d < dim; d++) to[d] = values[(size_t)r * dim + d] * factor;
        }
    }
};

int first_slot(const Batch& batch, const Item& item) {  // of the item's first query
    return batch.kv_len[item.sequence] - (batch.cu_q[item.sequence + 1] - batch.cu_q[item.sequence]) + item.first;
}

// scores[0 … slots) of one row → weights 2^(score - greatest) of the slots in [low, high), zero elsewhere.
void soften(float* scores, int slots, int low, int high, float& greatest, float& weight) {
    Integers lane;
    for (int i = 0; i < LANES; i++) lane[i] = i;
    Vector most = splat(UNSEEN), total = {};
    for (int s = 0; s < slots; s += LANES) {
        const Integers seen = (lane + s >= low) & (lane + s < high);
        const Vector score = select(seen, load(scores + s), splat(UNSEEN));
        store(scores + s, score);
        most = largest(most, score);
    }
    greatest = largest_lane(most);
    for (int s = 0; s < slots; s += LANES) {
        const Integers seen = (lane + s >= low) & (lane + s < high);
        const Vector p = select(seen, exp2v(load(scores + s) - greatest), splat(0.0f));
        store(scores + s, p);
        total += p;
    }
    weight = sum(total);
}

// What an item is worked out in.
struct Workspace {
    float* scores;  // [MOST_ROWS][PART]
    float* scales;  // [PART]: of the keys, then of the values
    Rows q, weights;
    bf16* decoded;  // one head's keys or values of a page
};

// Each row's scores or weights times the scales of their slots.
void scale_slots(float* scores, int rows, const float* scales, int slots) {
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < slots; s += LANES) store(scores + r * PART + s, load(scores + r * PART + s) * load(scales + s));
}

// Some pages of a sequence, one KV head of them: those of a part of its slots, as far as an item's queries see them.
struct Stretch {
    const Batch& batch;
    const Item& item;
    const Shape& shape;
    int slot, begin, end;  // of the item's first query; of the part
    const int64_t* table;

    Stretch(const Batch& batch, const Item& item, int part) : batch(batch), item(item), shape(batch.shape(item.sequence)), slot(first_slot(batch, item)), begin(part * PART) {
        end = slot + item.tokens;  // no query sees a slot beyond the last one's own
        if (end > begin + PART) end = begin + PART;
        table = batch.page_table + item.sequence * batch.table_stride + begin / shape.page;
    }
    int pages() const { return over(end - begin, shape.page); }
    int slots() const { return pages() * shape.page; }
    Head head(int i) const { return head_of(shape, batch.kv, table[i], item.head); }
    int used(int i, int unit) const {  // slots of a page that count, in whole units; a page has whole ones or is less than one
        const int count = over(end - begin - i * shape.page, unit) * unit;
        return count < shape.page ? count : shape.page;
    }
};

// The part's softmax of each row: weights in work.scores, their greatest score and sum in `state`.
void soften_part(const Stretch& part, const Workspace& work, State& state) {
    const Shape& shape = part.shape;
    const int page = shape.page, pages = part.pages(), group = part.batch.group(), window = part.batch.window;
    for (int i = 0; i < pages; i++) {
        if (i + 1 < pages) fetch(part.head(i + 1).keys, shape.key_bytes());
        if (shape.keys != BF16) load_scales(part.head(i).key_scales, page, work.scales + i * page);
        multiply_stored(work.q, 0, state.rows, part.head(i).keys, (size_t)shape.dim * WIDTH, part.used(i, WIDTH) / WIDTH, shape.dim / 2, false, work.scores + i * page, PART, work.decoded);
    }
    if (shape.keys != BF16) scale_slots(work.scores, state.rows, work.scales, part.slots());
    for (int r = 0; r < state.rows; r++) {
        const int own_slot = part.slot + r / group, low = window ? own_slot - window + 1 - part.begin : 0;
        soften(work.scores + r * PART, part.slots(), low, own_slot + 1 - part.begin, state.greatest[r], state.weight[r]);
    }
}

void attend_part(const Stretch& part, const Workspace& work, State& state) {
    const Shape& shape = part.shape;
    const int dim = shape.dim, page = shape.page, pages = part.pages(), slots = part.slots();
    soften_part(part, work, state);
    for (int i = 0; shape.values != BF16 && i < pages; i++) load_scales(part.head(i).value_scales, page, work.scales + i * page);
    if (shape.values != BF16) scale_slots(work.scores, state.rows, work.scales, slots);
    for (int r = 0; r < state.rows && work.weights.terms != work.scores; r++) work.weights.set(r, work.scores + r * PART, slots, 1.0f);
    // 32 terms are a tile; what follows up to the page's end has no weight.
    for (int i = 0; i < pages; i++) {
        if (i + 1 < pages) fetch(part.head(i + 1).values, shape.value_bytes());
        multiply_stored(work.weights, i * page, state.rows, part.head(i).values, (size_t)page * WIDTH, dim / WIDTH, part.used(i, 32) / 2, i > 0, state.values, dim, work.decoded);
    }
}

size_t workspace_floats(const Shape& shape) { return (size_t)MOST_ROWS * (2 * PART + shape.dim + 2) + PART + (size_t)shape.page * shape.dim / 2; }

Workspace workspace(const Shape& shape, float* memory) {
    const size_t most = (size_t)MOST_ROWS * PART, dim = shape.dim;
    float *scores = memory, *q = scores + 2 * most, *scales = q + MOST_ROWS * dim, *factors = scales + PART;
    const bool in_place = OCTAVO_TIER == 0 && shape.values != INT8;  // weights are multiplied as they are
    return {scores, scales, {q, factors, dim, shape.keys}, {in_place ? scores : scores + most, factors + MOST_ROWS, PART, shape.values}, (bf16*)(factors + 2 * MOST_ROWS)};
}

// Row r is token r / group's head r % group.
void set_queries(const Batch& batch, const Item& item, const Workspace& work) {
    const int group = batch.group(), dim = batch.dim();
    for (int r = 0; r < item.tokens * group; r++) {
        const size_t token = batch.cu_q[item.sequence] + item.first + r / group;
        work.q.set(r, batch.q + token * batch.q_stride + (size_t)(item.head * group + r % group) * dim, dim, batch.scale * LOG2_E);
    }
}

void attend_item(const Batch& batch, const Item& item, float* all_partials) {
    const Shape& shape = batch.shape(item.sequence);
    const int dim = shape.dim, rows = item.tokens * batch.group();
    const size_t state_floats = State::floats(MOST_ROWS, dim);
    float* memory = own.get<float>(2 * state_floats + workspace_floats(shape));
    const Workspace work = workspace(shape, memory + 2 * state_floats);
    set_queries(batch, item, work);
    State total(memory, rows, dim), part(memory + state_floats, rows, dim);
    total.clear();
    for (int p = item.from; p < item.to; p++) {
        attend_part(Stretch(batch, item, p), work, part);
        if (item.partial >= 0)
            memcpy(all_partials + item.partial * State::floats(rows, dim), part.greatest, State::floats(rows, dim) * sizeof(float));
        else
            total.fold(part);
    }
    if (item.partial < 0) total.write(batch, item);
}

void attend(const Batch& batch, int sequences) {
    const int32_t *cu_q = batch.cu_q, *kv_len = batch.kv_len;
    const int window = batch.window;
    const int group = batch.group(), dim = batch.dim(), kv_heads = batch.shapes->kv_heads, tile = ITEM_ROWS > group ? ITEM_ROWS / group : 1;
    static Scratch item_memory, fold_memory;
    int most = 0;
    for (int b = 0; b < sequences; b++) most += (over(cu_q[b + 1] - cu_q[b], tile) + over(kv_len[b], PART)) * kv_heads;
    Item *items = item_memory.get<Item>(most), *folds = fold_memory.get<Item>(most);
    int count = 0, fold_count = 0, partial = 0;
    for (int b = 0; b < sequences; b++)
        for (int h = 0; h < kv_heads; h++)
            for (int first = 0, queries = cu_q[b + 1] - cu_q[b]; first < queries; first += tile) {
                const int tokens = queries - first < tile ? queries - first : tile, slot = kv_len[b] - queries + first;
                const int from = window && slot >= window ? (slot - window + 1) / PART : 0, to = over(slot + tokens, PART);
                if (queries > 1 || to - from == 1) {  // chunks have many tiles: one thread goes through all of a tile's parts
                    items[count++] = {b, h, first, tokens, from, to, -1};
                    continue;
                }
                folds[fold_count++] = {b, h, first, tokens, from, to, partial};
                for (int part = from; part < to; part++) items[count++] = {b, h, first, tokens, part, part + 1, partial++};
            }
    float* parts = partials.get<float>(partial * State::floats(group, dim) + 1);
    parallel(count, [=, &batch](int i, int) { attend_item(batch, items[i], parts); });
    parallel(fold_count, [=, &batch](int i, int) {
        const Item& item = folds[i];
        State total(own.get<float>(State::floats(group, dim)), group, dim);
        total.clear();
        for (int p = 0; p < item.to - item.from; p++) total.fold(State(parts + (item.partial + p) * State::floats(group, dim), group, dim));
        total.write(batch, item);
    });
}

}  // namespace

// q fp32 with tokens `q_stride` apart, [heads, dim] each, over the pages of page_table [sequences, table_stride]; sequence b has queries
// cu_q[b] … cu_q[b + 1] - 1, which are the last of its kv_len[b] slots. A query sees slots up to its own, of those the last `window` ones
// (0: all). Its pages are those of shapes[forms[b]] (null: shapes[0]). heads / kv_heads is at most 32. out fp32 [tokens, heads, dim].
EXPORT void octavo_attend(const Shape* shapes, const uint8_t* forms, const float* q, size_t q_stride, uint8_t* kv, const int64_t* page_table, size_t table_stride, const int32_t* cu_q, const int32_t* kv_len, int sequences, float scale, int window, float* out) {
    const Turn turn;
    attend({shapes, forms, q, q_stride, kv, page_table, table_stride, cu_q, kv_len, scale, window, out}, sequences);
}

#include "importance.h"

// ---- Layers ------------------------------------------------------------------------------------------------------------------------

// A layer of the Llama family. Norms fp32 [hidden] or, of heads, [dim] or null; the bias fp32 [(heads + 2 kv_heads) * dim] or null.
struct Layer {
    const float *attention_norm, *mlp_norm, *qkv_bias, *q_norm, *k_norm;
    PackedWeight qkv, out, gate_up, down;
};

struct Model {
    const Shape* shapes;  // of the pages that a step's sequences can have
    int32_t hidden, wide, window;
    float eps, scale;
    const float *cos, *sin;  // [positions, dim / 2]
};

// The batch of a step, as octavo_attend and octavo_rotate_and_write take it.
struct Step {
    const int64_t *positions, *slot_map, *page_table;
    const int32_t *cu_q, *kv_len;
    const uint8_t *token_forms, *sequence_forms;
    size_t table_stride;
    int32_t tokens, sequences;
    Importance importance;
};

namespace {

Scratch activations;

}  // namespace

// All layers over the residual stream fp32 [tokens, hidden], in place; kv: the layers' pages. One call, because a step of one token is
// some two hundred products, norms and attentions of a few dozen microseconds each.
EXPORT void octavo_layers(const Model* model, const Layer* layers, int count, uint8_t* const* kv, const Step* step, float* residual) {
    const Turn turn;
    const Shape& shape = *model->shapes;
    const int tokens = step->tokens, hidden = model->hidden, wide = model->wide;
    const int q_width = shape.heads * shape.dim, qkv_width = q_width + 2 * shape.kv_heads * shape.dim;
    float* qkv = activations.get<float>((size_t)tokens * (qkv_width + q_width + wide));
    float *attended = qkv + (size_t)tokens * qkv_width, *gated = attended + (size_t)tokens * q_width;
    const auto normed = [=](const float* weight) {
        return [=, eps = model->eps](int r) {
            float* out = own.get<float>(hidden);
            norm(residual + (size_t)r * hidden, weight, hidden, eps, out);
            return (const float*)out;
        };
    };
    const auto rows = [](const float* x, int width) { return [=](int r) { return x + (size_t)r * width; }; };
    for (int i = 0; i < count; i++) {
        const Layer& layer = layers[i];
        linear(&layer.qkv, tokens, normed(layer.attention_norm), layer.qkv_bias, 0, NONE, qkv);
        rotate_and_write(model->shapes, step->token_forms, qkv, tokens, model->cos, model->sin, step->positions, layer.q_norm, layer.k_norm, model->eps, kv[i], step->slot_map);
        const Batch batch = {model->shapes, step->sequence_forms, qkv, (size_t)qkv_width, kv[i], step->page_table, step->table_stride, step->cu_q, step->kv_len, model->scale, model->window, attended};
        attend(batch, step->sequences);
        if (step->importance.count) weigh(batch, step->importance);
        linear(&layer.out, tokens, rows(attended, q_width), residual, hidden, NONE, residual);
        linear(&layer.gate_up, tokens, normed(layer.mlp_norm), nullptr, 0, SILU_MUL, gated);
        linear(&layer.down, tokens, rows(gated, wide), residual, hidden, NONE, residual);
    }
}

// ---- Sampling ----------------------------------------------------------------------------------------------------------------------

namespace {

// Philox-4x32-10 of four counters (block, position, 0, 0) at once, each 32-bit word in a lane of 64 bits (philox.py has the source).
void philox(__m256i block, uint32_t position, uint64_t seed, __m256i words[4]) {
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57), low = _mm256_set1_epi64x(0xffffffff);
    __m256i c0 = block, c1 = _mm256_set1_epi64x(position), c2 = _mm256_setzero_si256(), c3 = c2;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        const __m256i first = _mm256_mul_epu32(c0, m0), second = _mm256_mul_epu32(c2, m1);
        c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(second, 32), c1), _mm256_set1_epi64x(k0));
        c1 = _mm256_and_si256(second, low);
        c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(first, 32), c3), _mm256_set1_epi64x(k1));
        c3 = _mm256_and_si256(first, low);
    }
    words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

// The upper 24 bits of the noise's word for each of `count` ids, a multiple of 16, from 0.
void uniform_bits(uint32_t position, uint64_t seed, int count, int32_t* bits) {
    for (int id = 0; id < count; id += 16) {
        __m256i words[4];
        philox(_mm256_set_epi64x(id / 4 + 3, id / 4 + 2, id / 4 + 1, id / 4), position, seed, words);
        for (int word = 0; word < 4; word++) {
            alignas(32) uint64_t lanes[4];
            _mm256_store_si256((__m256i*)lanes, _mm256_srli_epi64(words[word], 8));
            for (int lane = 0; lane < 4; lane++) bits[id + 4 * lane + word] = (int32_t)lanes[lane];
        }
    }
}

// ln x of positive normal x to 1e-6: x = 2^e * m, ln m = 2 artanh((m - 1) / (m + 1)).
Vector logv(Vector x) {
    const Integers bits = (Integers)x - 0x3f3504f3;  // of sqrt(1/2)
    const Vector m = (Vector)((bits & 0x007fffff) + 0x3f3504f3), s = (m - 1.0f) / (m + 1.0f), q = s * s;
    return __builtin_convertvector(bits >> 23, Vector) * 0.69314718f + 2.0f * s * (1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q / 7.0f)));
}

// -ln(-ln u) to 1e-4, u = (bits + 1/2) / 2^24. Near 1, ln u is taken from 1 - u, which fp32 holds.
Vector roughly_gumbel(Integers bits) {
    constexpr float UNIT = 1.0f / (1 << 24);
    const Vector u = (__builtin_convertvector(bits, Vector) + 0.5f) * UNIT;
    const Vector v = (__builtin_convertvector((1 << 24) - 1 - bits, Vector) + 0.5f) * UNIT;
    const Vector s = v / (2.0f - v), q = s * s;
    const Vector near = 2.0f * s * (1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q / 9.0f))));
    return -logv(select(u < splat(0.5f), -logv(u), near));
}

// As philox.py's `gumbel`: in fp64, rounded once.
float gumbel(int32_t bits) { return (float)-log(-log((bits + 0.5) / (1 << 24))); }

// argmax of logits / temperature + noise: roughly over all, then exactly among those that the rough sum cannot tell from the greatest.
int64_t draw(const float* logits, int vocab, float temperature, uint64_t seed, uint32_t position) {
    constexpr float DOUBT = 1e-3f;
    const int padded = over(vocab, 16) * 16;
    int32_t* bits = own.get<int32_t>(2 * (size_t)padded);
    float* rough = (float*)(bits + padded);
    uniform_bits(position, seed, padded, bits);
    memcpy(rough, logits, vocab * sizeof(float));
    for (int i = vocab; i < padded; i++) rough[i] = -INFINITY;
    Vector most = splat(-INFINITY);
    for (int i = 0; i < padded; i += LANES) {
        Integers some;
        memcpy(&some, bits + i, sizeof some);
        const Vector total = load(rough + i) / temperature + roughly_gumbel(some);
        store(rough + i, total);
        most = largest(most, total);
    }
    const float bound = largest_lane(most), doubt = DOUBT + fabsf(bound) * 1e-6f;
    Best best = {-INFINITY, 0};
    for (int i = 0; i < vocab; i++)
        if (rough[i] >= bound - doubt) keep_best(best, logits[i] / temperature + gumbel(bits[i]), i);
    return best.index;
}

// Order of floats as order of integers.
uint32_t order(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

// The `wanted` greatest of a row, greatest first and of equal ones the lower index, into `ids`. A histogram of the upper bits finds
// where they begin, so that only they and their bin's neighbours are sorted.
void rank(const float* row, int vocab, int wanted, int32_t* ids) {
    constexpr int SHIFT = 18, BINS = 1 << (32 - SHIFT);
    int32_t* counts = own.get<int32_t>(BINS + 2 * (size_t)vocab);
    Best* chosen = (Best*)(counts + BINS);
    memset(counts, 0, BINS * sizeof *counts);
    for (int i = 0; i < vocab; i++) counts[order(row[i]) >> SHIFT]++;
    int bin = BINS - 1;
    for (int above = counts[bin]; above < wanted && bin > 0;) above += counts[--bin];
    int found = 0;
    for (int i = 0; i < vocab; i++)
        if ((int)(order(row[i]) >> SHIFT) >= bin) chosen[found++] = {row[i], i};
    std::sort(chosen, chosen + found, [](const Best& a, const Best& b) { return a.value > b.value || (a.value == b.value && a.index < b.index); });
    for (int i = 0; i < wanted; i++) ids[i] = chosen[i].index;
}

// Sum of exp((x - greatest) / temperature) over a row.
double mass(const float* row, int vocab, float greatest, float temperature) {
    const float factor = LOG2_E / temperature;
    double total = 0;
    int i = 0;
    for (; i + LANES <= vocab; i += LANES) total += sum(exp2v((load(row + i) - greatest) * factor));
    for (; i < vocab; i++) total += exp2v(splat((row[i] - greatest) * factor))[0];
    return total;
}

}  // namespace

// A request's draw: with noise of (seed, position) from row `row`.
struct Draw {
    uint64_t seed;
    int32_t row;
    uint32_t position;
    float temperature;
};

// out int64 [count]: the token of each draw from softmax(logits[row] / temperature), logits fp32 [rows, vocab]; banned ids are -inf.
EXPORT void octavo_draw(const float* logits, int vocab, const Draw* draws, int count, int64_t* out) {
    const Turn turn;
    parallel(count, [=](int i, int) {
        out[i] = draw(logits + (size_t)draws[i].row * vocab, vocab, draws[i].temperature, draws[i].seed, draws[i].position);
    });
}

// For each of `count` rows of logits fp32 [rows, vocab] its `wanted` <= vocab greatest, greatest first, into ids int32 [count, wanted],
// and into masses fp64 [count] what softmax(row / temperature) divides by, relative to the greatest.
EXPORT void octavo_rank(const float* logits, int vocab, const int32_t* rows, const float* temperatures, int count, int wanted, int32_t* ids, double* masses) {
    const Turn turn;
    parallel(count, [=](int i, int) {
        const float* row = logits + (size_t)rows[i] * vocab;
        rank(row, vocab, wanted, ids + (size_t)i * wanted);
        masses[i] = mass(row, vocab, row[ids[(size_t)i * wanted]], temperatures[i]);
    });
}
