// DeltaFormer: u_t = w_t v_t - beta_t sum_{j<t} N1(kappa1(x_t.k_j)) u_j, o_n = sum_{j<=n} N2(kappa2(q.k_j))
// u_j, x = k or q (Zhong et al. 2025, arXiv 2505.19488).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "kernels/base/text/no_effect.h"
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(deltaformer) {
  return {
      .summary = "kernel attention that first takes out what earlier tokens hold",
      .does = "stores the value minus what attention over earlier tokens retrieves for its key",
      .family = Family::keeps,
      .equation =
          "u_t = v_t - beta_t sum_{j<t} N1(kappa1(k_t.k_j / sqrt(d))) u_j, o = sum_j N2(kappa2(q.k_j / sqrt(d))) u_j",
      .laws = "beta_t = beta_max sigmoid(w.token + b)",
      .source = "Zhong et al. 2025, arXiv 2505.19488",
      .flops =
          [](const Options&, double K, double, double T, double Q) {
            return 6 * K * T * (Q + T) + 3 * T * T * Q;  // scores of queries and of keys, and a solve
          },
      .parts = {kernels({{"kappa1", "exp"}, {"kappa2", "exp"}}), row_norm("row_norm1", "sum"),
                row_norm("row_norm2", "sum"), key_norm("none"), beta_max()},
      .options =
          {choice("solve_with", "key", "whose products with earlier keys are taken out", {"key", "query"}),
           choice(
               "beta", "learned",
               "the rate at which earlier tokens are taken out: learned from the token, or 1 (the paper's)",
               {"learned", "one"}),
           {"beta_on_write", false, "whether beta scales the value that is written too"}},
      .inputs = {{.name = "beta", .optional = true, .range = {0.05, 0.95}}},
      .check =
          [](Options& o) {
            if (o.has("model.name") && o.get_string("memory.beta") == "one") {
              const std::string why = "with memory.beta = \"one\"",
                                instead = "set memory.beta = \"learned\" too";
              refuse_without_effect(o, "memory", beta_max().options, "beta_max", why, instead);
              if (o.get_bool("memory.beta_on_write")) throw NoEffect("memory.beta_on_write", why, instead);
            }
            if (o.get_string("memory.solve_with") == "key" || !o.has("model.name") ||
                o.get_string("model.name") != "retrieval")
              return;
            throw OptionError(
                "memory.solve_with",
                "memory.solve_with = \"query\" needs a query at every token; in the retrieval model "
                "queries stand beside the sequence: use \"key\"");
          },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            Attention write = kernel_of(m, "kappa1", "row_norm1", m.scale());
            write.strict = true;
            const auto b = attend(m, m.text("solve_with") == "query" ? q : k, k, write, {}, {}, true);
            const auto a = attend(m, q, k, kernel_of(m, "kappa2", "row_norm2", m.scale()));
            const bool rated = m.learned() ? m.text("beta") == "learned" : m.has_input("beta");
            const auto beta = rated ? beta_gate(m) : decltype(a){};
            const auto gain = rated && m.flag("beta_on_write") ? beta : decltype(a){};
            // Weights of the values themselves: where values are ids, or people look at the weights.
            if (m.batch() || m.wants_weights()) return m.mix(solve(a, b, beta), {}, gain);
            const auto v = m.values();
            return m.mix(a, {}, {}, solve_values(gain ? gain * v : v, b, beta));
          },
      .published =
          {.source = "Zhong et al. 2025, arXiv 2505.19488",
           .settings = "memory.beta=one",
           .lacks = {
               {"positions, and the widths of its small experiments, which are not printed",
                "studies say both; accuracies of its table 1 are held against ours at widths of our choice"}}}};
}
