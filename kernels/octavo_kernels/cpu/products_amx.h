// Products of tier 2, of bf16 by tiles: tdpbf16ps adds a tile of 16 x 32 times one of 32 x 16 bf16 to 16 x 16 fp32. Included by products.h.

#pragma once

namespace {

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

}  // namespace
