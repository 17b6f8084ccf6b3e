// What this machine can do at most: the rate of single-precision matrix products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk::benchmarks {

/// FLOP/s of `threads` threads that each multiply their own 1024 x 1024 fp32 matrices with Eigen; best of a
/// few tries.
double measured_peak(int threads);

}  // namespace crosstalk::benchmarks
