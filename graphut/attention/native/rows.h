// Attention row by row over lists of sources: for sparse graphs, and for few rows of dense graphs.
// Keys and values are not copied. The scores of a row are stored edge by edge, with the heads of an
// edge as adjacent lanes of vectors: an edge takes `period` lanes, the number of heads rounded up to a
// power of two.
#pragma once

#include "call.h"

namespace graphut {

constexpr int64_t PIECE = 256;  // edges of a row in memory at a time
constexpr int64_t LINE = 64;    // bytes of a cache line
constexpr int64_t NEAR = 4 << 20;  // bytes of keys and values that mostly stay in the cache

// A run of edges of one row or of one source; `other` holds their other ends.
struct Edge {
    int64_t other, id, slot;
};

template <class S, class T>
class RowKernel {
    static constexpr int W = LANES<T>;

  public:
    explicit RowKernel(const Call& call)
        : call_(call), heads_(call.heads), shift_(shift(call.heads)), period_(period(call.heads)),
          vectors_(std::max<int64_t>(1, period_ / W)),
          key_width_(round_up(call.key_feats, W)), value_width_(round_up(call.value_feats, W)),
          far_(call.sources * call.heads * (call.key_feats + call.value_feats) *
                   static_cast<int64_t>(sizeof(S)) > NEAR) {}

    static int64_t period(int64_t heads) { return int64_t(1) << shift(heads); }

    void forward(int64_t row, bool& finite) {
        const int64_t node = call_.node(row), degree = call_.degree(node);
        const T* query = load_row(call_.query, row, call_.key_feats, key_width_, query_,
                                  static_cast<T>(call_.scale));
        T* sums = sums_.zeros(heads_ * value_width_);
        T* scores = scores_.get(lanes(std::min(degree, PIECE)));
        T* top = top_.get(lanes(1));
        T* total = total_.zeros(lanes(1));
        T* factors = factors_.get(lanes(1));
        std::fill(top, top + lanes(1), T(-INFINITY));
        for (int64_t from = 0; from < degree; from += PIECE) {
            const int64_t count = std::min(PIECE, degree - from);
            list_in_edges(node, from, count);
            products(query, key_width_, call_.key, call_.key_feats, count, scores);
            if (call_.bias) add_bias(count, scores);
            pad(count, scores);
            raise_top(count, scores, top, factors);
            exponentials(count, scores, top, factors, total);
            if (from) scale_heads(sums, factors, value_width_);
            if (call_.threshold) drop(count, scores);
            add_weighted(scores, call_.value, call_.value_feats, value_width_, count, sums);
        }
        finish(row, sums, top, total, finite);
    }

    // Write the gradient of a query, and the weight and the gradient of the score of each edge:
    // tables with `period` lanes for each edge, starting at the first edge of the row.
    void backward_row(int64_t row, T* weights, T* grads) {
        const int64_t node = call_.node(row), degree = call_.degree(node);
        const T* query = load_row(call_.query, row, call_.key_feats, key_width_, query_,
                                  static_cast<T>(call_.scale));
        const T* out_grad =
            load_row(call_.out_grad, row, call_.value_feats, value_width_, out_grad_, T(1));
        load_delta(row, out_grad);
        T* sums = sums_.zeros(heads_ * key_width_);
        T* scores = scores_.get(lanes(std::min(degree, PIECE)));
        T* inner = inner_.get(lanes(std::min(degree, PIECE)));
        for (int64_t from = 0; from < degree; from += PIECE) {
            const int64_t count = std::min(PIECE, degree - from);
            list_in_edges(node, from, count);
            products(query, key_width_, call_.key, call_.key_feats, count, scores);
            if (call_.bias) add_bias(count, scores);
            products(out_grad, value_width_, call_.value, call_.value_feats, count, inner);
            make_grads(count, scores, inner);
            add_weighted(inner, call_.key, call_.key_feats, key_width_, count, sums);
            if (call_.bias_grad) give_bias_grads(count, inner);
            std::copy(scores, scores + count * period_, weights + from * period_);
            std::copy(inner, inner + count * period_, grads + from * period_);
        }
        for (int64_t h = 0; h < heads_; ++h) {
            T* of_head = sums + h * key_width_;
            for (int64_t f = 0; f < key_width_; ++f) of_head[f] *= static_cast<T>(call_.scale);
            store(call_.query_grad.at<S>(row, h), of_head, call_.key_feats);
        }
    }

