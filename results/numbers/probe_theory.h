// What untrained memories read of random keys, in expectation: theory for probes (model.name = "probe").
//
// n pairs of keys, uniform on the sphere of d dimensions, and values of length 1, independent and of zero
// mean, in d_v dimensions, are written one after the other, gates open; one of the keys is asked. Read is s
// v + r, r of zero mean, beside v:
//
//   sum rule        s = 1, E|r|^2 = (n - 1) / d
//   least squares   s = min(1, d / n), E|r|^2 = s (1 - s): the optimum of all linear memories above n = d
//   delta rule      s = beta (1 - beta / d)^age: it forgets without a gate, 1/e after d / beta writes
//   softmax b q.k   s = p, E|r|^2 = p^2 (n - 1) e^{-2b} 0F1(; d/2; b^2),
//                   p = 1 / (1 + (n - 1) e^{-b} 0F1(; d/2; b^2/4))
//
// Squared error (1 - s)^2 + E|r|^2, SNR s^2 / E|r|^2. Recall among V random codes, r taken as normal:
// E_z[Phi((s + sqrt(x) z) / sqrt(x + s^2 / d_v))^(V - 1)], x = E|r|^2 / d_v, z normal; for d below 100 it
// promises up to 0.1 too much. All n are right up to d^2 = 8 n ln n with the sum rule, 2 n ln n with the
// optimum (arXiv 2605.05189, proposition 1). SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

struct ProbeRead {
  double signal = 1, noise = 0;  ///< s, E|r|^2
};
ProbeRead sum_rule_read(double n, double d);
ProbeRead least_squares_read(double n, double d);
/// The oldest pair first.
std::vector<ProbeRead> delta_rule_reads(int n, double d, double beta);
ProbeRead softmax_read(double n, double d, double sharpness);

double squared_error(const ProbeRead& read);
double recall(const ProbeRead& read, double d_v, double codes);
/// The load n with c n ln n = d^2.
double all_right_load(double d, double c);

/// What the memory of a probe's record reads at a load of `n` pairs, oldest first (one where all are alike);
/// nothing
/// where no theory is known: other memories, feature maps, tasks, or keys that are not random.
std::optional<std::vector<ProbeRead>> probe_reads(const Record& record, int n);

}  // namespace crosstalk
