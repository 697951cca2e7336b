// The arguments of an attention call. The fields must match the structures in ../kernel_library.py.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "vectors.h"

namespace graphut {

// Strided features: entry (i, h, f) is data[i * row + h * head + f]. With `index`, row i of a part is
// row index[i].
struct Rows {
    void* data;
    int64_t row, head;
    const int64_t* index = nullptr;

    int64_t place(int64_t i) const { return index ? index[i] : i; }

    template <class S>
    S* at(int64_t i, int64_t h) const {
        return static_cast<S*>(data) + i * row + h * head;
    }
};

constexpr int64_t AHEAD = 4;  // rows to prefetch when a row is copied

struct Call {
    // Sizes
    int64_t rows, heads, key_feats, value_feats, sources, threads;
    // The in-edges of node i are the canonical edges first_edge[i], ...; their sources are
    // start[i], ..., stop[i] - 1, or, with `indices`, indices[start[i]], ..., indices[stop[i] - 1].
    const int64_t *frontier, *start, *stop, *indices, *first_edge, *edge_ids;
    // The transposed layout: entries column_start[j], ... of source j hold the destination and the
    // canonical index of each of its edges.
    const int64_t *column_start, *column_node, *column_edge;
    int64_t nodes;
    // Features. With `adds`, the gradients of keys and values are added, else written.
    Rows query, key, value, out, out_grad, query_grad, key_grad, value_grad;
    // (rows, heads, 2): the largest score, and one divided by the sum of exp(score - largest); +inf
    // and 0 if the output is zero. Their combination in one logarithm would lose digits of large
    // scores.
    void* softmax;
    // Scores
    const void* bias;  // (edges, bias_heads) by edge id
    void* bias_grad;   // (edges, heads)
    // A later part of the edges: its results are combined with those of the earlier parts.
    int64_t bias_heads, kernel, adds, later;
    double scale, keep;        // kept weights are divided by `keep`
    uint32_t seed, threshold;  // weights with a smaller hash are dropped

    int64_t node(int64_t row) const { return frontier ? frontier[row] : row; }
    int64_t degree(int64_t node) const { return stop[node] - start[node]; }
    int64_t edge_id(int64_t node, int64_t offset) const {
        const int64_t edge = first_edge[node] + offset;
        return edge_ids ? edge_ids[edge] : edge;
    }
    // Whether all scores of a node may be -inf although all features are finite.
    bool may_be_dead(int64_t node) const { return bias || !degree(node); }
};

// MurmurHash3's 32-bit finaliser; the same hash as in dropout.py.
inline uint32_t mix(uint32_t bits) {
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6Bu;
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35u;
    return bits ^ (bits >> 16);
}

// The dropout factor of the weight of an edge and a head.
template <class T>
inline T dropout_factor(const Call& call, int64_t edge, int64_t head) {
    const uint32_t folded = static_cast<uint32_t>(edge) ^ static_cast<uint32_t>(edge >> 32);
    const uint32_t by_head = mix(static_cast<uint32_t>(head) + 0x9E3779B9u);
    const uint32_t bits = mix(mix(call.seed ^ mix(folded)) ^ by_head);
    return bits < call.threshold ? T(0) : T(1.0 / call.keep);
}

// Edges of a row or of a source: the other end of each, and its index in tables of weights; without
// `slot`, its index in the list.
struct EdgeList {
    const int64_t *at, *slot;
    int64_t count;
};

inline int64_t power_of_two(int64_t least) {
    int64_t power = 1;
    while (power < least) power *= 2;
    return power;
}

inline int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

constexpr std::size_t HUGE_PAGE = 2 << 20;  // bytes

// Aligned memory. It never shrinks, and growing discards its content. Large memory asks for huge pages:
// the system hands out and finds the small ones more slowly than a kernel can read them.
template <class T>
class Buffer {
  public:
    T* get(int64_t size) {
        if (size > size_) {
            const std::size_t bytes = size * sizeof(T), page = bytes < HUGE_PAGE ? 64 : HUGE_PAGE;
            data_.reset(static_cast<T*>(std::aligned_alloc(page, round_up(bytes, page))));
#if defined(__linux__)
            if (bytes >= HUGE_PAGE) madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
            size_ = size;
        }
        return data_.get();
    }
    T* zeros(int64_t size) {
        T* data = get(size);
        std::fill(data, data + size, T(0));
        return data;
    }

  private:
    struct Free {
        void operator()(T* data) const { std::free(data); }
    };
    std::unique_ptr<T, Free> data_;
    int64_t size_ = 0;
};

// A table of a call, in memory that later calls use again unless it is large or in use.
template <class T>
class KeptTable {
    static constexpr std::size_t KEPT = 32 << 20;  // bytes

  public:
    T* get(int64_t size) {
        if (lock_ && size * sizeof(T) <= KEPT) return kept_.get(size);
        return own_.get(size);
    }

  private:
    static inline std::mutex mutex_;
    static inline Buffer<T> kept_;
    const std::unique_lock<std::mutex> lock_{mutex_, std::try_to_lock};
    Buffer<T> own_;
};

}  // namespace graphut
