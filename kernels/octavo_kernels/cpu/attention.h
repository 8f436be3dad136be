// Attention over pages: ragged chunks of prompts and single tokens alike.
//
// An item of work is some queries of a sequence for one KV head, with all query heads of that head as rows, so that a page is read once.

#pragma once

namespace {

// Slots whose scores are held at once. A row's answer is folded from such parts in order, also where it has its thread for itself: so
// one long sequence keeps all threads busy, and a row's sums are the same in a prompt's chunk and alone.
constexpr int PART = 256;
constexpr float UNSEEN = -3.0e38f;

Scratch partials;  // of the call that runs

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
