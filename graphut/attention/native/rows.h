// Attention row by row over lists of sources: for sparse graphs, and for few rows of dense graphs.
// Keys and values are not copied. The scores of a row are stored edge by edge, with the heads of an
// edge as adjacent lanes of vectors: an edge takes `period` lanes, the number of heads rounded up to a
// power of two. The lanes of missing heads hold numbers that nothing reads.
#pragma once

#include "columns.h"

namespace graphut {

constexpr int64_t PIECE = 512;     // edges in memory at a time
constexpr int64_t CHUNK = 32;      // largest number of rows or sources that a thread takes at a time
constexpr int64_t LINE = 64;       // bytes of a cache line
constexpr int64_t NEAR = 4 << 20;  // bytes of keys and values that mostly stay in the cache

// A table of features, and the entries of a head in rows of whole vectors.
struct Features {
    Rows rows;
    int64_t feats, width;
};

template <class S, class T>
class RowKernel {
    static constexpr int W = LANES<T>;

  public:
    explicit RowKernel(const Call& call)
        : call_(call), heads_(call.heads), period_(power_of_two(call.heads)),
          head_lanes_(round_up(period_, W)), queries_(features(call.query, call.key_feats)),
          keys_(features(call.key, call.key_feats)), values_(features(call.value, call.value_feats)),
          outs_(features(call.out, call.value_feats)),
          out_grads_(features(call.out_grad, call.value_feats)),
          key_size_(period_ * keys_.width), value_size_(period_ * values_.width),
          far_(call.sources * call.heads * (call.key_feats + call.value_feats) *
                   static_cast<int64_t>(sizeof(S)) > NEAR) {}

    // Compute a phase of all rows of a batch before the next phase: the rows of a batch often share
    // sources, and one table of features at a time is read.
    void forward(Stretch batch, bool& finite) {
        const int64_t rows = batch.last - batch.first;
        const T* queries = load_rows(queries_, batch, query_, call_.scale);
        T* sums = sums_.zeros(rows * value_size_);
        T* top = top_.get(rows * head_lanes_);
        T* total = total_.zeros(rows * head_lanes_);
        std::fill(top, top + rows * head_lanes_, T(-INFINITY));
        for (int64_t from = 0; list_in_edges(batch, from); from += PIECE) {
            T* scores = scores_.get(room_);
            for (int64_t r = 0; r < rows; ++r)
                products(queries + r * key_size_, keys_, edges_[r], scores + lane_[r]);
            for (int64_t r = 0; r < rows; ++r)
                weigh(batch.first + r, from, edges_[r].count, scores + lane_[r],
                      top + r * head_lanes_, total + r * head_lanes_, sums + r * value_size_);
            for (int64_t r = 0; r < rows; ++r)
                add_weighted(scores + lane_[r], period_, values_, edges_[r], sums + r * value_size_);
        }
        for (int64_t r = 0; r < rows; ++r)
            finish(batch.first + r, sums + r * value_size_, top + r * head_lanes_,
                   total + r * head_lanes_, finite);
    }

    // Write the gradients of queries and biases. `table` starts at the first edge of the batch; an
    // edge has `period` lanes for the weights and as many for the gradients of its scores.
    void backward_rows(Stretch batch, T* table) {
        const int64_t rows = batch.last - batch.first;
        const T* queries = load_rows(queries_, batch, query_, call_.scale);
        const T* out_grads = load_rows(out_grads_, batch, out_grad_, 1);
        T* delta = delta_.get(rows * head_lanes_);
        for (int64_t row = batch.first, r = 0; r < rows; ++r, ++row)
            products(out_grads + r * value_size_, outs_, {&row, nullptr, 1}, delta + r * head_lanes_);
        T* sums = sums_.zeros(rows * key_size_);
        for (int64_t from = 0; list_in_edges(batch, from); from += PIECE) {
            T *scores = scores_.get(room_), *grads = grads_.get(room_);
            for (int64_t r = 0; r < rows; ++r)
                products(out_grads + r * value_size_, values_, edges_[r], grads + lane_[r]);
            for (int64_t r = 0; r < rows; ++r) {  // reads keys twice while they are in the cache
                const int64_t count = edges_[r].count;
                products(queries + r * key_size_, keys_, edges_[r], scores + lane_[r]);
                make_grads(batch.first + r, from, count, delta + r * head_lanes_, scores + lane_[r],
                           grads + lane_[r]);
                add_weighted(grads + lane_[r], period_, keys_, edges_[r], sums + r * key_size_);
                store_edges(scores + lane_[r], count, table);
                store_edges(grads + lane_[r], count, table + period_);
                table += count * 2 * period_;
            }
        }
        for (int64_t r = 0; r < rows; ++r)
            give_row(batch.first + r, sums + r * key_size_, static_cast<T>(call_.scale));
    }

