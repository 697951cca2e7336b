// As much of gcc's OpenMP runtime as the kernels call, made of what the thread sanitizer knows:
// libgomp's own waiting is invisible to it, and would be reported as races.
//
// Pieces of a loop go round in turn, as a dynamic schedule may deal them. A lock around a common
// counter would put the work of two threads in order, and so hide races; here only barriers do.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace openmp {

inline pthread_barrier_t barrier;
inline long team = 1;
inline thread_local long number = 0, singles = 0;
inline thread_local long next_chunk, loop_end, loop_chunk;

inline bool take(long* first, long* last) {
    if (next_chunk >= loop_end) return false;
    *first = next_chunk;
    *last = std::min(next_chunk + loop_chunk, loop_end);
    next_chunk += team * loop_chunk;
    return true;
}

}  // namespace openmp

extern "C" {

void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned) {
    openmp::team = threads;
    pthread_barrier_init(&openmp::barrier, nullptr, threads);
    std::vector<std::thread> members;
    for (unsigned n = 0; n < threads; ++n)
        members.emplace_back([=] {
            openmp::number = n;
            run(data);
        });
    for (std::thread& member : members) member.join();
    pthread_barrier_destroy(&openmp::barrier);
}

void GOMP_barrier() { pthread_barrier_wait(&openmp::barrier); }

bool GOMP_single_start() { return openmp::singles++ % openmp::team == openmp::number; }

bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk, long* first,
                                          long* last) {
    openmp::next_chunk = start + openmp::number * chunk * step;
    openmp::loop_end = end, openmp::loop_chunk = chunk * step;
    return openmp::take(first, last);
}

bool GOMP_loop_nonmonotonic_dynamic_next(long* first, long* last) {
    return openmp::take(first, last);
}

void GOMP_loop_end() { GOMP_barrier(); }

int omp_get_thread_num() { return static_cast<int>(openmp::number); }
int omp_get_num_threads() { return static_cast<int>(openmp::team); }
}
