"""Edge attention by compiled C++ kernels: the optional backend "native", the fastest on CPUs."""