    // Add the gradients of lists of edges to the gradients of consecutive sources, or write them.
    void backward_sources(int64_t first, const std::vector<EdgeList>& lists, const T* table,
                          bool adds) {
        const int64_t count = static_cast<int64_t>(lists.size());
        for (int64_t s = 0; s < count; ++s) {
            for (int64_t e = 0; s + 1 < count && e < lists[s + 1].count; ++e)
                __builtin_prefetch(table + lists[s + 1].slot[e] * 2 * period_);
            gather(first + s, lists[s], table, out_grads_, call_.value_grad, T(1), adds);
        }
        for (int64_t s = 0; s < count; ++s)
            gather(first + s, lists[s], table + period_, queries_, call_.key_grad,
                   static_cast<T>(call_.scale), adds);
    }

  private:
    static Features features(const Rows& rows, int64_t feats) {
        return {rows, feats, round_up(feats, W)};
    }

    // The entries of a table of scores, of whole vectors.
    int64_t lanes(int64_t edges) const { return round_up(edges * period_, W); }

    // Copy rows times a factor, each head at a multiple of vectors; missing features and heads are 0.
    // Prefetch the rows of the next batch.
    const T* load_rows(const Features& from, Stretch batch, Buffer<T>& buffer, double factor) {
        const int64_t count = batch.last - batch.first;
        T* to = buffer.get(count * period_ * from.width);
        for (int64_t row = batch.first; row < batch.last; ++row)
            for (int64_t h = 0; h < period_; ++h)
                for (int64_t f = 0; f < from.width; f += W, to += W) {
                    store<T>(to, Vec<T>{});
                    if (h >= heads_) continue;
                    const S* at = from.rows.at<S>(row, h) + f;
                    __builtin_prefetch(at + count * from.rows.row);
                    store<T>(to, load<T>(at, from.feats - f) * static_cast<T>(factor));
                }
        return to - count * period_ * from.width;
    }

    // List the edges of each row of a batch: all, or, of a single row, some after `from`. Return
    // whether there are any.
    bool list_in_edges(Stretch batch, int64_t from) {
        edges_.clear(), lane_.clear(), room_ = 0;
        int64_t all = 0;
        for (int64_t row = batch.first; row < batch.last; ++row) {
            const int64_t node = call_.node(row), place = call_.start[node] + from;
            const int64_t count = std::clamp<int64_t>(call_.degree(node) - from, 0, PIECE);
            const int64_t* sources = call_.indices ? call_.indices + place : count_up(place, all, count);
            edges_.push_back({sources, nullptr, count});
            lane_.push_back(room_);
            room_ += lanes(count), all += count;
            if (!far_) continue;
            fetch(keys_, edges_.back());
            fetch(values_, edges_.back());
        }
        return all > 0;
    }

    // Prefetch rows, so that many are loaded from memory at the same time.
    void fetch(const Features& table, const EdgeList& edges) const {
        for (int64_t e = 0; e < edges.count; ++e)
            for (int64_t h = 0; h < heads_; ++h) {
                const S* from = table.rows.at<S>(edges.at[e], h);
                for (int64_t f = 0; f < table.feats; f += LINE / static_cast<int64_t>(sizeof(S)))
                    __builtin_prefetch(from + f);
            }
    }

