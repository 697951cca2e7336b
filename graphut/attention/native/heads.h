// Rows of features with heads as adjacent lanes of vectors: all heads of an edge are computed together,
// and hardly any sum is over the lanes of a vector.
#pragma once

#include "call.h"

namespace graphut {

// Edges of a row or of a source: the row of each in a packed table, and its canonical index.
struct EdgeList {
    const int64_t *at, *edge;
    int64_t count;
};

// The order of a row: entry (f, h) is at f * period + h. The period is the number of heads rounded up
// to a power of two; entries of missing heads are zero. Scores of an edge take `period` lanes too.
template <class T>
class HeadLanes {
    static constexpr int W = LANES<T>;

  public:
    explicit HeadLanes(int64_t heads) : heads(heads), period(power_of_two(heads)) {}

    const int64_t heads, period;

    int64_t width(int64_t feats) const { return round_up(feats * period, W); }

    // Copy a row of a table times a factor, and prefetch a row that may be next.
    template <class S>
    void pack(const Rows& from, int64_t row, int64_t feats, T factor, T* to) const {
        choose([&](auto lanes) { pack_lanes<S, lanes>(from, row, feats, factor, to); });
    }

    // The inverse: entry (h, f) is at h * round_up(feats, W) + f.
    void unpack(const T* from, int64_t feats, T* to) const {
        choose([&](auto lanes) { unpack_lanes<lanes>(from, feats, to); });
    }

    // scores[e, h] = row[h] . table[at[e], h]. Writes the last edge again up to a multiple of four
    // edges, and of a vector.
    void products(const T* row, const T* table, int64_t width, const EdgeList& edges,
                  T* scores) const {
        choose([&](auto lanes) { products_of<lanes>(row, table, width, edges, scores); });
    }

    // sums[h] += sum over e of weights[e, h] table[at[e], h]. Reads a whole vector of weights for each
    // edge.
    void add_weighted(const T* weights, const T* table, int64_t width, const EdgeList& edges,
                      T* sums) {
        const int64_t step = stride(), count = edges.count;
        T* factors = factors_.get(count * step);
        choose([&](auto lanes) {
            for (int64_t e = 0; e < count; ++e)
                for (int64_t first = 0; first < period; first += W)
                    store<T>(factors + e * step + first,
                             repeat<lanes>(load<T>(weights + e * period + first)));
        });
        for (int64_t first = 0; first < period; first += W)
            add_vectors<ACCUMULATORS / 2>(factors + first, step, table + first, width, edges.at,
                                          count, sums + first, width / step);
    }

    // sums[h] *= factors[h]
    void scale(T* sums, const T* factors, int64_t width) const {
        choose([&](auto lanes) {
            for (int64_t v = 0; v < width; v += W) {
                const Vec<T> factor = repeat<lanes>(load<T>(factors + v % stride()));
                store<T>(sums + v, load<T>(sums + v) * factor);
            }
        });
    }

  private:
    static int64_t power_of_two(int64_t heads) {
        int64_t power = 1;
        while (power < heads) power *= 2;
        return power;
    }

    // Entries from one vector of a head to the next.
    int64_t stride() const { return std::max<int64_t>(period, W); }

    // Call `use` with the number of heads in a vector as a constant.
    template <int P = W, class F>
    INLINE void choose(F use) const {
        if constexpr (P > 1)
            if (period < P) return choose<P / 2>(use);
        use(std::integral_constant<int, P>());
    }

    template <int P>
    struct Repeat {
        static constexpr int at(int l) { return l % P; }
    };

    template <int P>
    static INLINE Vec<T> repeat(Vec<T> v) {
        if constexpr (P < W) return shuffle<T, Repeat<P>>(v, v);
        return v;
    }

    // Interleave the first half of the lanes of P vectors with the second half, `steps` times.
    template <int P>
    static INLINE void interleave(Vec<T> (&v)[P], int steps) {
#pragma GCC unroll 4
        for (int step = 1; step < steps; step *= 2) {
            Vec<T> next[P];
#pragma GCC unroll 8
            for (int i = 0; i < P / 2; ++i) {
                next[2 * i] = shuffle<T, Interleave<W, false>>(v[i], v[i + P / 2]);
                next[2 * i + 1] = shuffle<T, Interleave<W, true>>(v[i], v[i + P / 2]);
            }
#pragma GCC unroll 16
            for (int i = 0; i < P; ++i) v[i] = next[i];
        }
    }

