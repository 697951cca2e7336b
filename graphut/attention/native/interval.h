// Attention if the sources of each row are consecutive (a run): blocks of rows attend to the union of
// their runs. The lanes of a vector are rows for scores, and features for sums of values, so that no
// sum is over the lanes of a vector. P is the type of the factors in products: a number, or a pair of
// them; scores, softmax and sums are of type Sum<P>.
#pragma once

#include "blocks.h"
#include "packed.h"

namespace graphut {

constexpr int64_t TILE_ROWS = 512;   // largest number of rows that share packed keys and values
constexpr int64_t BLOCK_ROWS = 32;   // a multiple of the rows of every block
constexpr int64_t STRETCH = 128;     // sources with scores in memory at a time

// Consecutive rows, and the union [low, high) of their runs.
struct Tile {
    int64_t first, last, low, high;
    bool begins;  // whether no earlier tile shares a source with this or a later one
};

// Cut rows with monotone runs (`start` and `stop` never decrease) into tiles. When a window has moved
// far, a new tile begins, without the sources of the first rows.
inline std::vector<Tile> make_tiles(const Call& call) {
    std::vector<Tile> tiles;
    int64_t reached = 0;  // sources from here on belong to no earlier tile
    for (int64_t row = 0; row < call.rows; ++row) {
        const int64_t node = call.node(row), low = call.start[node], high = call.stop[node];
        const bool empty = low == high;
        const bool apart = tiles.empty() || (!empty && low >= reached);
        const int64_t rows = apart ? 0 : row - tiles.back().first;
        const bool far = !apart && !empty && high - tiles.back().low > 2 * (high - low);
        if (apart || rows == TILE_ROWS || (far && rows % BLOCK_ROWS == 0))
            tiles.push_back({row, row, empty ? reached : low, empty ? reached : high, apart});
        Tile& tile = tiles.back();
        tile.last = row + 1;
        if (!empty) {
            tile.low = tile.low == tile.high ? low : std::min(tile.low, low);
            tile.high = std::max(tile.high, high);
            reached = std::max(reached, high);
        }
    }
    return tiles;
}

// The factors of a tile; `out_grads` are of the backward pass alone.
template <class P>
struct Inputs {
    Packed<P> keys, values, queries, out_grads;
};

template <class P>
struct InputBuffers {
    Buffer<P> keys, values, queries, out_grads;
};

template <class P>
struct Scratch {
    InputBuffers<P> inputs, paired;
    Buffer<P> query_lanes, grad_lanes, weights;
    Buffer<Sum<P>> key_grads, value_grads, results, delta, scores, grads;
};

// A block of G vectors of rows.
template <class P, int G>
class Block {
    using T = Sum<P>;
    static constexpr int W = LANES<T>;
    static constexpr int R = G * W;

  public:
    Block(const Call& call, const Tile& tile, int64_t head, int64_t first, int64_t count,
          Scratch<P>& scratch)
        : call_(call), scratch_(scratch), head_(head), first_(first), row_(first - tile.first),
          count_(count), key_width_(round_up(call.key_feats, W)),
          value_width_(round_up(call.value_feats, W)) {
        low_ = full_high_ = tile.high, high_ = full_low_ = base_ = tile.low;
        for (int64_t r = 0; r < count; ++r) {
            const int64_t node = call.node(first + r);
            nodes_[r] = node;
            runs_low_[r] = static_cast<Int<T>>(call.start[node] - tile.low);
            runs_high_[r] = static_cast<Int<T>>(call.stop[node] - tile.low);
            full_low_ = std::max(full_low_, call.start[node]);
            full_high_ = std::min(full_high_, call.stop[node]);
            if (call.start[node] == call.stop[node]) continue;
            low_ = std::min(low_, call.start[node]);
            high_ = std::max(high_, call.stop[node]);
        }
        for (int64_t r = count; r < R; ++r) runs_low_[r] = 0, runs_high_[r] = 0;
        // Whole pairs of the tile's sources; no row attends to a source that this adds.
        low_ = base_ + (low_ - base_) / TERMS<P> * TERMS<P>;
        high_ = base_ + round_up(high_ - base_, TERMS<P>);
    }

