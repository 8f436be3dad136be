// Linear layers: rows become what the tier multiplies with, threads take pairs of panels, and what is done with a sum is done while it is
// still in the nearest cache (an addend, SiLU of gates, the greatest of a row).

#pragma once

enum Epilogue { NONE = 0, SILU_MUL = 1, ARGMAX = 2 };

namespace {

struct Best { float value; int32_t index; };

Scratch operands, bests;  // of the call that runs: there is one at a time

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
