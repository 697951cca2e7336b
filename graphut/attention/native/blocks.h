// The two matrix products of attention, in blocks that stay in registers.
#pragma once

#include "vectors.h"

namespace graphut {

// The largest number of sources in a product with one vector of rows.
constexpr int SOURCES = ACCUMULATORS / 2;

// acc[k][g] = a[k] . b over `feats` features, or pairs of them. `a` is stored row by row; `b` is
// transposed: each feature holds G vectors of rows.
template <class P, int K, int G>
INLINE void dots(const P* a, int64_t a_stride, const P* b, int64_t feats,
                 Vec<Sum<P>> (&acc)[K][G]) {
    constexpr int W = LANES<P>;
    for (int k = 0; k < K; ++k)
        for (int g = 0; g < G; ++g) acc[k][g] = Vec<Sum<P>>{};
    for (int64_t d = 0; d < feats; ++d) {
        Vec<P> lanes[G];
        for (int g = 0; g < G; ++g) lanes[g] = load<P>(b + (d * G + g) * W);
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k)
#pragma GCC unroll 2
            for (int g = 0; g < G; ++g) add_product(acc[k][g], a[k * a_stride + d], lanes[g]);
    }
}

// A matrix of weights with any strides: the factor of row k in the sum of row m. With pairs, row k
// has a feature of two rows in each lane.
template <class P>
struct Weights {
    const P* data;
    int64_t by_m, by_k;
};

// out[m] += sum over k of weights(m, k) x[k], for M rows of N vectors
template <class P, int M, int N>
INLINE void sum_block(Weights<P> w, const P* x, int64_t x_stride, int64_t count, Sum<P>* out,
                      int64_t out_stride) {
    using T = Sum<P>;
    constexpr int W = LANES<P>;
    Vec<T> acc[M][N];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) acc[m][n] = load<T>(out + m * out_stride + n * W);
    for (int64_t k = 0; k < count; ++k) {
        Vec<P> row[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) row[n] = load<P>(x + k * x_stride + n * W);
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n)
                add_product(acc[m][n], w.data[m * w.by_m + k * w.by_k], row[n]);
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) store<T>(out + m * out_stride + n * W, acc[m][n]);
}

template <class P, int M, int N>
INLINE void sum_rows(Weights<P> w, const P* x, int64_t x_stride, int64_t count, Sum<P>* out,
                     int64_t out_stride, int64_t rows) {
    for (; rows >= M; rows -= M, w.data += M * w.by_m, out += M * out_stride)
        sum_block<P, M, N>(w, x, x_stride, count, out, out_stride);
    if constexpr (M > 1)
        if (rows) sum_rows<P, M / 2, N>(w, x, x_stride, count, out, out_stride, rows);
}

template <class P, int N>
INLINE void sum_columns(Weights<P> w, const P* x, int64_t x_stride, int64_t count, Sum<P>* out,
                        int64_t out_stride, int64_t rows, int64_t vectors) {
    constexpr int W = LANES<P>;
    for (; vectors >= N; vectors -= N, x += N * W, out += N * W)
        sum_rows<P, ACCUMULATORS / N, N>(w, x, x_stride, count, out, out_stride, rows);
    if constexpr (N > 1)
        if (vectors) sum_columns<P, N / 2>(w, x, x_stride, count, out, out_stride, rows, vectors);
}

// out[m] += sum over k of weights(m, k) x[k], for any number of rows and vectors
template <class P>
NOINLINE void weighted_sums(Weights<P> w, const P* x, int64_t x_stride, int64_t count, Sum<P>* out,
                          int64_t out_stride, int64_t rows, int64_t vectors) {
    sum_columns<P, 4>(w, x, x_stride, count, out, out_stride, rows, vectors);
}

}  // namespace graphut
