"""Edge attention in C++, the fastest on a CPU; optional."""
