// The logarithms of the weights of geometric attention, row by row: see ../geometric.py.
#pragma once

#include "rows.h"

namespace graphut {

template <class T>
class GeometricKernel : RowKernel<T, T> {
    using Base = RowKernel<T, T>;
    using Base::call_, Base::heads_, Base::period_, Base::keys_, Base::queries_, Base::lanes;
    static constexpr int W = LANES<T>;

  public:
    using Base::Base;

    void forward(int64_t row, const T* direction, T* bias) {
        const int64_t own = find_logits(row, direction), count = static_cast<int64_t>(ids_.size());
        double* missed = sum_.zeros(heads_);
        for (int64_t e = 0; e < count; ++e) {
            const T *logits = logits_ + e * period_, *misses = misses_ + e * period_;
            T* to = bias + ids_[e] * heads_;
            for (int64_t h = 0; h < heads_; ++h) {
                to[h] = e < own ? T(-INFINITY) : logits[h] + static_cast<T>(missed[h] + misses[h]);
                missed[h] += misses[h];
            }
        }
    }

    // Write the gradients of a query, of its directions, and of the logits. They are in `grads`, which
    // starts at the first edge of the row, in the first of twice `period` lanes for each edge.
    void backward_row(int64_t row, const T* direction, const T* bias_grad, T* direction_grad,
                      T* grads) {
        const int64_t own = find_logits(row, direction), count = static_cast<int64_t>(ids_.size());
        for (int64_t l = 0; l < lanes(count); l += W)
            store<T>(logits_ + l, exp<T>(load<T>(logits_ + l) + load<T>(misses_ + l)));
        T* to = direction_grad + row * heads_ * 2;
        std::fill(to, to + heads_ * 2, T(0));
        double* farther = sum_.zeros(heads_);  // the gradients of this edge and all farther ones
        for (int64_t e = count - 1; e >= 0; --e) {
            const T *hits = logits_ + e * period_, *from = bias_grad + ids_[e] * heads_;
            T* grad = grads + slots_[e] * 2 * period_;
            for (int64_t h = 0; h < heads_; ++h) {
                if (e >= own) farther[h] += from[h];
                grad[h] = e < own ? T(0) : from[h] - hits[h] * static_cast<T>(farther[h]);
                to[2 * h + (sources_[e] > call_.node(row))] += grad[h];
            }
        }
        T* sums = this->sums_.zeros(this->key_size_);
        this->add_weighted(grads, 2 * period_, keys_, {sources_.data(), slots_.data(), count}, sums);
        this->give_row(row, sums, T(1));
    }

    void backward_sources(int64_t first, const std::vector<EdgeList>& lists, const T* grads) {
        for (const EdgeList& edges : lists)
            this->gather(first++, edges, grads, queries_, call_.key_grad, T(1), false);
    }

  private:
    // Compute the logits of a row's edges and log(1 - p) of each, with `period` lanes for each edge,
    // nearest first. Return the number of self-loops, for which 1 - p is 1.
    int64_t find_logits(int64_t row, const T* direction) {
        const int64_t node = call_.node(row), own = list_nearest(node);
        const int64_t count = static_cast<int64_t>(ids_.size());
        const T* query = this->load_rows(queries_, {row, row + 1}, this->query_, 1);
        logits_ = this->scores_.get(lanes(count));
        misses_ = this->grads_.get(lanes(count));
        this->products(query, keys_, {sources_.data(), nullptr, count}, logits_);
        const T* toward = direction + row * heads_ * 2;
        for (int64_t e = 0; e < count; ++e)
            for (int64_t h = 0; h < heads_; ++h)
                logits_[e * period_ + h] += toward[2 * h + (sources_[e] > node)];
        for (int64_t l = 0; l < lanes(count); l += W) {
            const Vec<T> s = load<T>(logits_ + l), none{};
            const Vec<T> above = s > none ? s : none, size = s > none ? s : -s;
            store<T>(misses_ + l, -above - log<T>(exp<T>(-size) + T(1)));
        }
        std::fill(misses_, misses_ + own * period_, T(0));
        return own;
    }

    // Of two sources at the same distance, the right one is first; parallel edges keep their order.
    int64_t list_nearest(int64_t node) {
        const int64_t count = call_.degree(node), start = call_.start[node];
        const auto source = [&](int64_t e) {
            return call_.indices ? call_.indices[start + e] : start + e;
        };
        sources_.clear(), ids_.clear(), slots_.clear();
        const auto list = [&](int64_t e) {
            sources_.push_back(source(e)), ids_.push_back(call_.edge_id(node, e)), slots_.push_back(e);
        };
        int64_t left = 0;  // edges to the left that are not in the list yet
        while (left < count && source(left) < node) ++left;
        int64_t right = left;
        while (right < count && source(right) == node) list(right++);
        const int64_t own = right - left;
        while (left || right < count) {
            if (right < count && (!left || source(right) - node <= node - source(left - 1))) {
                list(right++);
                continue;
            }
            int64_t first = left - 1;
            while (first && source(first - 1) == source(left - 1)) --first;
            for (int64_t e = first; e < left; ++e) list(e);
            left = first;
        }
        return own;
    }

    std::vector<int64_t> sources_, ids_, slots_;  // of the edges of a row, nearest first
    T *logits_ = nullptr, *misses_ = nullptr;
    Buffer<double> sum_;
};

template <class T>
void geometric_forward(const Call& call, const T* direction, T* bias) {
#pragma omp parallel num_threads(call.threads)
    {
        GeometricKernel<T> kernel(call);
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < call.rows; ++row) kernel.forward(row, direction, bias);
    }
}

template <class T>
void geometric_backward(const Call& call, const T* direction, const T* bias_grad,
                        T* direction_grad) {
    const std::vector<int64_t> slots = first_slots(call);
    Columns columns(call, slots);
    columns.advance({0, call.rows});
    Buffer<T> grad_table;
    const int64_t pitch = 2 * power_of_two(call.heads);
    T* grads = grad_table.get(slots.back() * pitch);
#pragma omp parallel num_threads(call.threads)
    {
        GeometricKernel<T> kernel(call);
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < call.rows; ++row)
            kernel.backward_row(row, direction, bias_grad, direction_grad,
                                grads + slots[row] * pitch);
        each_source(call, columns, [&](int64_t first, const std::vector<EdgeList>& lists) {
            kernel.backward_sources(first, lists, grads);
        });
    }
}

}  // namespace graphut
