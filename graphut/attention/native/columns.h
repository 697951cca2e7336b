// The edges of some rows, sorted by source: the backward pass adds to the gradients of one source at a
// time.
#pragma once

#include "call.h"

namespace graphut {

// Consecutive rows.
struct Stretch {
    int64_t first, last;
};

// Rows with all their edges in memory at a time. Either their tables fit the cache, or a source has
// several edges among them: its gradients are read and written once a stretch.
constexpr int64_t STRETCH_EDGES = 32768, EDGES_OF_SOURCE = 32;

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
        if (!call.column_start) return;
        next_.assign(call.column_start, call.column_start + call.sources);
        if (!call.frontier) return;
        places_.assign(call.nodes, {-1, 0});
        for (int64_t row = 0; row < call.rows; ++row) {
            const int64_t node = call.node(row);
            places_[node] = {row, slots[row] - call.start[node]};
        }
    }

    // Call this once for each stretch, in order.
    void advance(Stretch stretch) {
        stretch_ = stretch;
        if (!call_.column_start) sort_edges();
    }

    // Return the edges of a source, with rows as other ends, and advance in the transposed layout from
    // stretch to stretch. The list may be stored in `found`.
    EdgeList list(int64_t source, std::vector<int64_t>& found) {
        const int64_t from = next_[source];
        if (!call_.column_start)
            return {rows_.data() + from, of_row_.data() + from, next_[source + 1] - from};
        const int64_t end = call_.column_start[source + 1];
        int64_t to = from;
        if (stretch_.last == call_.rows)
            to = end;
        else
            while (to < end && call_.column_node[to] <= call_.node(stretch_.last - 1)) ++to;
        next_[source] = to;
        const EdgeList all{call_.column_node + from, call_.column_edge + from, to - from};
        return call_.frontier ? in_frontier(all, found) : all;
    }

  private:
    // The row of a node, or -1, and the offset from a canonical edge to its slot.
    struct Place {
        int64_t row, to_slot;
    };

    EdgeList in_frontier(const EdgeList& all, std::vector<int64_t>& found) const {
        found.resize(2 * all.count);
        int64_t *rows = found.data(), *slots = rows + all.count, count = 0;
        for (int64_t e = 0; e < all.count; ++e) {
            const Place place = places_[all.at[e]];
            rows[count] = place.row, slots[count] = place.to_slot + all.slot[e];
            count += place.row >= 0;
        }
        return {rows, slots, count};
    }

    template <class F>
    void each_edge(F use) const {
        for (int64_t row = stretch_.first; row < stretch_.last; ++row) {
            const int64_t node = call_.node(row);
            for (int64_t e = 0; e < call_.degree(node); ++e) {
                const int64_t place = call_.start[node] + e;
                use(call_.indices ? call_.indices[place] : place, row, slots_[row] + e);
            }
        }
    }

    // A counting sort.
    void sort_edges() {
        const int64_t edges = slots_[stretch_.last] - slots_[stretch_.first];
        next_.assign(call_.sources + 1, 0);
        rows_.resize(edges), of_row_.resize(edges);
        each_edge([&](int64_t source, int64_t, int64_t) { ++next_[source + 1]; });
        for (int64_t j = 0; j < call_.sources; ++j) next_[j + 1] += next_[j];
        std::vector<int64_t> free(next_.begin(), next_.end() - 1);
        each_edge([&](int64_t source, int64_t row, int64_t slot) {
            const int64_t at = free[source]++;
            rows_[at] = row, of_row_[at] = slot;
        });
    }

    const Call& call_;
    const std::vector<int64_t>& slots_;
    Stretch stretch_{0, 0};
    std::vector<Place> places_;
    std::vector<int64_t> next_;
    std::vector<int64_t> rows_, of_row_;  // the row and the slot of each sorted edge
};

}  // namespace graphut