    // The tables of head `h` of the tile; `paired` are those for sums over rows. Writes `out`.
    void forward(const Inputs<P>& in, const Inputs<P>& paired, int64_t h, T* out, bool& finite) {
        load_query(in.queries, h);
        T* scores = scratch_.scores.get(STRETCH * R);
        T* sums = zeros(out, value_width_);
        Vec<T> top[G], total[G];
        for (int g = 0; g < G; ++g) top[g] = splat<T>(-INFINITY), total[g] = Vec<T>{};
        for (int64_t from = low_; from < high_; from += STRETCH) {
            const int64_t to = std::min(high_, from + STRETCH);
            make_scores(in.keys, h, from, to, scores);
            make_weights(scores, from, to, top, total, sums);
            weighted_sums<P>(for_rows(scores, to - from), at(paired.values, h, from), value_width_,
                             (to - from) / TERMS<P>, sums, value_width_, count_, value_width_ / W);
        }
        finish(sums, top, total, finite);
    }

    // Write the softmax statistics. In a later part, first combine them, and `out`, with the results
    // of the earlier parts.
    template <class S>
    void store_softmax(T* out) {
        for (int64_t r = 0; r < count_; ++r) {
            T* own = softmax(r);
            if (call_.later && own[1] != 0) {
                const T top = inverse_[r] == 0 ? own[0] : std::max(own[0], top_[r]);
                const T before = std::exp(own[0] - top) / own[1];
                const T here = inverse_[r] == 0 ? T(0) : std::exp(top_[r] - top) / inverse_[r];
                T* row = out + (row_ + r) * value_width_;
                const S* earlier = call_.out.at<S>(call_.out.place(first_ + r), head_);
                top_[r] = top, inverse_[r] = 1 / (before + here);
                for (int64_t f = 0; f < call_.value_feats; f += W)
                    store<T>(row + f, load<T>(row + f) * (here * inverse_[r]) +
                                          load<T>(earlier + f, call_.value_feats - f) *
                                              (before * inverse_[r]));
            }
            own[0] = top_[r], own[1] = inverse_[r];
        }
    }

    // The same as `forward`. Writes `query_grad`, and adds to the gradients of sources.
    void backward(const Inputs<P>& in, const Inputs<P>& paired, int64_t h, const T* delta,
                  int64_t delta_stride, T* query_grad, T* key_grads, T* value_grads) {
        load_query(in.queries, h);
        load_out_grad(in.out_grads, h, delta, delta_stride);
        const P* query = paired.queries.row(h, row_ / TERMS<P>);
        const P* out_grad = paired.out_grads.row(h, row_ / TERMS<P>);
        const int64_t rows = round_up(count_, TERMS<P>) / TERMS<P>;
        T* scores = scratch_.scores.get(STRETCH * R);
        T* grads = scratch_.grads.get(STRETCH * R);
        T* sums = zeros(query_grad, key_width_);
        for (int64_t from = low_; from < high_; from += STRETCH) {
            const int64_t to = std::min(high_, from + STRETCH), n = to - from;
            make_scores(in.keys, h, from, to, scores);
            make_grads(in.values, h, from, to, scores, grads);
            if (call_.bias_grad) give_bias_grads(grads, from, to);
            weighted_sums<P>(for_sources(scores, n), out_grad, value_width_, rows,
                             value_grads + (from - base_) * value_width_, value_width_, n,
                             value_width_ / W);
            weighted_sums<P>(for_sources(grads, n), query, key_width_, rows,
                             key_grads + (from - base_) * key_width_, key_width_, n,
                             key_width_ / W);
            weighted_sums<P>(for_rows(grads, n), at(paired.keys, h, from), key_width_,
                             n / TERMS<P>, sums, key_width_, count_, key_width_ / W);
        }
        for (int64_t f = 0; f < count_ * key_width_; ++f) sums[f] *= static_cast<T>(call_.scale);
    }