    // Add the gradients of the listed edges to the gradients of a source, or write them. `other` is
    // a row, `slot` the index of the edge in the tables.
    void backward_source(int64_t source, const std::vector<Edge>& edges, const T* weights,
                         const T* grads, bool adds) {
        edges_.assign(edges.begin(), edges.end());
        if (far_)
            for (const Edge& edge : edges) {
                fetch(call_.out_grad, edge.other, call_.value_feats);
                fetch(call_.query, edge.other, call_.key_feats);
            }
        gather_and_add(source, weights, call_.out_grad, call_.value_feats, value_width_,
                       call_.value_grad, T(1), adds);
        gather_and_add(source, grads, call_.query, call_.key_feats, key_width_, call_.key_grad,
                       static_cast<T>(call_.scale), adds);
    }

  protected:
    static int64_t shift(int64_t heads) {
        int64_t bits = 0;
        while (int64_t(1) << bits < heads) ++bits;
        return bits;
    }

    int64_t edge_of(int64_t lane) const { return lane >> shift_; }
    int64_t head_of(int64_t lane) const { return lane & (period_ - 1); }
    int64_t lanes(int64_t edges) const { return round_up(edges * period_, W); }

    const T* load_row(const Rows& from, int64_t row, int64_t feats, int64_t width, Buffer<T>& buffer,
                      T factor) {
        T* to = buffer.get(heads_ * width);
        for (int64_t h = 0; h < heads_; ++h)
            for (int64_t f = 0; f < width; f += W)
                store<T>(to + h * width + f,
                         load<T>(from.at<S>(row, h) + f, feats - f) * factor);
        return to;
    }

    void list_in_edges(int64_t node, int64_t from, int64_t count) {
        const bool ids = call_.bias || call_.threshold;
        edges_.resize(count);
        for (int64_t e = 0; e < count; ++e) {
            const int64_t place = call_.start[node] + from + e;
            edges_[e].other = call_.indices ? call_.indices[place] : place;
            edges_[e].id = ids ? call_.edge_id(node, from + e) : 0;
            edges_[e].slot = e;
            if (far_) {
                fetch(call_.key, edges_[e].other, call_.key_feats);
                fetch(call_.value, edges_[e].other, call_.value_feats);
            }
        }
    }

    // Prefetch a row, so that many rows are loaded from memory at the same time.
    void fetch(const Rows& table, int64_t row, int64_t feats) const {
        for (int64_t h = 0; h < heads_; ++h) {
            const S* from = table.at<S>(row, h);
            for (int64_t f = 0; f < feats; f += LINE / static_cast<int64_t>(sizeof(S)))
                __builtin_prefetch(from + f);
        }
    }

    // scores[e, h] = row[h] . table[other[e], h]
    void products(const T* row, int64_t width, const Rows& table, int64_t feats, int64_t count,
                  T* scores) {
        if (feats == W) return products_of<1, true>(row, width, table, feats, count, scores);
        if (feats == 2 * W) return products_of<2, true>(row, width, table, feats, count, scores);
        if (feats == 4 * W) return products_of<4, true>(row, width, table, feats, count, scores);
        products_of<0, false>(row, width, table, feats, count, scores);
    }