    // Call `use` with the number of heads in a vector as a constant.
    template <int P = W, class F>
    INLINE void choose(F use) const {
        if constexpr (P > 1)
            if (period_ < P) return choose<P / 2>(use);
        use(std::integral_constant<int, P>());
    }

    // scores[e, h] = row[h] . table[at[e], h]. The last edge is repeated up to a whole vector.
    void products(const T* row, const Features& table, const EdgeList& edges, T* scores) const {
        const bool full = heads_ == period_;
        choose([&](auto heads) {
            if (full && table.feats == W)
                products_of<heads, 1, false, true>(row, table, edges, scores);
            else if (full && table.feats == 2 * W)
                products_of<heads, 2, false, true>(row, table, edges, scores);
            else if (table.feats <= W)
                full ? products_of<heads, 1, true, true>(row, table, edges, scores)
                     : products_of<heads, 1, true, false>(row, table, edges, scores);
            else
                full ? products_of<heads, 0, true, true>(row, table, edges, scores)
                     : products_of<heads, 0, true, false>(row, table, edges, scores);
        });
    }

    // For P heads in a vector of scores, all or some of which exist (FULL), and N vectors of features
    // of a head, or any number (0), of which the last may not be whole (TAIL).
    template <int P, int N, bool TAIL, bool FULL>
    NOINLINE void products_of(const T* row, Features table, EdgeList edges, T* scores) const {
        constexpr int E = W / P;  // edges of a vector of scores
        constexpr bool HELD = N > 0 && N * P <= ACCUMULATORS / 2;  // the row is held in registers
        const int64_t vectors = N ? N : table.width / W, tail = table.feats - (vectors - 1) * W;
        for (int64_t first = 0; first < period_; first += P) {
            [[maybe_unused]] const int64_t last = heads_ - 1 - first;  // no heads after it
            const T* from = row + first * table.width;
            Vec<T> held[HELD ? P * N : 1];
            for (int i = 0; HELD && i < N * P; ++i) held[i] = load<T>(from + i * W);
            for (int64_t e = 0; e < edges.count; e += E) {
                const S* at[E];
                for (int k = 0; k < E; ++k)
                    at[k] = table.rows.at<S>(edges.at[std::min(e + k, edges.count - 1)], first);
                store<T>(scores + e * period_ + first, row_sums<T>([&](int l) INLINE_LAMBDA {
                    const int64_t h = FULL ? l % P : std::min<int64_t>(l % P, last);
                    const S* head = at[l / P] + h * table.rows.head;
                    const auto own = [&](int64_t n) INLINE_LAMBDA {
                        if constexpr (HELD) return held[l % P * N + n];
                        else return load<T>(from + l % P * table.width + n * W);
                    };
                    Vec<T> sum{};
                    for (int64_t n = 0; n + TAIL < vectors; ++n) sum += own(n) * load<T>(head + n * W);
                    if (TAIL) sum += own(vectors - 1) * load<T>(head + (vectors - 1) * W, tail);
                    return sum;
                }));
            }
        }
    }

    // Turn scores into weights, exp(score - top), and add them to the totals. `sums` belongs to the
    // earlier edges of the row, with a smaller `top`.
    void weigh(int64_t row, int64_t from, int64_t count, T* scores, T* top, T* total, T* sums) {
        const int64_t all = lanes(count);
        if (call_.bias) add_bias(row, from, count, scores);
        std::fill(scores + count * period_, scores + all, T(-INFINITY));
        for (int64_t v = 0; v < head_lanes_; v += W) {
            const Vec<T> before = load<T>(top + v);
            Vec<T> now = before;
            for (int64_t l = v; l < all; l += head_lanes_) now = larger<T>(load<T>(scores + l), now);
            now = fold<T>(now, period_, larger<T>);
            store<T>(top + v, now);
            const Vec<T> shift = above_nothing<T>(now), factor = exp<T>(before - shift);
            Vec<T> sum = load<T>(total + v) * factor;
            for (int64_t l = v; l < all; l += head_lanes_) {
                const Vec<T> e = exp<T>(load<T>(scores + l) - shift);
                store<T>(scores + l, e);
                sum += e;
            }
            store<T>(total + v, sum);
            if (from) scale_heads(sums + v * values_.width, factor);
        }
        if (call_.threshold)
            for (int64_t e = 0; e < count; ++e)
                for (int64_t h = 0; h < heads_; ++h)
                    scores[e * period_ + h] *= dropout_factor<T>(call_, edge_id(row, from + e), h);
    }

