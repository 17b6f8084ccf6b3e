// RWKV-7 (Peng et al. 2025, arXiv 2503.14456); in a model k is k * (1 + (in_context_rate - 1) * c).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"
#include "models/parts/ramps.h"

namespace crosstalk::memories {

Memory rwkv7() {
  return {
      .name = "rwkv7",
      .summary = "erases along one key and writes along another, with rates for every channel",
      .does = "erases along one key at rates a channel, writes along another",
      .family = Family::erases,
      .law = R"(
    S = S diag(exp(log_decay)) - (S erase_key) (in_context_rate * erase_key)^T + v k^T
    read S q)",
      .laws =
          "erase_key = unit(k * u), k times 1 + (in_context_rate - 1) * c, in_context_rate = sigmoid(W2 W1 token + b), log_decay = -exp(-1/2) sigmoid(W4 W3 token + b'); start ramps: W4 tanh(W3 token) + b'",
      .source = "Peng et al. 2025, arXiv 2503.14456",
      .parts = {feature_map("identity"), key_norm("none")},
      .options =
          {{"start",
            std::string("ramps"),
            "ramps: the decay goes through tanh, and its bias, that of a, u and c start as ramps over the "
            "channels and the depth of the layer, as its authors start them; constants: the decay is "
            "linear, u starts as 0.85 and c as 1, biases as the model's",
            0,
            0,
            {"ramps", "constants"}},
           {"rank",
            std::string("head"),
            "rank of the maps of decays and of rates: the size of a head's keys (head), or one that grows with the "
            "width, 2.5 sqrt(model.width) K / 64 in multiples of 32 (width), as its authors have it",
            0,
            0,
            {"head", "width"}}},
      .inputs = {{.name = "log_decay", .per = Per::key, .range = {-1.5, -0.01, -20}},
                 {.name = "erase_key", .per = Per::key, .open = Open{0, 1}, .range = {-0.9, 0.9}},
                 {.name = "in_context_rate", .per = Per::key, .range = {0.05, 0.95}}},
      .read_at_all = true,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            auto key = k;
            const bool ramps = m.text("start") == "ramps";
            const int rank = m.text("rank") == "width" ? rwkv7_rank(2.5 * m.d / 64, m.token_size()) : m.d;
            const Rwkv7Starts start = rwkv7_starts(m.H, m.K, m.depth());
            const auto ramp = [&](const std::vector<double>& numbers, Init otherwise) {
              return ramps ? Init::listed(numbers) : otherwise;
            };
            const auto bias = [&](const std::vector<double>& numbers) {
              return ramps ? std::optional(Init::listed(numbers)) : std::nullopt;
            };
            const auto g = m.input("log_decay", [&] {
              return -0.6065306597126334 * sigmoid(m.token("decay", m.K, bias(start.decay),
                                                           {rank, ramps ? MapKind::tanh : MapKind::affine}));
            });
            const auto kappa = m.input("erase_key", [&] {
              return unit(key * m.parameter("erase_scale", {m.H, m.K},
                                            ramp(start.erase_scale, Init::constant(0.85))));
            });
            const auto rate = m.input("in_context_rate",
                                      [&] { return sigmoid(m.token("rate", m.K, bias(start.rate), rank)); });
            if (m.learned())
              key = key * (1.0 + (-1.0 + rate) *
                                     m.parameter("key_mix", {m.H, m.K}, Init::constant(ramps ? 1.02 : 1)));
            m.note("written_key", key);
            return read(m, q,
                        {.key = key,
                         .log_decay = g,
                         .erase = Erase::free,
                         .erase_read = kappa,
                         .erase_write = rate * kappa,
                         .decayed = false});
          },
      .published = {
          .source = "Peng et al. 2025, arXiv 2503.14456; fla-org/flash-linear-attention@bc3b101d "
                    "fla/layers/rwkv7.py",
          .set = {{"model.input_shift", "static"},
                  {"model.input_shift_start", "rwkv7"},
                  {"model.biases", "-out_gate"},
                  {"model.out_norm", "group"},
                  {"model.bonus", true},
                  {"model.out_gate", "lora"},
                  {"model.out_gate_rank", std::int64_t{-2}},
                  {"memory.rank", "width"},
                  {"model.value_residual", true},
                  {"model.key_start", 0.1},
                  {"model.projection_start", "orthogonal"},
                  {"model.out_norm_start", "depth"},
                  {"model.out_deviation", "zero"}},
          .eps_times = HeadChannels::values,
          .parameters = 29504,  // of the first layer; a later one has 4160 more, of the value residual
      }};
}

}  // namespace crosstalk::memories
