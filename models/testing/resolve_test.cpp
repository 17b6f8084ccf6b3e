// Meaning of the settings of memories: derived dimensions, refusals with their reasons, descriptions.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "models/model.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::resolve_test {

Options with(const std::string& memory, const Settings& settings, int d_key = 8) {
  Options options = memory_options(*find_memory(memory), d_key, 5, 4);
  for (const auto& [name, value] : settings) options.set("memory." + name, value);
  return options;
}

// Message of the refusal; fails the test where there is none or it blames another key.
std::string refusal(const std::string& memory, const Settings& settings, const std::string& key,
                    int d_key = 8) {
  Options options = with(memory, settings, d_key);
  const Refused found = refused([&] { find_memory(memory)->resolve(options); });
  EXPECT_EQ(found.key, key) << memory << ": " << found.why;
  return found.why;
}

std::int64_t d_dot_of(const std::string& memory, const Settings& settings, int d_key = 8) {
  const Memory& kind = *find_memory(memory);
  const Options options = resolved(kind, with(memory, settings, d_key));
  EXPECT_EQ(options.get_int("memory.d_dot"), kind.d_dot(options));
  return kind.d_dot(options);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> with_feature_maps() {
  std::vector<std::string> names;
  for (const Memory& kind : all_memories())
    for (const OptionSpec& spec : kind.options)
      if (spec.name == "feature_map") names.push_back(kind.name);
  return names;
}

TEST(Resolve, DerivesTheFeatureDimension) {
  for (const std::string& memory : with_feature_maps()) {
    SCOPED_TRACE(memory);
    const Settings plain = {{"key_norm", "none"}, {"read_norm", "none"}};
    const auto plus = [&](Settings more) {
      more.insert(more.end(), plain.begin(), plain.end());
      return more;
    };
    for (const char* map : {"identity", "elu1", "relu", "tanh"})
      EXPECT_EQ(d_dot_of(memory, plus({{"feature_map", map}})), 8) << map;
    EXPECT_EQ(d_dot_of(memory, plus({{"feature_map", "dpfp"}})), 16);
    EXPECT_EQ(d_dot_of(memory, plus({{"feature_map", "dpfp"}, {"nu", 3}})), 48);
    EXPECT_EQ(d_dot_of(memory, plus({{"feature_map", "favor"}})), 16);
    EXPECT_EQ(d_dot_of(memory, plus({{"feature_map", "favor"}, {"features", 20}})), 40);
    EXPECT_EQ(
        d_dot_of(memory, plus({{"feature_map", "favor"}, {"features", 20}, {"favor_variant", "positive"}})),
        20);
  }
}

TEST(Resolve, SolvesDDotForNuAndFeatures) {
  for (const std::string& memory : with_feature_maps()) {
    SCOPED_TRACE(memory);
    const Memory& kind = *find_memory(memory);
    Options dpfp =
        resolved(kind, with(memory, {{"feature_map", "dpfp"}, {"d_dot", 48}, {"read_norm", "none"}}));
    EXPECT_EQ(dpfp.get_int("memory.nu"), 3);
    EXPECT_EQ(kind.d_dot(dpfp), 48);
    Options favor =
        resolved(kind, with(memory, {{"feature_map", "favor"}, {"d_dot", 48}, {"read_norm", "none"}}));
    EXPECT_EQ(favor.get_int("memory.features"), 24);
    Options positive = resolved(kind, with(memory, {{"feature_map", "favor"},
                                                    {"favor_variant", "positive"},
                                                    {"d_dot", 48},
                                                    {"read_norm", "none"}}));
    EXPECT_EQ(positive.get_int("memory.features"), 48);
    EXPECT_EQ(d_dot_of(memory, {{"feature_map", "elu1"}, {"d_dot", 8}, {"read_norm", "none"}}), 8);
    // Agreeing twice is no contradiction.
    EXPECT_EQ(d_dot_of(memory, {{"feature_map", "dpfp"}, {"nu", 2}, {"d_dot", 32}, {"read_norm", "none"}}),
              32);
  }
}

TEST(Resolve, RefusesDDotWithoutSolution) {
  for (const std::string& memory : with_feature_maps()) {
    SCOPED_TRACE(memory);
    const std::string odd =
        refusal(memory, {{"feature_map", "dpfp"}, {"d_dot", 40}, {"read_norm", "none"}}, "memory.d_dot");
    EXPECT_TRUE(has(odd, "40") && has(odd, "16")) << odd;  // what was asked, and the step that it must obey
    refusal(memory, {{"feature_map", "elu1"}, {"d_dot", 16}, {"read_norm", "none"}}, "memory.d_dot");
    refusal(memory, {{"feature_map", "favor"}, {"d_dot", 33}, {"read_norm", "none"}}, "memory.d_dot");
    refusal(memory, {{"feature_map", "dpfp"}, {"nu", 2}, {"d_dot", 48}, {"read_norm", "none"}},
            "memory.d_dot");
  }
}

TEST(Resolve, RefusesNuBeyondItsLargestUse) {
  for (const std::string& memory : with_feature_maps()) {
    SCOPED_TRACE(memory);
    EXPECT_EQ(d_dot_of(memory, {{"feature_map", "dpfp"}, {"nu", 15}, {"read_norm", "none"}}), 240);
    const std::string message =
        refusal(memory, {{"feature_map", "dpfp"}, {"nu", 16}, {"read_norm", "none"}}, "memory.nu");
    EXPECT_TRUE(has(message, "15")) << message;  // rolls of 2 d_key = 16 numbers repeat after 15
  }
}

TEST(Resolve, RefusesOptionsOfAnotherFeatureMap) {
  for (const std::string& memory : with_feature_maps()) {
    SCOPED_TRACE(memory);
    EXPECT_TRUE(has(refusal(memory, {{"feature_map", "elu1"}, {"nu", 2}, {"read_norm", "none"}}, "memory.nu"),
                    "dpfp"));
    refusal(memory, {{"feature_map", "favor"}, {"nu", 2}, {"read_norm", "none"}}, "memory.nu");
    EXPECT_TRUE(has(refusal(memory, {{"feature_map", "dpfp"}, {"features", 16}, {"read_norm", "none"}},
                            "memory.features"),
                    "favor"));
  }
}

// C(d_key + degree, degree) monomials; a degree from d_dot, and what has none.
TEST(Resolve, TaylorAndPowerHaveAsManyFeaturesAsMonomials) {
  for (const char* map : {"taylor", "power"}) {
    const auto with_map = [&](Settings more) {
      more.insert(more.end(), {{"feature_map", map}, {"read_norm", "none"}});
      return more;
    };
    EXPECT_EQ(d_dot_of("linear_attention", with_map({})), 45);
    EXPECT_EQ(d_dot_of("linear_attention", with_map({{"degree", 3}})), 165);
    const Options solved =
        resolved(*find_memory("linear_attention"), with("linear_attention", with_map({{"d_dot", 495}})));
    EXPECT_EQ(solved.get_int("memory.degree"), 4);
    const std::string none = refusal("linear_attention", with_map({{"d_dot", 100}}), "memory.d_dot");
    EXPECT_TRUE(has(none, "100") && has(none, "C(d_key + degree, degree)")) << none;
    const std::string many = refusal("linear_attention", with_map({{"degree", 8}}), "memory.degree", 512);
    EXPECT_TRUE(has(many, "512") && has(many, "8")) << many;
    // Odd degrees have negative products, by whose sum nothing divides.
    const std::string odd =
        refusal("linear_attention", {{"feature_map", map}, {"degree", 3}}, "memory.read_norm");
    EXPECT_TRUE(has(odd, "degree 3") && has(odd, "even")) << odd;
    EXPECT_EQ(d_dot_of("linear_attention", {{"feature_map", map}}), 45);
  }
}

TEST(Resolve, RandomAndLearnedMapsHaveTheirDimensions) {
  const auto d_dot = [&](const char* map, Settings more) {
    more.insert(more.end(), {{"feature_map", map}, {"read_norm", "none"}});
    return d_dot_of("linear_attention", more);
  };
  EXPECT_EQ(d_dot("rfa", {}), 16);
  EXPECT_EQ(d_dot("rfa", {{"d_dot", 40}}), 40);
  EXPECT_EQ(d_dot("favor_relu", {{"features", 24}}), 24);
  EXPECT_EQ(d_dot("hedgehog", {}), 16);
  EXPECT_EQ(d_dot("silu", {}), 8);
  refusal("linear_attention", {{"feature_map", "hedgehog"}, {"d_dot", 8}}, "memory.d_dot");
  EXPECT_TRUE(has(refusal("linear_attention", {{"feature_map", "taylor"}, {"hedgehog_variant", "exp"}},
                          "memory.hedgehog_variant"),
                  "hedgehog"));
}

// Hedgehog's W and b are learned, for queries and for keys; W starts as the identity, b as zero.
TEST(Resolve, HedgehogLearnsItsProjections) {
  Options options =
      resolved(*find_memory("linear_attention"), with("linear_attention", {{"feature_map", "hedgehog"}}));
  const auto model = make_model<double>(options, {5, 4, false}, Device::cpu, 1);
  model->initialise(0, 1);
  std::set<std::string> learned;
  auto& block = model->parameters();
  for (int i = 0; i < block.count(); ++i) {
    if (!has(block.name(i), "hedgehog")) continue;
    learned.insert(block.name(i));
    for (std::int64_t j = 0; j < block.value(i).size(); ++j) EXPECT_EQ(block.value(i).at(0)[j], 0);
  }
  EXPECT_EQ(learned, (std::set<std::string>{"memory.hedgehog.key.bias", "memory.hedgehog.key.weight",
                                            "memory.hedgehog.query.bias", "memory.hedgehog.query.weight"}));
}

TEST(Resolve, RefusesSumsThatCanVanish) {
  for (const std::string& memory : with_feature_maps()) {
    SCOPED_TRACE(memory);
    for (const char* map : {"identity", "tanh", "silu"}) {
      const std::string sum = refusal(
          memory, {{"feature_map", map}, {"key_norm", "sum"}, {"read_norm", "none"}}, "memory.key_norm");
      EXPECT_TRUE(has(sum, map) && has(sum, "sum")) << sum;
      if (memory == "fwm") continue;
      const std::string read =
          refusal(memory, {{"feature_map", map}, {"key_norm", "none"}, {"read_norm", "attention"}},
                  "memory.read_norm");
      EXPECT_TRUE(has(read, map) && has(read, "sum")) << read;
      EXPECT_EQ(d_dot_of(memory, {{"feature_map", map}, {"key_norm", "l2"}, {"read_norm", "none"}}), 8);
    }
  }
}

TEST(Resolve, FwmHasNoAttentionNormalisation) {
  refusal("fwm", {{"feature_map", "elu1"}, {"key_norm", "none"}, {"read_norm", "attention"}},
          "memory.read_norm");
}

TEST(Resolve, AFormThatDoesNotCoverAMemoryIsRefusedBeforeTraining) {
  EXPECT_TRUE(has(refusal("kda", {{"form", "parallel"}}, "memory.form"), "parallel"));
  const Memory& kind = *find_memory("kda");
  EXPECT_NO_THROW(resolved(kind, with("kda", {{"form", "chunk"}}, 8)));
}

// Every combination is either built or refused with an option's name and a reason; and enough of each.
TEST(Resolve, EveryCombinationIsAcceptedOrRefusedByName) {
  for (const Memory& kind : all_memories()) {
    SCOPED_TRACE(kind.name);
    std::set<std::string> names = {"model.d_key"};
    for (const OptionSpec& spec : kind.options) names.insert("memory." + spec.name);
    int accepted = 0, refused = 0;
    for (const Setting& setting : all_settings(kind, 4, 5, 4)) {
      try {
        const Options once = resolved(kind, setting.options);
        EXPECT_EQ(resolved(kind, once), once) << "resolving twice changes " << setting.name;
        if (kind.d_dot(once) != 0) {
          EXPECT_GT(kind.d_dot(once), 0);
        }
        EXPECT_GT(kind.state_size(once, 4, 5), 0);
        ++accepted;
      } catch (const OptionError& error) {
        EXPECT_TRUE(names.count(error.key)) << error.key << ": " << error.what();
        EXPECT_GT(std::string(error.what()).size(), 30u) << error.what();
        ++refused;
      }
    }
    RecordProperty(kind.name + "_accepted", accepted);
    RecordProperty(kind.name + "_refused", refused);
    EXPECT_GT(accepted, 0);
    if (kind.options.size() > 3) {
      EXPECT_GT(refused, 0);
    }
  }
}

TEST(Describe, EveryMemoryNamesItsSource) {
  std::set<std::string> names;
  for (const Memory& kind : all_memories()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name << " is registered twice";
    EXPECT_EQ(find_memory(kind.name), &kind);
    EXPECT_FALSE(kind.summary.empty()) << kind.name;
    // The law of a rule is its user's. What no paper has is read in code, at a commit.
    EXPECT_TRUE(has(kind.source, kind.name == "rule" ? "docs/rules.md" : "arXiv") ||
                has(kind.source, "fla-org/flash-linear-attention@"))
        << kind.name << ": " << kind.source;
    EXPECT_FALSE(kind.does.empty() || kind.does.back() == '.') << kind.name << ": " << kind.does;
    EXPECT_FALSE(kind.equation.empty() || kind.source.empty()) << kind.name;
    for (const OptionSpec& spec : kind.options) {
      EXPECT_GT(spec.help.size(), 8u) << kind.name << "." << spec.name;
      EXPECT_NE(spec.help.back(), '.') << kind.name << "." << spec.name;
      EXPECT_NO_THROW(check_option(spec, "memory", spec.default_value)) << kind.name << "." << spec.name;
    }
  }
  EXPECT_EQ(find_memory("no such memory"), nullptr);
}

TEST(Describe, EveryFeatureMapIsListedAndUsable) {
  std::set<std::string> listed;
  for (const FeatureMapInfo& info : feature_map_infos()) {
    listed.insert(info.name);
    EXPECT_FALSE(info.formula.empty() || info.d_dot.empty() || info.source.empty()) << info.name;
  }
  for (const Memory& kind : all_memories())
    for (const OptionSpec& spec : kind.options) {
      if (spec.name != "feature_map") continue;
      EXPECT_EQ(std::set<std::string>(spec.choices.begin(), spec.choices.end()), listed) << kind.name;
    }
}

TEST(Describe, EmbeddingSizeIsThatOfTheReleasedCode) {
  for (const auto& [keys, values, want] :
       std::vector<std::tuple<int, int, int>>{{20, 20, 44}, {5, 4, 9}, {100, 100, 220}, {300, 301, 661}}) {
    Options options;
    fill_defaults(options, "model", model_options());
    resolve_model(options, {keys, values});
    EXPECT_EQ(options.get_int("model.embedding"), want);
    options.set("model.embedding", 7);
    resolve_model(options, {keys, values});
    EXPECT_EQ(options.get_int("model.embedding"), 7);
  }
}

}  // namespace crosstalk::checks::resolve_test
