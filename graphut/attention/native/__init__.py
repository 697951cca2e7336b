"""Edge attention in C++: an optional backend, the fastest on a CPU."""
