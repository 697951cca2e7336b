// Attention over lists of sources if a source has many edges: keys and values are packed first, in the
// order of `HeadLanes`.
#pragma once

#include "heads.h"
#include "rows.h"

namespace graphut {

constexpr int64_t NEAREST = 24 << 10;  // bytes of a piece, which the backward pass reads twice

// The packed tables of a call, shared by all threads.
template <class S, class T>
class PackedTables {
  public:
    PackedTables(const Call& call, bool backward)
        : call_(call), order_(call.heads), key_(order_.width(call.key_feats)),
          value_(order_.width(call.value_feats)) {
        keys = keys_.get(call.sources * key_);
        values = values_.get(call.sources * value_);
        if (!backward) return;
        queries = queries_.get(call.rows * key_);
        out_grads = out_grads_.get(call.rows * value_);
        stats = stats_.get(call.rows * 3 * order_.width(1));
    }

    // Pack keys and values; call this in all threads.
    void pack() const {
#pragma omp for schedule(static)
        for (int64_t j = 0; j < call_.sources; ++j) {
            order_.template pack<S>(call_.key, j, call_.key_feats, T(1), keys + j * key_);
            order_.template pack<S>(call_.value, j, call_.value_feats, T(1), values + j * value_);
        }
    }

    T *keys, *values;
    // For the backward pass, which fills them by row. Three vectors of heads for each row: the largest
    // scores, the inverse sums, and the corrections in the gradient of the softmax (see `make_delta`).
    T *queries = nullptr, *out_grads = nullptr, *stats = nullptr;

  private:
    const Call& call_;
    const HeadLanes<T> order_;
    const int64_t key_, value_;
    Buffer<T> keys_, values_, queries_, out_grads_, stats_;
};

template <class S, class T>
class PackedKernel : RowKernel<S, T> {
    using Base = RowKernel<S, T>;
    using Base::call_, Base::edges_, Base::heads_, Base::period_, Base::far_, Base::lanes;
    static constexpr int W = LANES<T>;

  public:
    PackedKernel(const Call& call, const PackedTables<S, T>& tables)
        : Base(call), tables_(tables), order_(call.heads), keys_(order_.width(call.key_feats)),
          values_(order_.width(call.value_feats)),
          piece_(std::clamp<int64_t>(
              NEAREST / (static_cast<int64_t>(sizeof(T)) * (keys_ + values_)) / 4 * 4, 8, PIECE)) {}

    void forward(int64_t row, bool& finite) {
        const int64_t node = call_.node(row), degree = call_.degree(node);
        T* query = this->query_.get(keys_);
        order_.template pack<S>(call_.query, row, call_.key_feats, static_cast<T>(call_.scale), query);
        T* sums = this->sums_.zeros(values_);
        T* scores = this->scores_.get(room(std::min(degree, PIECE)));
        T* top = this->top_.get(lanes(1));
        T* total = this->total_.zeros(lanes(1));
        T* factors = this->factors_.get(lanes(1));
        std::fill(top, top + lanes(1), T(-INFINITY));
        for (int64_t from = 0; from < degree; from += PIECE) {
            const EdgeList edges = in_edges(node, from, std::min(PIECE, degree - from));
            order_.products(query, tables_.keys, keys_, edges, scores);
            if (call_.bias) this->add_bias(edges.count, scores);
            this->pad(edges.count, scores);
            this->raise_top(edges.count, scores, top, factors);
            this->exponentials(edges.count, scores, top, factors, total);
            if (from) order_.scale(sums, factors, values_);
            if (call_.threshold) this->drop(edges.count, scores);
            order_.add_weighted(scores, tables_.values, values_, edges, sums);
        }
        finish(row, sums, top, total, finite);
    }

    // Write the gradients of a query and of biases, and the tables for `backward_source`.
    void backward_row(int64_t row) {
        const int64_t node = call_.node(row), degree = call_.degree(node);
        T *query = tables_.queries + row * keys_, *out_grad = tables_.out_grads + row * values_;
        order_.template pack<S>(call_.query, row, call_.key_feats, static_cast<T>(call_.scale), query);
        order_.template pack<S>(call_.out_grad, row, call_.value_feats, T(1), out_grad);
        make_stats(row, out_grad);
        T* sums = this->sums_.zeros(keys_);
        for (int64_t from = 0; from < degree; from += piece_) {
            const EdgeList edges = in_edges(node, from, std::min(piece_, degree - from));
            rows_.assign(edges.count, row);
            make_grads({query, tables_.keys}, {out_grad, tables_.values}, edges, rows_.data());
            order_.add_weighted(grads_, tables_.keys, keys_, edges, sums);
            if (call_.bias_grad) this->give_bias_grads(edges.count, grads_);
        }
        for (int64_t i = 0; i < keys_; ++i) sums[i] *= static_cast<T>(call_.scale);
        const T* by_head = unpack(sums, call_.key_feats);
        for (int64_t h = 0; h < heads_; ++h)
            store(call_.query_grad.template at<S>(row, h), by_head + h * round_up(call_.key_feats, W),
                  call_.key_feats);
    }

