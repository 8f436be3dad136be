// How much attention the pages of some of a batch's sequences get. Included behind attention.h.
//
// Scores are computed once more, from the same queries and keys by the same functions as attention computes them, and their softmax is
// summed page by page. So attention has the same bits whether this is asked for or not, and pays nothing where it is not; where it is,
// this takes about half as long as attention, over as few slots as a sequence with a budget holds.

#pragma once

// The sequences that ask, by their place in the batch, and where it is added up: mass[i * stride + place] for the place in a page table.
struct Importance {
    const int32_t* sequences;
    float* mass;
    size_t stride;
    int32_t count;
};

namespace {

Scratch weighed_items, item_masses;

// Adds up what the queries of an item give to pages, in parts of the slots as attention has them, into out[pages]: over rows, of a softmax
// over all parts.
void weigh_item(const Batch& batch, const Item& item, int pages, float* out) {
    const Shape& shape = batch.shape(item.sequence);
    const int rows = item.tokens * batch.group(), per_part = PART / shape.page;
    const size_t parts = (size_t)rows * item.to;
    float* memory = own.get<float>(workspace_floats(shape) + 2 * parts + (size_t)rows * pages + State::floats(rows, 0));
    const Workspace work = workspace(shape, memory);
    float *greatest = memory + workspace_floats(shape), *weight = greatest + parts, *sums = weight + parts;  // [rows][parts], [rows][pages]
    set_queries(batch, item, work);
    State state(sums + (size_t)rows * pages, rows, 0);
    for (int p = 0; p < item.to; p++) {
        const Stretch part(batch, item, p);
        soften_part(part, work, state);
        for (int r = 0; r < rows; r++) {
            greatest[(size_t)r * item.to + p] = state.greatest[r], weight[(size_t)r * item.to + p] = state.weight[r];
            for (int i = 0; i < part.pages(); i++) {
                Vector total = {};
                for (int s = 0; s < shape.page; s += LANES) total += load(work.scores + r * PART + i * shape.page + s);
                sums[(size_t)r * pages + p * per_part + i] = sum(total);
            }
        }
    }
    for (int i = 0; i < pages; i++) out[i] = 0;
    for (int r = 0; r < rows; r++) {
        const float *most_of = greatest + (size_t)r * item.to, *weight_of = weight + (size_t)r * item.to;
        float most = UNSEEN, all = 0;
        for (int p = 0; p < item.to; p++) most = most_of[p] > most ? most_of[p] : most;
        for (int p = 0; p < item.to; p++) all += weight_of[p] == 0 ? 0 : weight_of[p] * exp2v(splat(most_of[p] - most))[0];
        for (int p = 0; p < item.to; p++) {
            if (weight_of[p] == 0) continue;
            const float factor = exp2v(splat(most_of[p] - most))[0] / all;
            for (int i = p * per_part; i < pages && i < (p + 1) * per_part; i++) out[i] += sums[(size_t)r * pages + i] * factor;
        }
    }
}

// Items are added up in their order, so that the sums do not depend on the threads.
void weigh(const Batch& batch, const Importance& importance) {
    const int group = batch.group(), kv_heads = batch.shapes->kv_heads, tile = ITEM_ROWS > group ? ITEM_ROWS / group : 1;
    const auto queries = [&](int i) { return batch.cu_q[importance.sequences[i] + 1] - batch.cu_q[importance.sequences[i]]; };
    int most = 0;
    for (int i = 0; i < importance.count; i++) most += over(queries(i), tile) * kv_heads;
    Item* items = weighed_items.get<Item>(most + 1);
    float* masses = item_masses.get<float>((size_t)most * importance.stride + 1);
    int count = 0;
    for (int i = 0; i < importance.count; i++)
        for (int h = 0; h < kv_heads; h++)
            for (int first = 0; first < queries(i); first += tile) {
                const int b = importance.sequences[i], tokens = queries(i) - first < tile ? queries(i) - first : tile;
                items[count++] = {b, h, first, tokens, 0, over(batch.kv_len[b] - queries(i) + first + tokens, PART), i};
            }
    const auto pages = [&](const Item& item) { return over(first_slot(batch, item) + item.tokens, batch.shape(item.sequence).page); };
    parallel(count, [=, &batch](int i, int) { weigh_item(batch, items[i], pages(items[i]), masses + i * importance.stride); });
    const float share = 1.0f / batch.heads();
    for (int i = 0; i < count; i++) {
        float* to = importance.mass + items[i].partial * importance.stride;
        for (int place = 0; place < pages(items[i]); place++) to[place] += masses[i * importance.stride + place] * share;
    }
}

}  // namespace

// Adds to importance->mass what the queries of its sequences give to the slots of their pages, a mean over heads, as octavo_attend takes
// the batch; all slots are seen. Sequences ascend.
EXPORT void octavo_weigh(const Shape* shapes, const uint8_t* forms, const float* q, size_t q_stride, uint8_t* kv, const int64_t* page_table, size_t table_stride, const int32_t* cu_q, const int32_t* kv_len, float scale, const Importance* importance) {
    const Turn turn;
    weigh({shapes, forms, q, q_stride, kv, page_table, table_stride, cu_q, kv_len, scale, 0, nullptr}, *importance);
}