    int64_t edge_id(int64_t row, int64_t place) const {
        return call_.edge_id(call_.node(row), place);
    }

    void add_bias(int64_t row, int64_t from, int64_t count, T* scores) const {
        const T* bias = static_cast<const T*>(call_.bias);
        for (int64_t e = 0; e < count; ++e) {
            const T* of_edge = bias + edge_id(row, from + e) * call_.bias_heads;
            for (int64_t h = 0; h < heads_; ++h)
                scores[e * period_ + h] += of_edge[call_.bias_heads == 1 ? 0 : h];
        }
    }

    void scale_heads(T* sums, Vec<T> factors) const {
        for (int64_t h = 0; h < std::min<int64_t>(period_, W); ++h)
            for (int64_t f = 0; f < values_.width; f += W, sums += W)
                store<T>(sums, load<T>(sums) * factors[h]);
    }

    void finish(int64_t row, T* sums, const T* top, T* total, bool& finite) const {
        Vec<T> bad{};
        for (int64_t v = 0; v < head_lanes_; v += W)
            store<T>(total + v, fold<T>(load<T>(total + v), period_,
                                        [](Vec<T> a, Vec<T> b) { return a + b; }));
        for (int64_t h = 0; h < heads_; ++h) {
            const T inverse = total[h] == 0 ? T(0) : 1 / total[h];
            T* of_head = sums + h * values_.width;
            for (int64_t f = 0; f < values_.width; f += W) {
                const Vec<T> out = load<T>(of_head + f) * inverse;
                bad += out - out;
                store<T>(of_head + f, out);
            }
            finite = finite && (total[h] != 0 || call_.may_be_dead(call_.node(row)));
            store(call_.out.at<S>(row, h), of_head, values_.feats);
            T* own = static_cast<T*>(call_.softmax) + 2 * (row * heads_ + h);
            own[0] = total[h] == 0 ? T(INFINITY) : top[h], own[1] = inverse;
        }
        finite = finite && lane_sum<T>(bad) == 0;
    }

    // sums[h] += sum over e of weights[slot[e], h] table[at[e], h], with `pitch` lanes for each slot
    void add_weighted(const T* weights, int64_t pitch, const Features& table, const EdgeList& edges,
                      T* sums) const {
        int64_t f = 0;
        const auto add = [&](auto vectors, auto tail) {
            for (; f + (tail ? 0 : vectors * W - 1) < table.feats; f += vectors * W)
                add_heads<8 / vectors, vectors, tail>(weights, pitch, table, edges, sums, 0, f);
        };
        add(std::integral_constant<int, 4>(), std::false_type());
        add(std::integral_constant<int, 2>(), std::false_type());
        add(std::integral_constant<int, 1>(), std::false_type());
        add(std::integral_constant<int, 1>(), std::true_type());
    }

    // For heads from h, and N vectors of each from f; a TAIL is a vector that is not whole.
    template <int H, int N, bool TAIL>
    void add_heads(const T* weights, int64_t pitch, const Features& table, const EdgeList& edges,
                   T* sums, int64_t h, int64_t f) const {
        for (; h + H <= heads_; h += H)
            add_some<H, N, TAIL>(weights + h, pitch, table, edges, sums + h * table.width + f, h, f);
        if constexpr (H > 1)
            if (h < heads_) add_heads<H / 2, N, TAIL>(weights, pitch, table, edges, sums, h, f);
    }

