// A weight as products take it: packed once when a model is loaded, and read back where it is an embedding too.

#pragma once

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