  private:
    T* zeros(T* rows, int64_t width) const {
        T* own = rows + row_ * width;
        std::fill(own, own + count_ * width, T(0));
        return own;
    }

    T* softmax(int64_t r) const {
        const int64_t row = call_.query.place(first_ + r);
        return static_cast<T*>(call_.softmax) + 2 * (row * call_.heads + head_);
    }

    // The row of a source in a table for sums over rows.
    const P* at(Packed<P> paired, int64_t h, int64_t source) const {
        return paired.row(h, (source - base_) / TERMS<P>);
    }

    void load_query(Packed<P> queries, int64_t h) {
        query_lanes_ = scratch_.query_lanes.get(R * round_up(queries.width, W));
        to_lanes(queries.row(h, row_), queries.width, query_lanes_);
    }

    void load_out_grad(Packed<P> out_grads, int64_t h, const T* delta, int64_t delta_stride) {
        grad_lanes_ = scratch_.grad_lanes.get(R * round_up(out_grads.width, W));
        to_lanes(out_grads.row(h, row_), out_grads.width, grad_lanes_);
        for (int64_t r = 0; r < R; ++r) {
            delta_[r] = r < count_ ? delta[(row_ + r) * delta_stride] : T(0);
            top_[r] = r < count_ ? softmax(r)[0] : T(INFINITY);
            inverse_[r] = r < count_ ? softmax(r)[1] : T(0);
        }
    }

    // Transpose rows to (features, rows), with rows as lanes.
    static void to_lanes(const P* rows, int64_t width, P* lanes) {
        for (int g = 0; g < G; ++g)
            for (int64_t f = 0; f < width; f += W) {
                Vec<P> square[W];
#pragma GCC unroll 16
                for (int i = 0; i < W; ++i) square[i] = load<P>(rows + (g * W + i) * width + f);
                transpose<P>(square);
#pragma GCC unroll 16
                for (int i = 0; i < W; ++i) store<P>(lanes + (f + i) * R + g * W, square[i]);
            }
    }

    // (sources, rows): -inf if the row does not attend to the source
    void make_scores(Packed<P> keys, int64_t h, int64_t from, int64_t to, T* scores) {
        products<SOURCES>(keys.row(h, from - base_), keys.width, query_lanes_, to - from,
                          static_cast<T>(call_.scale), scores);
        if (call_.bias) add_bias(from, to, scores);
        mask(from, std::min(to, full_low_), from, scores);
        mask(std::max({from, full_high_, std::min(to, full_low_)}), to, from, scores);
    }

    // out[j] = of[j] . lanes over `width` features, or pairs of them times the scale
    template <int K>
    static NOINLINE void products(const P* of, int64_t width, const P* lanes, int64_t count,
                                  T scale, T* out) {
        for (; count >= K; count -= K, of += K * width, out += K * R) {
            Vec<T> acc[K][G];
            dots<P, K, G>(of, width, lanes, width, acc);
            for (int k = 0; k < K; ++k)
                for (int g = 0; g < G; ++g)
                    store<T>(out + k * R + g * W, TERMS<P> > 1 ? acc[k][g] * scale : acc[k][g]);
        }
        if constexpr (K > 1)
            if (count) products<K / 2>(of, width, lanes, count, scale, out);
    }

    // The weights, (sources, rows), as factors in sums over the sources, for each row.
    Weights<P> for_rows(const T* weights, int64_t count) {
        if constexpr (TERMS<P> == 1) {
            return {weights, 1, R};
        } else {
            P* pairs = scratch_.weights.get(STRETCH * R / 2);
            for (int64_t j = 0; j < count; j += 2)
                for (int64_t r = 0; r < R; r += W) {
                    const T* own = weights + j * R + r;
                    const Vec<P> both = narrow(load<T>(own), load<T>(own + R));
                    store<P>(pairs + j / 2 * R + r, pair_halves(both));
                }
            return {pairs, 1, R};
        }
    }

