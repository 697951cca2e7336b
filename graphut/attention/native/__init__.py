"""Edge attention in C++: fastest on the CPU, and optional."""
