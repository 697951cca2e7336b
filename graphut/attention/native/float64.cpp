#include "dtype.h"

template struct graphut::Kernels<double, double>;