    // The same as factors in sums over the rows, for each source.
    Weights<P> for_sources(const T* weights, int64_t count) {
        if constexpr (TERMS<P> == 1) {
            return {weights, R, 1};
        } else {
            P* pairs = scratch_.weights.get(STRETCH * R / 2);
            for (int64_t at = 0; at < count * R; at += 2 * W)
                store<P>(pairs + at / 2, narrow(load<T>(weights + at), load<T>(weights + at + W)));
            return {pairs, R / 2, 1};
        }
    }

    void mask(int64_t from, int64_t to, int64_t origin, T* scores) {
        for (int64_t j = from; j < to; ++j)
            for (int g = 0; g < G; ++g) {
                const IntVec<T> source = splat_int<T>(static_cast<Int<T>>(j - base_));
                IntVec<T> low, high;
                std::memcpy(&low, runs_low_ + g * W, sizeof low);
                std::memcpy(&high, runs_high_ + g * W, sizeof high);
                T* at = scores + (j - origin) * R + g * W;
                const IntVec<T> seen = (source >= low) & (source < high);
                store<T>(at, seen ? load<T>(at) : splat<T>(-INFINITY));
            }
    }

    bool sees(int64_t r, int64_t j) const {
        return j - base_ >= runs_low_[r] && j - base_ < runs_high_[r];
    }
    int64_t edge(int64_t r, int64_t j) const {
        return call_.edge_id(nodes_[r], j - base_ - runs_low_[r]);
    }

    template <class F>
    void each_edge(int64_t from, int64_t to, F use) {
        for (int64_t j = from; j < to; ++j)
            for (int64_t r = 0; r < count_; ++r)
                if (sees(r, j)) use(r, j, (j - from) * R + r);
    }

    void add_bias(int64_t from, int64_t to, T* scores) {
        const T* bias = static_cast<const T*>(call_.bias);
        const int64_t head = call_.bias_heads == 1 ? 0 : head_;
        each_edge(from, to, [&](int64_t r, int64_t j, int64_t at) {
            scores[at] += bias[edge(r, j) * call_.bias_heads + head];
        });
    }

    void drop(T* weights, int64_t from, int64_t to) {
        each_edge(from, to, [&](int64_t r, int64_t j, int64_t at) {
            weights[at] *= dropout_factor<T>(call_, edge(r, j), head_);
        });
    }

    void give_bias_grads(const T* grads, int64_t from, int64_t to) {
        T* bias_grad = static_cast<T*>(call_.bias_grad);
        each_edge(from, to, [&](int64_t r, int64_t j, int64_t at) {
            bias_grad[edge(r, j) * call_.heads + head_] = grads[at];
        });
    }

    // Replace scores by weights relative to the largest score so far, and rescale earlier sums.
    void make_weights(T* scores, int64_t from, int64_t to, Vec<T> (&top)[G], Vec<T> (&total)[G],
                      T* sums) {
        Vec<T> rescale[G];
        raise_top(scores, to - from, top, rescale);
        exponentials(scores, to - from, top, total, rescale);
        if (from > low_) scale_rows(sums, rescale);
        if (call_.threshold) drop(scores, from, to);
    }

    static void raise_top(const T* scores, int64_t count, Vec<T> (&top)[G], Vec<T> (&rescale)[G]) {
        Vec<T> now[G];
        for (int g = 0; g < G; ++g) now[g] = top[g];
        for (int64_t j = 0; j < count; ++j)
            for (int g = 0; g < G; ++g)
                now[g] = larger<T>(load<T>(scores + j * R + g * W), now[g]);
        for (int g = 0; g < G; ++g) {
            rescale[g] = exp<T>(top[g] - above_nothing<T>(now[g]));
            top[g] = now[g];
        }
    }

    static void exponentials(T* scores, int64_t count, const Vec<T> (&top)[G], Vec<T> (&total)[G],
                             const Vec<T> (&rescale)[G]) {
        Vec<T> shift[G];
        for (int g = 0; g < G; ++g) {
            shift[g] = above_nothing<T>(top[g]);
            total[g] *= rescale[g];
        }
        for (int64_t j = 0; j < count; ++j)
            for (int g = 0; g < G; ++g) {
                const Vec<T> e = exp<T>(load<T>(scores + j * R + g * W) - shift[g]);
                store<T>(scores + j * R + g * W, e);
                total[g] += e;
            }
    }