    template <int N, bool WHOLE>
    void products_of(const T* row, int64_t width, const Rows& table, int64_t feats, int64_t count,
                     T* scores) {
        const int64_t all = lanes(count), some = std::min<int64_t>(period_, W);
        for (int64_t first = 0; first < all; first += W) {
            Vec<T> partial[W];
            for (int64_t l = 0; l < W; l += some) {
                const int64_t e = edge_of(first + l), h = head_of(first + l);
                const int64_t heads = e < count ? std::min(some, heads_ - h) : 0;
                const S* at = table.at<S>(e < count ? edges_[e].other : 0, h);
                for (int64_t k = 0; k < heads; ++k, at += table.head)
                    partial[l + k] = product<N, WHOLE>(at, row + (h + k) * width, feats);
                for (int64_t k = std::max<int64_t>(heads, 0); k < some; ++k) partial[l + k] = Vec<T>{};
            }
            store<T>(scores + first, row_sums<T>(partial));
        }
    }

    // The product of two rows of features, lane by lane.
    template <int N, bool WHOLE>
    static INLINE Vec<T> product(const S* a, const T* b, int64_t feats) {
        Vec<T> sum{};
        if constexpr (WHOLE) {
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) sum += load<T>(a + n * W) * load<T>(b + n * W);
        } else {
            for (int64_t f = 0; f < feats; f += W)
                sum += load<T>(a + f, feats - f) * load<T>(b + f);
        }
        return sum;
    }

    // Lanes without an edge or a head must have weight zero.
    void pad(int64_t count, T* scores) {
        std::fill(scores + count * period_, scores + lanes(count), T(-INFINITY));
    }

    void add_bias(int64_t count, T* scores) {
        const T* bias = static_cast<const T*>(call_.bias);
        for (int64_t e = 0; e < count; ++e)
            for (int64_t h = 0; h < heads_; ++h)
                scores[e * period_ + h] +=
                    bias[edges_[e].id * call_.bias_heads + (call_.bias_heads == 1 ? 0 : h)];
    }

    void drop(int64_t count, T* weights) {
        for (int64_t e = 0; e < count; ++e)
            for (int64_t h = 0; h < heads_; ++h)
                weights[e * period_ + h] *= dropout_factor<T>(call_, edges_[e].id, h);
    }

    // Update the largest score of each head, in every lane of the head, and write the factors of
    // the sums so far.
    void raise_top(int64_t count, const T* scores, T* top, T* factors) {
        const int64_t all = lanes(count);
        for (int64_t v = 0; v < vectors_; ++v) {
            const Vec<T> before = load<T>(top + v * W);
            Vec<T> now = before;
            for (int64_t first = v * W; first < all; first += vectors_ * W)
                now = larger<T>(load<T>(scores + first), now);
            if (period_ < W) now = fold(now, [](T a, T b) { return b > a ? b : a; });
            store<T>(top + v * W, now);
            store<T>(factors + v * W, exp<T>(before - above_nothing<T>(now)));
        }
    }

    // Combine the lanes of each head, with the result in all of them.
    template <class F>
    Vec<T> fold(Vec<T> v, F combine) const {
        T lane[W];
        store<T>(lane, v);
        for (int64_t l = period_; l < W; ++l)
            lane[head_of(l)] = combine(lane[head_of(l)], lane[l]);
        for (int64_t l = period_; l < W; ++l) lane[l] = lane[head_of(l)];
        return load<T>(lane);
    }

    void exponentials(int64_t count, T* scores, const T* top, const T* factors, T* total) {
        const int64_t all = lanes(count);
        for (int64_t v = 0; v < vectors_; ++v) {
            const Vec<T> shift = above_nothing<T>(load<T>(top + v * W));
            Vec<T> sum = load<T>(total + v * W) * load<T>(factors + v * W);
            for (int64_t first = v * W; first < all; first += vectors_ * W) {
                const Vec<T> e = exp<T>(load<T>(scores + first) - shift);
                store<T>(scores + first, e);
                sum += e;
            }
            store<T>(total + v * W, sum);
        }
    }

    void scale_heads(T* sums, const T* factors, int64_t width) {
        for (int64_t h = 0; h < heads_; ++h)
            for (int64_t f = 0; f < width; ++f) sums[h * width + f] *= factors[h];
    }

