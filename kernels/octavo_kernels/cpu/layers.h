// All layers of a step in one call.

#pragma once

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