    void scale_rows(T* sums, const Vec<T> (&factors)[G]) {
        for (int64_t r = 0; r < count_; ++r) {
            const T factor = factors[r / W][r % W];
            if (factor == T(1)) continue;
            for (int64_t f = 0; f < value_width_; ++f) sums[r * value_width_ + f] *= factor;
        }
    }

    void finish(T* sums, const Vec<T> (&top)[G], const Vec<T> (&total)[G], bool& finite) {
        for (int64_t r = 0; r < count_; ++r) {
            const T sum = total[r / W][r % W], inverse = sum == 0 ? T(0) : 1 / sum;
            T* row = sums + r * value_width_;
            Vec<T> bad{};
            for (int64_t f = 0; f < value_width_; f += W) {
                const Vec<T> v = load<T>(row + f) * inverse;
                bad += v - v;  // NaN if v is not finite
                store<T>(row + f, v);
            }
            finite = finite && lane_sum<T>(bad) == 0 && (sum != 0 || call_.may_be_dead(nodes_[r]));
            top_[r] = sum == 0 ? T(INFINITY) : top[r / W][r % W], inverse_[r] = inverse;
        }
    }

    // Replace scores by weights, and compute the gradients of the scores.
    void make_grads(Packed<P> values, int64_t h, int64_t from, int64_t to, T* scores, T* grads) {
        products<SOURCES>(values.row(h, from - base_), values.width, grad_lanes_, to - from, T(1),
                          grads);
        T factors[R];
        for (int64_t j = from; j < to; ++j) {
            if (call_.threshold)
                for (int64_t r = 0; r < R; ++r)
                    factors[r] = r < count_ && sees(r, j)
                                     ? dropout_factor<T>(call_, edge(r, j), head_)
                                     : T(0);
            for (int g = 0; g < G; ++g) {
                const int64_t at = (j - from) * R + g * W;
                const Vec<T> below = load<T>(scores + at) - load<T>(top_ + g * W);
                const Vec<T> weight = exp<T>(below) * load<T>(inverse_ + g * W);
                const Vec<T> factor = call_.threshold ? load<T>(factors + g * W) : splat<T>(1);
                const Vec<T> inner = load<T>(grads + at) * factor - load<T>(delta_ + g * W);
                store<T>(scores + at, weight * factor);
                store<T>(grads + at, weight * inner);
            }
        }
    }