    void finish(int64_t row, T* sums, const T* top, T* total, bool& finite) {
        if (period_ < W)
            store<T>(total, fold(load<T>(total), [](T a, T b) { return a + b; }));
        for (int64_t h = 0; h < heads_; ++h) {
            const T inverse = total[h] == 0 ? T(0) : 1 / total[h];
            T* of_head = sums + h * value_width_;
            T bad = 0;
            for (int64_t f = 0; f < value_width_; ++f) {
                of_head[f] *= inverse;
                bad += of_head[f] - of_head[f];
            }
            finite = finite && bad == 0 && (total[h] != 0 || call_.may_be_dead(call_.node(row)));
            store(call_.out.at<S>(row, h), of_head, call_.value_feats);
            T* own = static_cast<T*>(call_.softmax) + 2 * (row * heads_ + h);
            own[0] = total[h] == 0 ? T(INFINITY) : top[h], own[1] = inverse;
        }
    }

    // sums[h] += sum over e of weights[e, h] table[other[e], h]
    void add_weighted(const T* weights, const Rows& table, int64_t feats, int64_t width,
                      int64_t count, T* sums) {
        if (feats == W) return add_heads<8, 1>(weights, table, width, count, sums);
        if (feats == 2 * W) return add_heads<4, 2>(weights, table, width, count, sums);
        if (feats == 4 * W) return add_heads<2, 4>(weights, table, width, count, sums);
        for (int64_t e = 0; e < count; ++e)
            for (int64_t h = 0; h < heads_; ++h) {
                const S* at = table.at<S>(edges_[e].other, h);
                const T weight = weights[edges_[e].slot * period_ + h];
                for (int64_t f = 0; f < feats; f += W) {
                    T* to = sums + h * width + f;
                    store<T>(to, load<T>(to) + weight * load<T>(at + f, feats - f));
                }
            }
    }

    template <int H, int N>
    void add_heads(const T* weights, const Rows& table, int64_t width, int64_t count, T* sums) {
        int64_t h = 0;
        for (; h + H <= heads_; h += H) add_some<H, N>(weights, table, width, count, sums, h);
        for (; h < heads_; ++h) add_some<1, N>(weights, table, width, count, sums, h);
    }

    template <int H, int N>
    INLINE void add_some(const T* weights, const Rows& table, int64_t width, int64_t count, T* sums,
                         int64_t first) {
        Vec<T> acc[H][N];
        for (int h = 0; h < H; ++h)
            for (int n = 0; n < N; ++n) acc[h][n] = load<T>(sums + (first + h) * width + n * W);
        for (int64_t e = 0; e < count; ++e) {
            const S* at = table.at<S>(edges_[e].other, first);
            const T* weight = weights + edges_[e].slot * period_ + first;
#pragma GCC unroll 8
            for (int h = 0; h < H; ++h)
#pragma GCC unroll 4
                for (int n = 0; n < N; ++n)
                    acc[h][n] += weight[h] * load<T>(at + h * table.head + n * W);
        }
        for (int h = 0; h < H; ++h)
            for (int n = 0; n < N; ++n) store<T>(sums + (first + h) * width + n * W, acc[h][n]);
    }

    void load_delta(int64_t row, const T* out_grad) {
        T* delta = delta_.zeros(lanes(1));
        T* top = top_.get(lanes(1));
        T* inverse = inverse_.zeros(lanes(1));
        std::fill(top, top + lanes(1), T(INFINITY));
        for (int64_t h = 0; h < heads_; ++h) {
            const S* out = call_.out.at<S>(row, h);
            for (int64_t f = 0; f < call_.value_feats; ++f)
                delta[h] += widen<T>(out[f]) * out_grad[h * value_width_ + f];
            const T* own = static_cast<const T*>(call_.softmax) + 2 * (row * heads_ + h);
            top[h] = own[0], inverse[h] = own[1];
        }
        for (int64_t l = period_; l < lanes(1); ++l) {
            delta[l] = delta[head_of(l)];
            top[l] = top[head_of(l)], inverse[l] = inverse[head_of(l)];
        }
        delta_lanes_ = delta, top_lanes_ = top, inverse_lanes_ = inverse;
    }

