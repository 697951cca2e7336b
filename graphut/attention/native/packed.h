// Copies of rows of features, contiguous for each head.
#pragma once

#include "call.h"

namespace graphut {

// A range of heads that are computed together.
struct Heads {
    int64_t first, last;
    int64_t count() const { return last - first; }
};

// Rows of some heads, padded to whole vectors, contiguous for each head.
template <class T>
struct Packed {
    T* data;
    int64_t room, width;  // rows of a head, entries of a row

    T* head(int64_t h) const { return data + h * room * width; }
    T* row(int64_t h, int64_t i) const { return head(h) + i * width; }
};

template <class T>
Packed<T> room_for(int64_t rows, Heads heads, int64_t feats, Buffer<T>& buffer, int64_t terms = 1) {
    // An odd number of rows: strides of a power of two would map all heads to few cache sets.
    const int64_t width = round_up(feats, LANES<T>) / terms, room = rows | 1;
    // A vector at the end of a row of half vectors reaches into the next row.
    return {buffer.get(heads.count() * room * width + LANES<T>), room, width};
}

// Copy rows of a table times a factor, in memory order, and pad them with zeros. Pairs are copied
// without the factor, because the products would be rounded.
template <class S, class P>
Packed<P> pack(const Rows& from, int64_t first, int64_t last, int64_t room, Heads heads,
               int64_t feats, Sum<P> factor, Buffer<P>& buffer) {
    constexpr int W = LANES<P>;
    const Packed<P> to = room_for(round_up(room, TERMS<P>), heads, feats, buffer, TERMS<P>);
    for (int64_t i = first; i < last; ++i) {
        const int64_t place = from.place(i), later = from.place(std::min(i + AHEAD, last - 1));
        for (int64_t h = 0; h < heads.count(); ++h) {
            const S* row = from.at<S>(place, heads.first + h);
            P* copy = to.row(h, i - first);
            for (int64_t f = 0; f < feats; f += 64 / sizeof(S))
                __builtin_prefetch(from.at<S>(later, heads.first + h) + f);
            if constexpr (TERMS<P> == 1) {
                for (int64_t f = 0; f < feats; f += W)
                    store<P>(copy + f, load<P>(row + f, feats - f) * factor);
            } else {
                std::fill(copy + feats / 2, copy + to.width, P{});
                std::memcpy(copy, row, feats * sizeof(S));
            }
        }
    }
    for (int64_t h = 0; h < heads.count(); ++h)
        std::fill(to.row(h, last - first), to.row(h, to.room), P{});
    return to;
}

// The table for sums over its rows: with pairs, row i has rows 2i and 2i + 1 of the given table.
template <class P>
Packed<P> pair_rows(Packed<P> from, Heads heads, int64_t feats, Buffer<P>& buffer) {
    if constexpr (TERMS<P> == 1) {
        return from;
    } else {
        constexpr int W = LANES<P>;
        const Packed<P> to = room_for(from.room / 2, heads, feats, buffer);
        for (int64_t h = 0; h < heads.count(); ++h)
            for (int64_t i = 0; i < from.room / 2; ++i)
                for (int64_t f = 0; f < feats; f += W) {
                    P rows[W];
                    for (int row : {0, 1})
                        std::memcpy(rows + row * W / 2, from.row(h, 2 * i + row) + f / 2,
                                    W / 2 * sizeof(P));
                    store<P>(to.row(h, i) + f, pair_halves(load<P>(rows)));
                }
        return to;
    }
}

// Write rows to a table, or add them to it.
template <class S, class T>
void unpack(Packed<T> from, const Rows& to, int64_t first, int64_t last, Heads heads,
            int64_t feats, bool adds = false) {
    constexpr int W = LANES<T>;
    for (int64_t i = first; i < last; ++i)
        for (int64_t h = 0; h < heads.count(); ++h) {
            T* row = from.row(h, i - first);
            S* own = to.at<S>(to.place(i), heads.first + h);
            for (int64_t f = 0; adds && f < feats; f += W)
                store<T>(row + f, load<T>(row + f) + load<T>(own + f, feats - f));
            store(own, row, feats);
        }
}

}  // namespace graphut