    // Add the gradients of edges to the gradients of a source, or write them. The scores are computed
    // again: a table of all weights would be read in random order.
    void backward_source(int64_t source, const EdgeList& edges) {
        if (call_.adds && !edges.count) return;
        T* key_sums = this->sums_.zeros(keys_);
        T* value_sums = value_sums_.zeros(values_);
        const Meeting keys{tables_.keys + source * keys_, tables_.queries};
        const Meeting values{tables_.values + source * values_, tables_.out_grads};
        for (int64_t from = 0; from < edges.count; from += piece_) {
            const int64_t count = std::min(piece_, edges.count - from);
            const EdgeList piece{edges.at + from, edges.edge + from, count};
            prefetch(piece, keys.table, values.table);
            list_ids(count, [&](int64_t e) {
                return call_.edge_ids ? call_.edge_ids[piece.edge[e]] : piece.edge[e];
            });
            make_grads(keys, values, piece, piece.at);
            order_.add_weighted(weights_, values.table, values_, piece, value_sums);
            order_.add_weighted(grads_, keys.table, keys_, piece, key_sums);
        }
        give_source(value_sums, call_.value_feats, call_.value_grad, source);
        give_source(key_sums, call_.key_feats, call_.key_grad, source);
    }

  private:
    template <class F>
    void list_ids(int64_t count, F id) {
        if (!call_.bias && !call_.threshold) return;
        edges_.resize(count);
        for (int64_t e = 0; e < count; ++e) edges_[e].id = id(e);
    }

    // The entries of a table of scores, with those that `HeadLanes` touches at its end.
    int64_t room(int64_t edges) const { return round_up(edges, 4) * period_ + W; }

    EdgeList in_edges(int64_t node, int64_t from, int64_t count) {
        list_ids(count, [&](int64_t e) { return call_.edge_id(node, from + e); });
        const EdgeList edges{call_.indices + call_.start[node] + from, nullptr, count};
        prefetch(edges, tables_.keys, tables_.values);
        return edges;
    }

    // Prefetch rows if no cache holds the tables, so that many are loaded at the same time.
    void prefetch(const EdgeList& edges, const T* keys, const T* values) const {
        constexpr int64_t line = LINE / static_cast<int64_t>(sizeof(T));
        for (int64_t e = 0; far_ && e < edges.count; ++e) {
            for (int64_t i = 0; i < keys_; i += line)
                __builtin_prefetch(keys + edges.at[e] * keys_ + i);
            for (int64_t i = 0; i < values_; i += line)
                __builtin_prefetch(values + edges.at[e] * values_ + i);
        }
    }

    const T* unpack(const T* packed, int64_t feats) {
        T* by_head = row_.get(heads_ * round_up(feats, W));
        order_.unpack(packed, feats, by_head);
        return by_head;
    }

    void finish(int64_t row, T* sums, const T* top, T* total, bool& finite) {
        if (period_ < W)
            store<T>(total, this->fold(load<T>(total), [](T a, T b) { return a + b; }));
        T* inverse = this->factors_.get(lanes(1));
        for (int64_t l = 0; l < lanes(1); ++l) inverse[l] = total[l] == 0 ? T(0) : 1 / total[l];
        order_.scale(sums, inverse, values_);
        Vec<T> bad{};
        for (int64_t i = 0; i < values_; i += W) bad += load<T>(sums + i) - load<T>(sums + i);
        finite = finite && lane_sum<T>(bad) == 0;
        const T* by_head = unpack(sums, call_.value_feats);
        T* own = static_cast<T*>(call_.softmax) + 2 * row * heads_;
        for (int64_t h = 0; h < heads_; ++h) {
            store(call_.out.template at<S>(row, h), by_head + h * round_up(call_.value_feats, W),
                  call_.value_feats);
            finite = finite && (total[h] != 0 || call_.may_be_dead(call_.node(row)));
            own[2 * h] = total[h] == 0 ? T(INFINITY) : top[h], own[2 * h + 1] = inverse[h];
        }
    }

    void make_stats(int64_t row, const T* out_grad) {
        T* out = out_.get(values_);
        T* delta = this->delta_.get(room(1));
        T* stats = tables_.stats + row * 3 * lanes(1);
        const int64_t first = 0;
        order_.template pack<S>(call_.out, row, call_.value_feats, T(1), out);
        order_.products(out, out_grad, values_, {&first, nullptr, 1}, delta);
        const T* own = static_cast<const T*>(call_.softmax) + 2 * row * heads_;
        for (int64_t h = 0; h < period_; ++h) {
            stats[h] = h < heads_ ? own[2 * h] : T(INFINITY);
            stats[lanes(1) + h] = h < heads_ ? own[2 * h + 1] : T(0);
            stats[2 * lanes(1) + h] = delta[h];
        }
    }