    template <int H, int N, bool TAIL>
    NOINLINE void add_some(const T* weights, int64_t pitch, Features table, EdgeList edges, T* sums,
                           int64_t first, int64_t f) const {
        const int64_t rest = table.feats - f;
        Vec<T> acc[H][N];
#pragma GCC unroll 8
        for (int h = 0; h < H; ++h)
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) acc[h][n] = load<T>(sums + h * table.width + n * W);
        for (int64_t e = 0; e < edges.count; ++e) {
            const S* at = table.rows.at<S>(edges.at[e], first) + f;
            const T* weight = weights + (edges.slot ? edges.slot[e] : e) * pitch;
#pragma GCC unroll 8
            for (int h = 0; h < H; ++h)
#pragma GCC unroll 4
                for (int n = 0; n < N; ++n) {
                    const S* from = at + h * table.rows.head + n * W;
                    acc[h][n] += weight[h] * (TAIL ? load<T>(from, rest) : load<T>(from));
                }
        }
#pragma GCC unroll 8
        for (int h = 0; h < H; ++h)
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) store<T>(sums + h * table.width + n * W, acc[h][n]);
    }

    // Replace scores and products by weights and gradients of the scores.
    void make_grads(int64_t row, int64_t from, int64_t count, const T* delta, T* scores, T* grads) {
        if (call_.bias) add_bias(row, from, count, scores);
        T *top = top_.get(head_lanes_), *inverse = total_.get(head_lanes_);
        const T* own = static_cast<const T*>(call_.softmax) + 2 * row * heads_;
        for (int64_t l = 0; l < head_lanes_; ++l) {
            const int64_t h = l & (period_ - 1);
            top[l] = h < heads_ ? own[2 * h] : T(INFINITY);
            inverse[l] = h < heads_ ? own[2 * h + 1] : T(0);
        }
        T* factors = call_.threshold ? factors_.get(lanes(count)) : nullptr;
        for (int64_t e = 0; factors && e < count; ++e)
            for (int64_t h = 0; h < heads_; ++h)
                factors[e * period_ + h] = dropout_factor<T>(call_, edge_id(row, from + e), h);
        for (int64_t v = 0; v < head_lanes_; v += W)
            for (int64_t l = v; l < lanes(count); l += head_lanes_) {
                const Vec<T> factor = factors ? load<T>(factors + l) : splat<T>(1);
                const Vec<T> below = load<T>(scores + l) - load<T>(top + v);
                const Vec<T> weight = exp<T>(below) * load<T>(inverse + v);
                const Vec<T> grad = load<T>(grads + l) * factor - load<T>(delta + v);
                store<T>(scores + l, weight * factor);
                store<T>(grads + l, weight * grad);
            }
        T* bias_grad = static_cast<T*>(call_.bias_grad);
        for (int64_t e = 0; bias_grad && e < count; ++e)
            for (int64_t h = 0; h < heads_; ++h)
                bias_grad[edge_id(row, from + e) * heads_ + h] = grads[e * period_ + h];
    }

    // Copy the lanes of each edge to a table with twice as many lanes for each.
    void store_edges(const T* from, int64_t count, T* table) const {
        choose([&](auto heads) {
            for (int64_t l = 0; l < count * period_; l += heads)
                std::memcpy(table + l + (l & -period_), from + l, heads * sizeof(T));
        });
    }

    void give_row(int64_t row, T* sums, T factor) const {
        for (int64_t h = 0; h < heads_; ++h) {
            T* of_head = sums + h * keys_.width;
            for (int64_t f = 0; f < keys_.width; f += W)
                store<T>(of_head + f, load<T>(of_head + f) * factor);
            store(call_.query_grad.at<S>(row, h), of_head, keys_.feats);
        }
    }

    // to[source] (+)= factor times the weighted sum of rows
    void gather(int64_t source, const EdgeList& edges, const T* weights, const Features& table,
                const Rows& to, T factor, bool adds) {
        if (adds && !edges.count) return;
        if (far_) fetch(table, edges);
        T* sums = sums_.zeros(heads_ * table.width);
        add_weighted(weights, 2 * period_, table, edges, sums);
        for (int64_t h = 0; h < heads_; ++h)
            for (int64_t f = 0; f < table.width; f += W, sums += W) {
                T* sum = to.at<T>(source, h) + f;
                const Vec<T> own = load<T>(sums) * factor;
                store<T>(sum, adds ? load<T>(sum) + own : own);
            }
    }

    const int64_t* count_up(int64_t from, int64_t at, int64_t count) {
        // Resizing must not move the sources of the rows before, and a batch has at most PIECE edges.
        consecutive_.resize(PIECE);
        for (int64_t e = 0; e < count; ++e) consecutive_[at + e] = from + e;
        return consecutive_.data() + at;
    }

    const Call& call_;
    const int64_t heads_, period_, head_lanes_;
    const Features queries_, keys_, values_, outs_, out_grads_;
    const int64_t key_size_, value_size_;  // of a row of all heads
    const bool far_;                       // no cache holds keys and values
    std::vector<EdgeList> edges_;  // of each row of a batch
    std::vector<int64_t> lane_;    // where the scores of each row begin
    std::vector<int64_t> consecutive_;
    int64_t room_ = 0;  // entries of the scores of a batch
    Buffer<T> query_, out_grad_, sums_, scores_, grads_, top_, total_, factors_, delta_;
};