    // Replace scores and products by weights and gradients of the scores.
    void make_grads(int64_t count, T* scores, T* inner) {
        const int64_t all = lanes(count);
        T factors[W];
        for (int64_t first = 0; first < all; first += W) {
            const int64_t v = first / W % vectors_ * W;
            Vec<T> factor = splat<T>(1);
            if (call_.threshold) {
                for (int l = 0; l < W; ++l) {
                    const int64_t e = edge_of(first + l), h = head_of(first + l);
                    factors[l] = e < count ? dropout_factor<T>(call_, edges_[e].id, h) : T(0);
                }
                factor = load<T>(factors);
            }
            const Vec<T> below = load<T>(scores + first) - load<T>(top_lanes_ + v);
            const Vec<T> weight = exp<T>(below) * load<T>(inverse_lanes_ + v);
            const Vec<T> grad = load<T>(inner + first) * factor - load<T>(delta_lanes_ + v);
            store<T>(scores + first, weight * factor);
            store<T>(inner + first, weight * grad);
        }
    }

    void give_bias_grads(int64_t count, const T* grads) {
        T* bias_grad = static_cast<T*>(call_.bias_grad);
        for (int64_t e = 0; e < count; ++e)
            for (int64_t h = 0; h < heads_; ++h)
                bias_grad[edges_[e].id * heads_ + h] = grads[e * period_ + h];
    }

    void gather_and_add(int64_t source, const T* weights, const Rows& table, int64_t feats,
                        int64_t width, const Rows& to, T factor, bool adds) {
        T* sums = sums_.zeros(heads_ * width);
        add_weighted(weights, table, feats, width, static_cast<int64_t>(edges_.size()), sums);
        for (int64_t h = 0; h < heads_; ++h)
            for (int64_t f = 0; f < width; ++f) {
                T* sum = to.at<T>(source, h) + f;
                *sum = (adds ? *sum : T(0)) + factor * sums[h * width + f];
            }
    }

    const Call& call_;
    const int64_t heads_, shift_, period_, vectors_, key_width_, value_width_;
    const bool far_;
    const T *delta_lanes_ = nullptr, *top_lanes_ = nullptr, *inverse_lanes_ = nullptr;
    std::vector<Edge> edges_;
    Buffer<T> query_, out_grad_, sums_, scores_, inner_, top_, total_, factors_, delta_,
        inverse_;
};

template <class S, class T>
bool row_forward(const Call& call) {
    bool finite = true;
#pragma omp parallel num_threads(call.threads) reduction(&& : finite)
    {
        RowKernel<S, T> kernel(call);
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < call.rows; ++row) kernel.forward(row, finite);
    }
    return finite;
}

// Rows from `first` to `last`, with all their edges in memory at a time. Either their tables fit the
// cache, or a source has several edges among them: its gradients are read and written once a stretch.
struct Stretch {
    int64_t first, last;
};

constexpr int64_t STRETCH_EDGES = 32768, EDGES_OF_SOURCE = 8;

// The index of the first edge of each row, relative to the first row.
inline std::vector<int64_t> first_slots(const Call& call) {
    std::vector<int64_t> slots(call.rows + 1, 0);
    for (int64_t row = 0; row < call.rows; ++row)
        slots[row + 1] = slots[row] + call.degree(call.node(row));
    return slots;
}

inline std::vector<Stretch> make_stretches(const std::vector<int64_t>& slots, int64_t sources) {
    std::vector<Stretch> stretches;
    const int64_t most = std::max(STRETCH_EDGES, EDGES_OF_SOURCE * sources);
    const int64_t rows = static_cast<int64_t>(slots.size()) - 1;
    for (int64_t from = 0, to; from < rows; from = to) {
        for (to = from + 1; to < rows && slots[to + 1] - slots[from] <= most;) ++to;
        stretches.push_back({from, to});
    }
    return stretches;
}

// The edges of a stretch of rows, sorted by source, then by row.
class Columns {
  public:
    Columns(const Call& call, const std::vector<int64_t>& slots) : call_(call), slots_(slots) {
        if (call.column_start) {
            places_.assign(call.nodes, {-1, 0});
            for (int64_t row = 0; row < call.rows; ++row) {
                const int64_t node = call.node(row);
                places_[node] = {row, slots[row] - call.start[node]};
            }
            next_.assign(call.column_start, call.column_start + call.sources);
        }
    }