    // A row, and a table of rows that meet it.
    struct Meeting {
        const T *row, *table;
    };

    // Write the weights of edges, `weights_`, and the gradients of their scores, `grads_`. A query
    // meets keys, and its output gradient values; or a key queries, and its value output gradients.
    void make_grads(Meeting keys, Meeting values, const EdgeList& edges, const int64_t* rows) {
        const int64_t count = edges.count, size = room(count);
        T *weights = this->scores_.get(size), *grads = this->inner_.get(size);
        weights_ = weights, grads_ = grads;
        T *top = this->top_.get(size), *inverse = inverse_.get(size), *delta = this->delta_.get(size);
        for (int64_t e = 0; e < count; ++e)
            for (int64_t l = 0; l < period_; l += W) {
                const T* stats = tables_.stats + rows[e] * 3 * lanes(1) + l;
                store<T>(top + e * period_ + l, load<T>(stats));
                store<T>(inverse + e * period_ + l, load<T>(stats + lanes(1)));
                store<T>(delta + e * period_ + l, load<T>(stats + 2 * lanes(1)));
            }
        order_.products(keys.row, keys.table, keys_, edges, weights);
        if (call_.bias) this->add_bias(count, weights);
        order_.products(values.row, values.table, values_, edges, grads);
        T* factors = call_.threshold ? this->factors_.get(size) : nullptr;
        if (factors) {
            std::fill(factors, factors + count * period_, T(1));
            this->drop(count, factors);
        }
        for (int64_t l = 0; l < count * period_; l += W) {
            const Vec<T> factor = factors ? load<T>(factors + l) : splat<T>(1);
            const Vec<T> below = load<T>(weights + l) - load<T>(top + l);
            const Vec<T> weight = exp<T>(below) * load<T>(inverse + l);
            const Vec<T> grad = load<T>(grads + l) * factor - load<T>(delta + l);
            store<T>(weights + l, weight * factor);
            store<T>(grads + l, weight * grad);
        }
    }

    // Add a packed gradient to the gradient of a source, or write it.
    void give_source(const T* packed, int64_t feats, const Rows& to, int64_t source) {
        const int64_t width = round_up(feats, W);
        const T* by_head = unpack(packed, feats);
        for (int64_t h = 0; h < heads_; ++h)
            for (int64_t f = 0; f < width; f += W) {
                T* sum = to.template at<T>(source, h) + f;
                const Vec<T> own = load<T>(by_head + h * width + f);
                store<T>(sum, call_.adds ? load<T>(sum) + own : own);
            }
    }

    const PackedTables<S, T>& tables_;
    HeadLanes<T> order_;
    const int64_t keys_, values_;  // entries of a packed row
    std::vector<int64_t> rows_;
    const int64_t piece_;  // edges in memory at a time in the backward pass
    const T *weights_ = nullptr, *grads_ = nullptr;
    Buffer<T> out_, row_, value_sums_, inverse_;
};

template <class S, class T>
bool packed_forward(const Call& call) {
    bool finite = true;
    const PackedTables<S, T> tables(call, false);
#pragma omp parallel num_threads(call.threads) reduction(&& : finite)
    {
        tables.pack();
        PackedKernel<S, T> kernel(call, tables);
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < call.rows; ++row) kernel.forward(row, finite);
    }
    return finite;
}

template <class S, class T>
void packed_backward(const Call& call) {
    const PackedTables<S, T> tables(call, true);
    std::vector<int64_t> row_of(call.frontier ? call.nodes : 0, -1);
    for (int64_t row = 0; call.frontier && row < call.rows; ++row) row_of[call.node(row)] = row;
#pragma omp parallel num_threads(call.threads)
    {
        tables.pack();
        PackedKernel<S, T> kernel(call, tables);
        std::vector<int64_t> rows, edges;
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < call.rows; ++row) kernel.backward_row(row);
#pragma omp for schedule(dynamic, 16)
        for (int64_t source = 0; source < call.sources; ++source) {
            const int64_t first = call.column_start[source], last = call.column_start[source + 1];
            EdgeList list{call.column_node + first, call.column_edge + first, last - first};
            if (call.frontier) {
                rows.clear(), edges.clear();
                for (int64_t e = 0; e < last - first; ++e)
                    if (const int64_t row = row_of[list.at[e]]; row >= 0)
                        rows.push_back(row), edges.push_back(list.edge[e]);
                list = {rows.data(), edges.data(), static_cast<int64_t>(rows.size())};
            }
            kernel.backward_source(source, list);
        }
    }
}

}  // namespace graphut