    const Call& call_;
    Scratch<P>& scratch_;
    const int64_t head_, first_, row_, count_, key_width_, value_width_;
    int64_t base_, low_, high_, full_low_, full_high_;
    int64_t nodes_[R];
    Int<T> runs_low_[R], runs_high_[R];
    T top_[R], inverse_[R], delta_[R];
    P *query_lanes_ = nullptr, *grad_lanes_ = nullptr;
};

// Call `use` for each block of rows of a tile.
template <class P, class F>
void each_block(const Call& call, const Tile& tile, int64_t head, Scratch<P>& scratch, F use) {
    constexpr int64_t W = LANES<P>;
    int64_t row = tile.first;
    for (; tile.last - row > W; row += 2 * W) {
        Block<P, 2> block(call, tile, head, row, std::min(2 * W, tile.last - row), scratch);
        use(block);
    }
    if (row < tile.last) {
        Block<P, 1> block(call, tile, head, row, tile.last - row, scratch);
        use(block);
    }
}

// The correction in the gradient of the softmax, (rows, heads): the sum over a row's edges of weight
// times gradient of the weight, which equals the dot product of the output and its gradient.
template <class S, class T>
const T* make_delta(const Call& call, const Tile& tile, Heads heads, Buffer<T>& buffer) {
    constexpr int W = LANES<T>;
    const int64_t pairs = (tile.last - tile.first) * heads.count();
    T* delta = buffer.get(round_up(pairs, W));
    int64_t row = tile.first, head = heads.first;
    for (int64_t pair = 0; pair < pairs; pair += W) {
        Vec<T> sums[W] = {};
        for (int64_t l = 0; l < std::min<int64_t>(W, pairs - pair); ++l) {
            const int64_t place = call.out.place(row);
            const S *out = call.out.at<S>(place, head), *grad = call.out_grad.at<S>(place, head);
            for (int64_t f = 0; f < call.value_feats; f += W)
                sums[l] += load<T>(out + f, call.value_feats - f) *
                           load<T>(grad + f, call.value_feats - f);
            if (++head == heads.last) head = heads.first, ++row;
        }
        store<T>(delta + pair, row_sums<T>([&](int l) { return sums[l]; }));
    }
    return delta;
}

constexpr int64_t TOGETHER = 768 << 10;  // bytes of a tile's tables that are computed together
constexpr int64_t TASKS = 4;             // per thread, so that no thread is idle at the end

// Groups of heads of every tile. A task is a group with one of `pieces` ranges of the tiles.
class Groups {
  public:
    Groups(const Call& call, const std::vector<Tile>& tiles, int64_t pieces, int64_t bytes)
        : heads_(call.heads) {
        int64_t numbers = 0;
        for (const Tile& tile : tiles)
            numbers = std::max(numbers, (tile.last - tile.first + tile.high - tile.low) *
                                            2 * (call.key_feats + call.value_feats));
        count_ = std::max(numbers * heads_ * bytes / TOGETHER,
                          TASKS * call.threads / std::max<int64_t>(1, pieces));
        count_ = std::clamp<int64_t>(count_, 1, heads_);
        tasks_ = count_ * pieces;
    }

    int64_t tasks() const { return tasks_; }
    int64_t piece(int64_t task) const { return task / count_; }
    Heads heads(int64_t task) const {
        const int64_t group = task % count_;
        return {heads_ * group / count_, heads_ * (group + 1) / count_};
    }

  private:
    int64_t heads_, count_, tasks_;
};

template <class S, class P>
Inputs<P> pack_inputs(const Call& call, const Tile& tile, Heads heads, InputBuffers<P>& buffers) {
    const int64_t room = round_up(tile.last - tile.first, LANES<P>), sources = tile.high - tile.low;
    return {
        pack<S, P>(call.key, tile.low, tile.high, sources, heads, call.key_feats, Sum<P>(1),
                   buffers.keys),
        pack<S, P>(call.value, tile.low, tile.high, sources, heads, call.value_feats, Sum<P>(1),
                   buffers.values),
        pack<S, P>(call.query, tile.first, tile.last, room, heads, call.key_feats,
                   static_cast<Sum<P>>(call.scale), buffers.queries),
        {},
    };
}

template <class S, class P>
bool interval_forward(const Call& call) {
    const std::vector<Tile> tiles = make_tiles(call);
    const Groups groups(call, tiles, static_cast<int64_t>(tiles.size()), sizeof(Sum<P>));
    bool finite = true;
#pragma omp parallel num_threads(call.threads) reduction(&& : finite)
    {
        Scratch<P> scratch;
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < groups.tasks(); ++task) {
            const Tile& tile = tiles[groups.piece(task)];
            const Heads heads = groups.heads(task);
            const auto in = pack_inputs<S, P>(call, tile, heads, scratch.inputs);
            Inputs<P> paired{};
            paired.values = pair_rows(in.values, heads, call.value_feats, scratch.paired.values);
            const auto out =
                room_for(tile.last - tile.first, heads, call.value_feats, scratch.results);
            for (int64_t h = 0; h < heads.count(); ++h)
                each_block<P>(call, tile, heads.first + h, scratch, [&](auto& block) {
                    block.forward(in, paired, h, out.head(h), finite);
                    block.template store_softmax<S>(out.head(h));
                });
            unpack<S>(out, call.out, tile.first, tile.last, heads, call.value_feats);
        }
    }
    return finite;
}