// The rows or sources that a thread takes at a time, such that each thread has several turns.
inline int64_t chunk(const Call& call, int64_t all) {
    return std::clamp<int64_t>(all / (4 * call.threads), 1, CHUNK);
}

// Divide rows of a chunk into batches of at most `PIECE` edges, or one row.
template <class F>
void each_batch(const Call& call, int64_t first, int64_t last, F use) {
    for (int64_t from = first, to; from < last; from = to) {
        int64_t edges = call.degree(call.node(from));
        for (to = from + 1; to < last; ++to)
            if ((edges += call.degree(call.node(to))) > PIECE) break;
        use(Stretch{from, to});
    }
}

template <class S, class T>
bool row_forward(const Call& call) {
    bool finite = true;
#pragma omp parallel num_threads(call.threads) reduction(&& : finite)
    {
        RowKernel<S, T> kernel(call);
        const int64_t step = chunk(call, call.rows);
#pragma omp for schedule(dynamic)
        for (int64_t first = 0; first < call.rows; first += step)
            each_batch(call, first, std::min(first + step, call.rows),
                       [&](Stretch batch) { kernel.forward(batch, finite); });
    }
    return finite;
}

// Call `use` for consecutive sources and the edges of each, in all threads.
template <class F>
void each_source(const Call& call, Columns& columns, F use) {
    std::vector<int64_t> found[CHUNK];
    std::vector<EdgeList> lists;
    const int64_t step = chunk(call, call.sources);
#pragma omp for schedule(dynamic)
    for (int64_t first = 0; first < call.sources; first += step) {
        lists.clear();
        for (int64_t s = 0; s < std::min(step, call.sources - first); ++s)
            lists.push_back(columns.list(first + s, found[s]));
        use(first, lists);
    }
}

template <class S, class T>
void row_backward(const Call& call) {
    const std::vector<int64_t> slots = first_slots(call);
    Columns columns(call, slots);
    const std::vector<Stretch> stretches = make_stretches(slots, call.sources);
    int64_t most = 0;
    for (const Stretch& s : stretches) most = std::max(most, slots[s.last] - slots[s.first]);
    const int64_t pitch = 2 * power_of_two(call.heads);
    KeptTable<T> kept;
    T* memory = kept.get(most * pitch);
#pragma omp parallel num_threads(call.threads)
    {
        RowKernel<S, T> kernel(call);
        for (const Stretch& stretch : stretches) {
            T* table = memory - slots[stretch.first] * pitch;
            const int64_t step = chunk(call, stretch.last - stretch.first);
#pragma omp single
            columns.advance(stretch);
#pragma omp for schedule(dynamic)
            for (int64_t first = stretch.first; first < stretch.last; first += step)
                each_batch(call, first, std::min(first + step, stretch.last), [&](Stretch batch) {
                    kernel.backward_rows(batch, table + slots[batch.first] * pitch);
                });
            each_source(call, columns, [&](int64_t first, const std::vector<EdgeList>& lists) {
                kernel.backward_sources(first, lists, table, call.adds || stretch.first > 0);
            });
        }
    }
}

}  // namespace graphut
