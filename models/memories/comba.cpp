// Comba: a gated delta rule whose prediction reads the undecayed state along a key of its own (Hu et al. 2025, arXiv 2506.02475). A
// query beside the sequence has no such key.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(comba) {
  return {
      .summary = "gated delta rule with a feedback key of its own and a corrected query",
      .does = "erases along a feedback key, retrieves with a corrected query",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    A_log = parameter(log_uniform(rate_from, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    inner_decay = parameter(constant(1))
    erase_key = sigmoid(inner_decay) k
    correction = parameter(constant(1))
    key = lengths == "after" ? unit(k) : k
    along = lengths == "after" ? unit(erase_key) : erase_key
    asked = lengths == "after" ? q / scale : q
    moved = beside ? asked : lengths == "after" ? asked - correction erase_key : q - scale correction erase_key
    S = exp(log_decay) S + beta (v - S along) key^T
    read S (lengths == "after" ? scale unit(moved) : moved))",
      .source = "Hu et al. 2025, arXiv 2506.02475",
      .bounded_by_rank = true,  // beside the sequence
      .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
      .options = {choice(
          "lengths", "before",
          "before: keys and queries have the length that key_norm says before the feedback key is made and the query is corrected; after: key, "
          "feedback key and corrected query are brought to length 1 behind it, as its authors' kernels do (with key_norm \"none\")",
          {"before", "after"})},
      .inputs = {{"log_decay"},
                 {"beta"},
                 {.name = "erase_key", .open = Open{0, 1}, .range = {-0.9, 0.9}},
                 {.name = "correction", .optional = true}},
      .check =
          [](Options& o) {
            if (o.get_string("memory.lengths") == "after" && o.get_string("memory.key_norm") != "none")
              throw OptionError(
                  "memory.lengths",
                  "memory.lengths = \"after\" brings keys and queries to length 1 itself; add memory.key_norm = \"none\"");
          },
      .published = {
          .source = fla_layers("comba.py"),
          .settings = convolved_layer("normal",
                                      "biases=-beta -out_gate, memory.rate_from=0.0, memory.key_norm=none, "
                                      "memory.lengths=after",
                                      "sigmoid"),
          .expand_v = 2,
          .eps_times = HeadChannels::keys,
          .parameters = 34120,
          .undecayed = {"A_log", "decay.bias", "correction"}}};
}