// Consecutive tiles of one task. Sources below `shared` also belong to earlier units, so the unit sums
// their gradients in separate memory.
struct Unit {
    int64_t first, last;  // tiles
    int64_t low, high;    // sources
    int64_t reached;      // sources from here on belong to no earlier unit
    int64_t own;          // start of its separate sums, in rows of all heads

    int64_t shared() const { return std::min(reached, high); }
    int64_t own_rows() const { return std::max<int64_t>(0, shared() - low); }
};

inline std::vector<Unit> make_units(const Call& call, const std::vector<Tile>& tiles) {
    int64_t sentences = 0;
    for (const Tile& tile : tiles) sentences += tile.begins;
    std::vector<Unit> units;
    int64_t reached = 0, own = 0;
    const int64_t count = static_cast<int64_t>(tiles.size());
    for (int64_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && !tiles[to].begins;) ++to;
        // If most sources are shared, split by heads instead, which needs no separate memory.
        const bool slides = tiles[to - 1].low >= tiles[from].high;
        const int64_t tasks = TASKS * call.threads / (sentences * (slides ? 1 : call.heads));
        const int64_t pieces = std::max<int64_t>(1, tasks);
        const int64_t size = (to - from + pieces - 1) / pieces;
        for (int64_t tile = from; tile < to; tile += size) {
            const int64_t last = std::min(tile + size, to);
            Unit unit{tile, last, tiles[tile].low, tiles[tile].high, reached, own};
            for (int64_t t = tile; t < last; ++t) {
                unit.low = std::min(unit.low, tiles[t].low);
                unit.high = std::max(unit.high, tiles[t].high);
            }
            reached = std::max(reached, unit.high);
            own += unit.own_rows();
            units.push_back(unit);
        }
    }
    return units;
}

// Add the sums of the sources from `low` to `high` to a table. Rows from `reached` on are not
// initialized: those are written, with zeros from `reached` to `low`.
template <class T>
void add_sums(const Rows& from, int64_t low, int64_t high, int64_t reached, Heads heads,
              int64_t width, const Rows& to) {
    constexpr int W = LANES<T>;
    for (int64_t j = std::min(low, reached); j < high; ++j)
        for (int64_t h = 0; h < heads.count(); ++h) {
            T* sum = to.at<T>(to.place(j), heads.first + h);
            if (j < low) {
                std::fill(sum, sum + width, T(0));
                continue;
            }
            const T* row = from.at<T>(j - low, h);
            for (int64_t f = 0; f < width; f += W)
                store<T>(sum + f, j < reached ? load<T>(sum + f) + load<T>(row + f)
                                              : load<T>(row + f));
        }
}

// The sums of gradients of keys or values: the resulting table, and the separate sums of units.
template <class T>
class GradTable {
  public:
    GradTable(const Call& call, const Rows& table, int64_t feats, const std::vector<Unit>& units)
        : call_(call), units_(units), table_(table), width_(round_up(feats, LANES<T>)) {
        const int64_t rows = units.empty() ? 0 : units.back().own + units.back().own_rows();
        own_.get(rows * call.heads * width_);
    }

    // The sums of a tile. Its unit has initialized the sources below `reached`.
    void add(Packed<T> sums, const Unit& unit, const Tile& tile, int64_t reached, Heads heads) {
        const int64_t shared = unit.shared(), low = std::max(tile.low, shared);
        Rows from{sums.data, width_, sums.room * width_};
        add_sums<T>(from, std::min(tile.low, shared) - unit.low,
                    std::min(tile.high, shared) - unit.low, std::min(reached, shared) - unit.low,
                    heads, width_, own(unit));
        from.data = sums.data + (low - tile.low) * width_;
        add_sums<T>(from, low, std::max(tile.high, shared), before(std::max(reached, unit.reached)),
                    heads, width_, table_);
    }