    template <class S, int P>
    NOINLINE void pack_lanes(const Rows& from, int64_t row, int64_t feats, T factor, T* to) const {
        const int64_t vectors = width(feats) / stride();
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t f = 0; f < feats; f += 64 / sizeof(S))
                __builtin_prefetch(from.at<S>(row + AHEAD, h) + f);
        for (int64_t first = 0; first < period; first += W)
            for (int64_t f = 0; f < feats; f += W) {
                Vec<T> v[P];
#pragma GCC unroll 16
                for (int h = 0; h < P; ++h)
                    v[h] = first + h >= heads
                               ? Vec<T>{}
                               : load<T>(from.at<S>(row, first + h) + f, feats - f) * factor;
                interleave<P>(v, P);
                const int64_t at = f * P / W;
#pragma GCC unroll 16
                for (int i = 0; i < P; ++i)
                    if (at + i < vectors) store<T>(to + (at + i) * stride() + first, v[i]);
            }
    }

    template <int P>
    NOINLINE void unpack_lanes(const T* from, int64_t feats, T* to) const {
        const int64_t vectors = width(feats) / stride(), room = round_up(feats, W);
        for (int64_t first = 0; first < period; first += W)
            for (int64_t f = 0; f < feats; f += W) {
                Vec<T> v[P];
                const int64_t at = f * P / W;
#pragma GCC unroll 16
                for (int i = 0; i < P; ++i)
                    v[i] = at + i < vectors ? load<T>(from + (at + i) * stride() + first) : Vec<T>{};
                if constexpr (P > 1) interleave<P>(v, W);
#pragma GCC unroll 16
                for (int h = 0; h < P; ++h)
                    if (first + h < heads) store<T>(to + (first + h) * room + f, v[h]);
            }
    }

    template <int P>
    NOINLINE void products_of(const T* row, const T* table, int64_t width,
                              const EdgeList& edges, T* scores) const {
        constexpr int E = W / P, K = E < 4 ? 4 : E;
        for (int64_t e = 0; e < edges.count; e += K) {
            const T* at[K];
            for (int k = 0; k < K; ++k)
                at[k] = table + edges.at[std::min(e + k, edges.count - 1)] * width;
            for (int64_t first = 0; first < period; first += W) {
                Vec<T> acc[K] = {};
                for (int64_t v = first; v < width; v += stride()) {
                    const Vec<T> own = load<T>(row + v);
#pragma GCC unroll 16
                    for (int k = 0; k < K; ++k) acc[k] += own * load<T>(at[k] + v);
                }
#pragma GCC unroll 4
                for (int k = 0; k < K; k += E)
                    store<T>(scores + (e + k) * period + first, row_sums<T, E>(acc + k));
            }
        }
    }

    template <int N>
    static NOINLINE void add_vectors(const T* factors, int64_t step, const T* table, int64_t width,
                                     const int64_t* at, int64_t count, T* sums, int64_t vectors) {
        for (; vectors >= N; vectors -= N, table += N * step, sums += N * step) {
            Vec<T> acc[N];
#pragma GCC unroll 16
            for (int n = 0; n < N; ++n) acc[n] = load<T>(sums + n * step);
            for (int64_t e = 0; e < count; ++e) {
                const Vec<T> factor = load<T>(factors + e * step);
                const T* from = table + at[e] * width;
#pragma GCC unroll 16
                for (int n = 0; n < N; ++n) acc[n] += factor * load<T>(from + n * step);
            }
#pragma GCC unroll 16
            for (int n = 0; n < N; ++n) store<T>(sums + n * step, acc[n]);
        }
        if constexpr (N > 1)
            if (vectors) add_vectors<N / 2>(factors, step, table, width, at, count, sums, vectors);
    }

    Buffer<T> factors_;
};

}  // namespace graphut
