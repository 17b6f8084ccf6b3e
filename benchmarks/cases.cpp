// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/cases.h"

#include <fmt/format.h>

namespace crosstalk::benchmarks {

// What a step must compute, whoever computes it. Per step, with S keys, embeddings of width e, keys of width
// d, batches of B sequences of L tokens, p features a key, a product of two numbers and its sum counting 2:
//
//   6 S e d   keys: the table E W_k^T of all S keys (2 S e d), its gradient with respect to E and to W_k
//   6 B e d   queries: E[query] W_q^T and its two gradients
//   6 p B L   sum rule and softmax: the scores k_t.q (2 p B L), their gradient with respect to k and to q
//  14 p B L   delta rule, read without forming its state: k_t.r, r -= a k (4 p B L) forward; k_t.rho, k_t.r,
//  the
//             two terms of d_k and rho += d_c k (10 p B L) backward
//
// Feature maps, normalisations, look-ups of value rows and Adam (12 numbers moved a parameter) are left out:
// they are bound by memory, and peers may do them otherwise. Forming one-hot tokens and the S x p state, as
// the released code does, costs 50 to 130 times as much.
double Case::flop_per_step() const {
  const double e = embedding(), s = S, l = L;
  return 6 * s * e * d + 6 * B * e * d + per_feature * static_cast<double>(p) * B * l;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"linear S=100", "recall", "name = \"linear_attention\"\nfeature_map = \"elu1\"\n", 100, 100, 64, 6},
      {"DPFP-1 delta S=100 (L=200)", "reassign",
       "name = \"delta\"\nfeature_map = \"dpfp\"\nnu = 1\nkey_norm = \"sum\"\n", 100, 200, 128, 14},
      {"softmax S=100", "recall", "name = \"softmax\"\n", 100, 100, 64, 6},
  };
  return all;
}

std::vector<Run> runs_of(const Case& c, int count, std::int64_t steps, std::int64_t every) {
  const std::string text = fmt::format(
      "[study]\nname = \"benchmark\"\nseeds = {{ range = [1, {}] }}\n"
      "[base]\ntask.name = \"{}\"\ntask.associations = {}\ntask.queries = 1\nmodel.d_key = {}\n"
      "train.learning_rate = 1e-3\ntrain.batch = {}\ntrain.max_steps = {}\ntrain.stop_loss = 0.0\n"
      "train.patience = 1_000_000_000\neval.every = {}\neval.sequences = 1\n"
      "[memories.M]\n{}[[grid]]\nmemory = \"M\"\n",
      count, c.task, c.S, static_cast<int>(c.d), static_cast<int>(c.B), steps, every, c.memory);
  return parse_study(text, "benchmark study of " + c.name).runs;
}

}  // namespace crosstalk::benchmarks
