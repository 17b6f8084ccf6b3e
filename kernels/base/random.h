// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3").
//
// A stream is a pure function of (seed, domain, a, b): no state is carried between sequences, so any sequence
// can be drawn alone, in any order, on any device, with the same bits (determinism level L2).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Random123/philox.h>

#include <cstdint>

#include "kernels/base/host_device.h"

namespace crosstalk {

/// Purposes of streams. The numbers are part of the data format: never reuse or renumber one.
enum class RandomDomain : std::uint32_t {
  task_train = 1,
  task_eval = 2,
  task_test = 3,
  initialisation = 16,
  feature_map = 32,
  dropout = 48,
  candidate = 64,  ///< of a search over laws
};

/// A stream of 32-bit words. Key = seed (64 bit); counter = (block, domain, a, b), where a and b are the
/// caller's logical indices (for a task: sequence number low and high word).
class RandomStream {
 public:
  CT_HD RandomStream(std::uint64_t seed, RandomDomain domain, std::uint32_t a, std::uint32_t b = 0)
      : a_(a), b_(b), domain_(static_cast<std::uint32_t>(domain)) {
    key_.v[0] = static_cast<std::uint32_t>(seed);
    key_.v[1] = static_cast<std::uint32_t>(seed >> 32);
  }

  /// The next uniform 32-bit word.
  CT_HD std::uint32_t next() {
    if (used_ == 4) {
      words_ = block(block_++);
      used_ = 0;
    }
    return words_.v[used_++];
  }

  /// Words 4 i .. 4 i + 3 of the stream, wherever it stands.
  CT_HD r123::Philox4x32::ctr_type block(std::uint32_t i) const {
    r123::Philox4x32::ctr_type counter;
    counter.v[0] = i;
    counter.v[1] = domain_;
    counter.v[2] = a_;
    counter.v[3] = b_;
    return r123::Philox4x32()(counter, key_);
  }

  /// Uniform integer in [0, n), n >= 1, by multiply-shift (bias below n / 2^32).
  CT_HD std::uint32_t below(std::uint32_t n) { return scaled(next(), n); }
  /// The number that below(n) makes of a word.
  CT_HD static std::uint32_t scaled(std::uint32_t word, std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * n) >> 32);
  }

  /// Uniform in (0, 1), a multiple of 2^-33 that is never 0 or 1: exact in double.
  CT_HD double uniform() { return (static_cast<double>(next()) + 0.5) * (1.0 / 4294967296.0); }

 private:
  r123::Philox4x32::key_type key_{};
  r123::Philox4x32::ctr_type words_{};
  std::uint32_t a_, b_, domain_;
  std::uint32_t block_ = 0;
  std::uint32_t used_ = 4;
};

/// Standard normal from a uniform in (0,1) by the inverse distribution function (Wichura 1988, AS 241,
/// PPND16), with an own logarithm: no libm, so the bits agree on every machine when contraction is off.
double normal_from_uniform(double u);

/// Exponential (|x| < 700) and logarithm (x > 0, normal) without libm: the same bits on every machine.
double portable_exp(double x);
double portable_log(double x);

}  // namespace crosstalk
