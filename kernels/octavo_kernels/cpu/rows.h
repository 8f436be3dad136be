// What is done row by row between products: RMS norm, rotation to positions, the write of keys and values into pages.

#pragma once

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
