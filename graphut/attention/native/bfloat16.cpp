#include "dtype.h"

template struct graphut::Kernels<graphut::bfloat16, float>;
