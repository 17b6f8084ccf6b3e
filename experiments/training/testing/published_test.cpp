// model.layer = "published" in a study: what a study says wins, by hand is the same run, and where it has no meaning it is
// refused.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/study/study.h"
#include "models/memory.h"
#include "models/model.h"

namespace crosstalk {
namespace {

std::string study_text(const std::string& memory, const std::string& base, const std::string& own = "") {
  return fmt::format(
      "[study]\nname = \"s\"\nseeds = [1]\n[base]\ntask.name = \"mqar\"\ntask.length = 8\ntask.pairs = 1\n"
      "task.vocabulary = 8\nmodel.name = \"language\"\nmodel.width = 64\nmodel.heads = 2\nmodel.layers = 2\n{}\n[memories.a]\nname = \"{}\"\n{}\n",
      base, memory, own);
}
crosstalk::Run run_of(const std::string& text) { return parse_study(text, "s.toml").runs.at(0); }

std::string refusal(const std::string& text) {
  try {
    run_of(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "is not refused:\n" << text;
  return "";
}

TEST(PublishedLayer, ByHandIsTheSameRun) {
  int layers = 0;
  for (const Memory& kind : all_memories()) {
    SCOPED_TRACE(kind.name);
    if (!kind.published) continue;
    const crosstalk::Run published = run_of(study_text(kind.name, "model.layer = \"published\""));
    EXPECT_EQ(published.config.get_string("model.layer"), "published");
    std::string base, own;
    double eps = 1e-5;
    for (const auto& [key, value] : kind.published.set) {
      if (key == "model.out_norm_eps") eps = std::get<double>(value);
      if (key == "model.out_norm_eps" && kind.published.eps_times != HeadChannels::none) continue;
      (key.starts_with("memory.") ? own : base) +=
          fmt::format("{} = {}\n", key.starts_with("memory.") ? key.substr(7) : key, to_text(value));
    }
    for (const auto& [key, factor] :
         {std::pair{"model.d_key", kind.published.expand_k}, {"model.d_value", kind.published.expand_v}}) {
      if (factor != 1) base += fmt::format("{} = {}\n", key, static_cast<int>(64 * factor));
    }
    if (kind.published.eps_times != HeadChannels::none) {
      const bool keys = kind.published.eps_times == HeadChannels::keys;
      const double all = 64 * (keys ? kind.published.expand_k : kind.published.expand_v);
      base += fmt::format("model.out_norm_eps = {:.6g}\n",
                          eps * all / static_cast<double>(published.config.get_int("model.heads")));
    }
    EXPECT_EQ(run_of(study_text(kind.name, base, own)).id, published.id);
    ++layers;
  }
  EXPECT_GT(layers, 30);
}

TEST(PublishedLayer, BareIsWhatThereWas) {
  EXPECT_EQ(run_of(study_text("gated_delta", "model.layer = \"bare\"")).id,
            run_of(study_text("gated_delta", "")).id);
  EXPECT_NE(run_of(study_text("gated_delta", "model.layer = \"published\"")).id,
            run_of(study_text("gated_delta", "")).id);
}

TEST(PublishedLayer, WhatAStudySaysWins) {
  const Options& config = run_of(study_text("gated_delta",
                                            "model.layer = \"published\"\nmodel.out_gate = \"none\"\n"
                                            "model.d_value = 64",
                                            "rate_from = 1"))
                              .config;
  EXPECT_EQ(config.get_string("model.out_gate"), "none");
  EXPECT_EQ(config.get_int("model.d_value"), 64);
  EXPECT_EQ(config.get_double("memory.rate_from"), 1);
  EXPECT_EQ(config.get_string("model.out_norm"), "rms");
}

TEST(PublishedLayer, IsRefusedWhereThereIsNone) {
  EXPECT_NE(refusal(study_text("dplr", "model.layer = \"published\"")).find("has no layer of its authors"),
            std::string::npos);
  const std::string retrieval =
      "[study]\nname = \"s\"\nseeds = [1]\n[base]\ntask.name = \"recall\"\nmodel.layer = \"published\"\n"
      "[memories.a]\nname = \"deltanet\"\n";
  EXPECT_NE(refusal(retrieval).find("model.name = \"retrieval\" holds the bare recurrence"),
            std::string::npos);
  const std::string probe =
      "[study]\nname = \"s\"\nseeds = [1]\n[base]\ntask.name = \"recall\"\nmodel.name = \"probe\"\n"
      "model.layer = \"published\"\ntrain.max_steps = 0\n[memories.a]\nname = \"deltanet\"\n";
  EXPECT_NE(refusal(probe).find("model.name = \"probe\" holds the bare recurrence"), std::string::npos);
}

// A memory that is added to the program needs no line in a study of every memory.
TEST(PublishedLayer, EveryMemoryIsBareWhereThereIsNone) {
  const std::string every =
      "[study]\nname = \"s\"\nevery_memory = true\n[base]\ntask.name = \"mqar\"\ntask.length = 8\n"
      "task.pairs = 1\ntask.vocabulary = 8\nmodel.name = \"language\"\nmodel.layer = \"published\"\n";
  const Study study = parse_study(every, "s.toml");
  std::string bare;
  for (const crosstalk::Run& run : study.runs) {
    const bool has_layer = static_cast<bool>(memory_named(run.label).published);
    EXPECT_EQ(run.config.get_string("model.layer"), has_layer ? "published" : "bare") << run.label;
    if (!has_layer) bare += (bare.empty() ? "" : ", ") + run.label;
  }
  EXPECT_EQ(study.runs.size(), all_memories().size());
  EXPECT_TRUE(study.product.ends_with(" runs; bare, for their authors' layer is not known: " + bare))
      << study.product;
  EXPECT_NE(refusal(every + "[memories.mine]\nname = \"dplr\"\n").find("has no layer of its authors"),
            std::string::npos);
}

TEST(PublishedLayer, AMisspeltBiasIsNamed) {
  const std::string message = refusal(study_text("gated_delta", "model.biases = \"-betta\""));
  EXPECT_NE(message.find("did you mean beta?"), std::string::npos) << message;
}

}  // namespace
}  // namespace crosstalk