    // Call this once for each stretch, in order.
    void advance(Stretch stretch) {
        stretch_ = stretch;
        if (!call_.column_start) sort_edges();
    }

    // Advance in the transposed layout from stretch to stretch. Without one, the edges have just
    // been sorted.
    void list(int64_t source, std::vector<Edge>& edges) {
        edges.clear();
        if (!call_.column_start) {
            edges.assign(edges_.begin() + next_[source], edges_.begin() + next_[source + 1]);
            return;
        }
        const int64_t last_node = call_.node(stretch_.last - 1);
        const int64_t first_slot = slots_[stretch_.first];
        int64_t c = next_[source];
        for (; c < call_.column_start[source + 1] && call_.column_node[c] <= last_node; ++c) {
            const Place place = places_[call_.column_node[c]];
            if (place.row >= 0)
                edges.push_back({place.row, 0, place.to_slot + call_.column_edge[c] - first_slot});
        }
        next_[source] = c;
    }

  private:
    // The row of a node, or -1, and the offset from a canonical edge to its slot.
    struct Place {
        int64_t row, to_slot;
    };

    int64_t slot(int64_t row) const { return slots_[row] - slots_[stretch_.first]; }

    template <class F>
    void each_edge(F use) const {
        for (int64_t row = stretch_.first; row < stretch_.last; ++row) {
            const int64_t node = call_.node(row);
            for (int64_t e = 0; e < call_.degree(node); ++e) {
                const int64_t place = call_.start[node] + e;
                use(call_.indices ? call_.indices[place] : place, row, slot(row) + e);
            }
        }
    }

    // A counting sort.
    void sort_edges() {
        next_.assign(call_.sources + 1, 0);
        edges_.resize(slots_[stretch_.last] - slots_[stretch_.first]);
        each_edge([&](int64_t source, int64_t, int64_t) { ++next_[source + 1]; });
        for (int64_t j = 0; j < call_.sources; ++j) next_[j + 1] += next_[j];
        std::vector<int64_t> free(next_.begin(), next_.end() - 1);
        each_edge([&](int64_t source, int64_t row, int64_t slot) {
            edges_[free[source]++] = {row, 0, slot};
        });
    }

    const Call& call_;
    const std::vector<int64_t>& slots_;
    Stretch stretch_{0, 0};
    std::vector<Place> places_;
    std::vector<int64_t> next_;
    std::vector<Edge> edges_;
};

template <class S, class T>
void row_backward(const Call& call) {
    const std::vector<int64_t> slots = first_slots(call);
    const std::vector<Stretch> stretches = make_stretches(slots, call.sources);
    Columns columns(call, slots);
    int64_t most = 0;
    for (const Stretch& s : stretches) most = std::max(most, slots[s.last] - slots[s.first]);
    const int64_t period = RowKernel<S, T>::period(call.heads);
    Buffer<T> weight_table, grad_table;
    T* weights = weight_table.get(most * period);
    T* grads = grad_table.get(most * period);
#pragma omp parallel num_threads(call.threads)
    {
        RowKernel<S, T> kernel(call);
        std::vector<Edge> edges;
        for (const Stretch& stretch : stretches) {
#pragma omp single
            columns.advance(stretch);
#pragma omp for schedule(dynamic, 16)
            for (int64_t row = stretch.first; row < stretch.last; ++row) {
                const int64_t at = (slots[row] - slots[stretch.first]) * period;
                kernel.backward_row(row, weights + at, grads + at);
            }
#pragma omp for schedule(dynamic, 16)
            for (int64_t source = 0; source < call.sources; ++source) {
                columns.list(source, edges);
                const bool adds = call.adds || stretch.first > 0;
                if (!adds || !edges.empty())
                    kernel.backward_source(source, edges, weights, grads, adds);
            }
        }
    }
}

}  // namespace graphut
