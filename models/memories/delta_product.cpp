// DeltaProduct: N delta steps a token, each with its own key and rate; the state fades before the first,
// reads come after the last (Siems et al. 2025, arXiv 2502.10297).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/no_effect.h"
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(delta_product) {
  return {
      .summary = "several delta steps a token: products of reflections, hence rotations",
      .does = "takes several delta steps: products of reflections",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    A_log = parameter(log_uniform(rate_from, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    S = learned ? (decay == "mamba" ? exp(log_decay) S : S) : exp(log_decay) S
    S += beta (v - S k) k^T
    read S q)",
      .source = "Siems et al. 2025, arXiv 2502.10297",
      .notes =
          "The last step is one of every write of a token. decay \"mamba\" decays as Gated DeltaNet does, \"none\" not at all. In the retrieval "
          "model a token's steps share its value.",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
      .options = {number("writes", 2, "delta steps a token (N)", 1, 16, {1, 2}),
                  choice("decay", "none", "whether the state decays before a token's steps",
                         {"none", "mamba"})},
      .inputs = {{.name = "beta", .per = Per::write}, {.name = "log_decay", .optional = true}},
      .check =
          [](Options& o) {
            if (o.has("model.name") && o.get_string("memory.decay") == "none")
              refuse_without_effect(o, "memory", rate_from().options, "rate_from",
                                    "with memory.decay = \"none\"", "set memory.decay = \"mamba\" too");
          },
      .published = {
          .source = fla_layers("gated_deltaproduct.py"),
          .settings = convolved_layer("normal",
                                      "biases=-beta -out_gate, memory.beta_max=2.0, memory.decay=mamba, "
                                      "memory.rate_from=0.0",
                                      "silu"),
          .expand_v = 2,
          .eps_times = HeadChannels::keys,
          .parameters = 47300,
          .undecayed = {"A_log", "decay.bias"}}};
}