    void finish() {
        int64_t reached = 0, rows = 0;
        for (const Unit& unit : units_)
            reached = std::max(reached, unit.high), rows += unit.own_rows();
#pragma omp parallel for num_threads(call_.threads) if (rows >= TILE_ROWS)
        for (int64_t h = 0; h < call_.heads; ++h)
            for (const Unit& unit : units_) {
                if (!unit.own_rows()) continue;
                Rows from = own(unit);
                from.data = from.at<T>(0, h);
                add_sums<T>(from, unit.low, unit.shared(), call_.sources, {h, h + 1}, width_,
                            table_);
            }
        add_sums<T>({}, call_.sources, call_.sources, before(reached), {0, call_.heads}, width_,
                    table_);
    }

  private:
    // The number of sources with initialized sums; this call has initialized those below `reached`.
    int64_t before(int64_t reached) const { return call_.adds ? call_.sources : reached; }

    Rows own(const Unit& unit) {
        const int64_t row = call_.heads * width_;
        return {own_.get(0) + unit.own * row, row, width_};
    }

    const Call& call_;
    const std::vector<Unit>& units_;
    const Rows table_;
    const int64_t width_;
    Buffer<T> own_;
};

// The rows of the gradients of keys and values are padded to whole vectors.
template <class S, class P>
void interval_backward(const Call& call) {
    using T = Sum<P>;
    const std::vector<Tile> tiles = make_tiles(call);
    const std::vector<Unit> units = make_units(call, tiles);
    const Groups groups(call, tiles, static_cast<int64_t>(units.size()), sizeof(T));
    GradTable<T> all_key_grads(call, call.key_grad, call.key_feats, units);
    GradTable<T> all_value_grads(call, call.value_grad, call.value_feats, units);
#pragma omp parallel num_threads(call.threads)
    {
        Scratch<P> scratch;
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < groups.tasks(); ++task) {
            const Unit& unit = units[groups.piece(task)];
            const Heads heads = groups.heads(task);
            int64_t reached = std::min(unit.low, unit.reached);
            for (int64_t t = unit.first; t < unit.last; ++t) {
                const Tile& tile = tiles[t];
                const int64_t rows = tile.last - tile.first, sources = tile.high - tile.low;
                auto in = pack_inputs<S, P>(call, tile, heads, scratch.inputs);
                const T* delta = make_delta<S, T>(call, tile, heads, scratch.delta);
                in.out_grads = pack<S, P>(call.out_grad, tile.first, tile.last, in.queries.room,
                                          heads, call.value_feats, T(1), scratch.inputs.out_grads);
                Inputs<P> paired{};
                paired.keys = pair_rows(in.keys, heads, call.key_feats, scratch.paired.keys);
                paired.queries =
                    pair_rows(in.queries, heads, call.key_feats, scratch.paired.queries);
                paired.out_grads =
                    pair_rows(in.out_grads, heads, call.value_feats, scratch.paired.out_grads);
                const auto query_grads = room_for(rows, heads, call.key_feats, scratch.results);
                const auto key_grads = room_for(round_up(sources, TERMS<P>), heads,
                                                call.key_feats, scratch.key_grads);
                const auto value_grads = room_for(round_up(sources, TERMS<P>), heads,
                                                  call.value_feats, scratch.value_grads);
                std::fill(key_grads.data, key_grads.head(heads.count()), T(0));
                std::fill(value_grads.data, value_grads.head(heads.count()), T(0));
                for (int64_t h = 0; h < heads.count(); ++h)
                    each_block<P>(call, tile, heads.first + h, scratch, [&](auto& block) {
                        block.backward(in, paired, h, delta + h, heads.count(),
                                       query_grads.head(h), key_grads.head(h),
                                       value_grads.head(h));
                    });
                if (TERMS<P> > 1)  // numbers are packed with the scale
                    for (T* sum = key_grads.data; sum < key_grads.head(heads.count()); ++sum)
                        *sum *= static_cast<T>(call.scale);
                unpack<S>(query_grads, call.query_grad, tile.first, tile.last, heads,
                          call.key_feats, call.later);
                all_key_grads.add(key_grads, unit, tile, reached, heads);
                all_value_grads.add(value_grads, unit, tile, reached, heads);
                reached = std::max(reached, tile.high);
            }
        }
    }
    all_key_grads.finish();
    all_value_grads.finish();
}

}  // namespace graphut
