#include "dtype.h"

template struct graphut::Kernels<float, float>;
