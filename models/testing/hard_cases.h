// Data that is hard on the arithmetic of a memory: each function changes a sequence of ordinary data.
//
// Only what a sequence has is changed: gates that it lacks stay absent. Where rounding must grow, a comment
// says how much: max|error| / max|result| of a chunked delta rule in fp32, its products' operands full, tf32
// and bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/testing/sequence.h"

namespace crosstalk::checks {

struct HardCase {
  const char* name;
  void (*change)(Sequence&);
};

inline void set_gate(Sequence& s, const std::string& gate, double value) {
  if (!s.has(gate)) return;
  for (Vector& row : s.in[gate]) row.assign(row.size(), value);
}
/// Every log gate of the state: `values` token after token, again and again; the same for all channels.
inline void set_log_decays(Sequence& s, const Vector& values) {
  for (const char* gate : {"log_decay", "log_decay_v"}) {
    if (!s.has(gate)) continue;
    std::size_t t = 0;
    for (Vector& row : s.in[gate]) row.assign(row.size(), values[t++ % values.size()]);
  }
}
inline void to_unit_length(Matrix& rows) {
  for (Vector& row : rows) {
    const double length = std::sqrt(dot(row, row));
    if (length > 0) row = scaled(1 / length, row);
  }
}

/// Keys of length 1 and beta = 2: every write reflects. 3e-6, 7e-3, 5e-2; grows with the number of tokens.
inline void reflections(Sequence& s) {
  to_unit_length(s.k);
  set_gate(s, "beta", 2);
}
/// The same with keys whose cosine is about 0.9. 3e-5, 2e-2, 1e-1.
inline void parallel_reflections(Sequence& s) {
  to_unit_length(s.k);
  if (!s.k.empty()) {
    const Vector first = s.k.front();
    for (Vector& k : s.k) k = plus(scaled(0.3, k), 0.9, first);
  }
  reflections(s);
}
/// One key, written again and again: full erase each time.
inline void identical_keys(Sequence& s) {
  to_unit_length(s.k);
  for (Vector& k : s.k) k = s.k.front();
  set_gate(s, "beta", 1);
}
/// One key and beta = 2: what was written alternates in sign and adds up. 1e-3 at 1024 tokens, 0.9, useless.
inline void identical_reflections(Sequence& s) {
  identical_keys(s);
  set_gate(s, "beta", 2);
}
inline void zero_keys(Sequence& s) {
  for (std::size_t n = 0; n < s.k.size(); n += 3) s.k[n].assign(s.k[n].size(), 0);
}
/// beta = 0: nothing is written and nothing erased.
inline void no_writes(Sequence& s) { set_gate(s, "beta", 0); }

inline void open_gates(Sequence& s) { set_log_decays(s, {0}); }
/// Beyond what a chunk's factors e^G, e^-G can hold in fp32. 3e-6, 1e-3, 1e-2.
inline void shut_gates(Sequence& s) { set_log_decays(s, {-20}); }
inline void tightly_shut_gates(Sequence& s) { set_log_decays(s, {-60}); }
/// Resets among open gates: sums over a chunk of -20 and 0 lose what differs between neighbours.
inline void resets(Sequence& s) { set_log_decays(s, {0, -0.01, -20, 0, -0.1, -60, 0}); }
/// Neighbouring channels open and shut at the same token (gates with channels only).
inline void mixed_channels(Sequence& s) {
  for (const char* gate : {"log_decay", "log_decay_v"}) {
    if (!s.has(gate)) continue;
    std::size_t t = 0;
    for (Vector& row : s.in[gate]) {
      for (std::size_t c = 0; c < row.size(); ++c) row[c] = Vector{0, -20, -1, -60}[(c + t) % 4];
      ++t;
    }
  }
}

/// Scores of a thousand: e^s overflows unless taken relative to the row's largest. So does e^800, a gate.
inline void huge_logits(Sequence& s) {
  for (Vector& q : s.q) q = scaled(400, q);
  if (!s.has("log_input")) return;
  std::size_t t = 0;
  for (Vector& row : s.in["log_input"]) row.assign(row.size(), Vector{0, 500, -500, 300, 800}[t++ % 5]);
}
/// Equal scores, all far from 0.
inline void equal_logits(Sequence& s) {
  for (Vector& k : s.k) k = s.k.front();
  huge_logits(s);
}

inline const std::vector<HardCase>& hard_cases() {
  static const std::vector<HardCase> all = {{"reflections", reflections},
                                            {"parallel_reflections", parallel_reflections},
                                            {"identical_keys", identical_keys},
                                            {"identical_reflections", identical_reflections},
                                            {"zero_keys", zero_keys},
                                            {"no_writes", no_writes},
                                            {"open_gates", open_gates},
                                            {"shut_gates", shut_gates},
                                            {"tightly_shut_gates", tightly_shut_gates},
                                            {"resets", resets},
                                            {"mixed_channels", mixed_channels},
                                            {"huge_logits", huge_logits},
                                            {"equal_logits", equal_logits}};
  return all;
}

}  // namespace crosstalk::checks
