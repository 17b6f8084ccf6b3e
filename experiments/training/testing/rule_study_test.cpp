// Studies of the memory `rule`: what is wrong with a law is said where it stands, and numbers of a law are swept.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "experiments/study/study.h"
#include "experiments/training/optimizer.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

/// Eight lines, then `law`, from line 9.
std::string study_of(const std::string& law, const std::string& grid = "", const std::string& base = "") {
  return "[study]\nname = \"mine\"\nseeds = [1]\n[base]\ntask.name = \"recall\"\nmodel.d_key = 4\n"
         "[memories.mine]\nname = \"rule\"\n" +
         law + "\n" + base + "[[grid]]\nmemory = [\"mine\"]\n" + grid;
}

std::string refusal(const std::string& text) {
  return crosstalk::testing::refusal_of<ConfigError>([&] { parse_study(text, "mine.toml"); }, "read");
}

TEST(RuleStudy, AnErrorOfALawNamesItsLineAndColumn) {
  const auto list = [](const std::string& last) {
    return refusal(
        study_of("law = [\n  \"beta = sigmoid(token)\",\n  \"" + last + "\",\n  \"read S q\",\n]"));
  };
  EXPECT_EQ(list("S += beta (v - S k) k^T"), "read");
  EXPECT_EQ(
      list("S += beta (v - S k) k"),
      "mine.toml:11:24: S += beta (v - S k) k: product of a vector over V and a vector over K; a b^T is their outer product");
  EXPECT_EQ(list("S += sigmoyd(beta) v k^T"),
            "mine.toml:11:9: S += sigmoyd(beta) v k^T: unknown name sigmoyd; did you mean sigmoid?");
  EXPECT_EQ(
      list("S += beta v q^T"),
      "mine.toml:11:16: S += beta v q^T: q asks, so only read may use it; a state's step sees the token: k, v, token");
  EXPECT_EQ(
      list("S += beta v k^T; S *= 2"),
      "mine.toml:11:3: each string of law is one step; write what stands behind ; as a string of its own");
  // In one string the column is that in the line.
  EXPECT_EQ(refusal(study_of("law = \"S += v k^T; read S qq\"")).substr(0, 18), "mine.toml:9:27: S ");
  EXPECT_EQ(refusal(study_of("law = []")),
            "mine.toml:9:1: law has no steps; the least is law = [\"S += v k^T\", \"read S q\"]");
  EXPECT_EQ(refusal(study_of("law = [\"S += v k^T\", 3]")),
            "mine.toml:9:22: law is a list of strings, one a step: law = [\"S += v k^T\", \"read S q\"]");
}

TEST(RuleStudy, ALawThatLooksAtTooMuchIsRefusedWithTheReason) {
  EXPECT_EQ(parse_study(study_of("law = [\"S = tanh(S) + v k^T\", \"read S q\"]"), "mine.toml").runs.size(),
            1u);
  std::string law = "law = [";
  for (int i = 0; i < 30; ++i) {
    law += fmt::format("\"x{0} = token(V)\", \"S += x{0} tanh(S k)^T S\", ", i);
  }
  const std::string said = refusal(study_of(law + "\"read S q\"]"));
  EXPECT_EQ(said.substr(0, 14), "mine.toml:9:1:");
  EXPECT_NE(said.find("nothing can run this law"), std::string::npos) << said;
}

/// Places of a message of several lines: what stands before the third colon of each, and of --set before the second.
std::vector<std::string> places(const std::string& said) {
  std::vector<std::string> all;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    const bool set = line.starts_with("--set");
    all.push_back(set ? line.substr(line.find(": ") + 2) : line.substr(0, line.find(':', 10)));
  }
  return all;
}

TEST(RuleStudy, AllLawsThatAreWrongAreToldAtOnce) {
  const std::string memories =
      "law = \"S += v k; read S q\"\n[memories.other]\nname = \"rule\"\nlaw = [\"S += v k^T\", \"read S qq\"]\n";
  EXPECT_EQ(places(refusal(study_of(memories))), (std::vector<std::string>{"mine.toml:9", "mine.toml:12"}));
  EXPECT_EQ(places(refusal(study_of(memories,
                                    "\"memory.law\" = [\"S += v k^T; read S q\", \"S += v; read S q\"]\n"
                                    "train.bach = 3\n"))),
            (std::vector<std::string>{"mine.toml:9", "mine.toml:12", "mine.toml:16", "mine.toml:17"}));
  // Laws that nothing can run.
  std::string large;
  for (int i = 0; i < 30; ++i) large += fmt::format("x{0} = token(V); S += x{0} tanh(S k)^T S; ", i);
  large = "law = \"" + large + "read S q\"\n";
  EXPECT_EQ(places(refusal(study_of(large + "[memories.other]\nname = \"rule\"\n" + large,
                                    "[[grid]]\nmemory = [\"other\"]\n"))),
            (std::vector<std::string>{"mine.toml:9", "mine.toml:12"}));
  try {
    parse_study(study_of("law = \"S += v k^T; read S q\""), "mine.toml",
                {.set = {"memory.law=\"S += v; read S q\",\"S += v k^T\"", "memory.c=1"}});
    ADD_FAILURE() << "read";
  } catch (const ConfigError& error) {
    const std::vector<std::string> said = places(error.what());
    ASSERT_EQ(said.size(), 2u) << error.what();
    EXPECT_TRUE(said[0].starts_with("S += v; read S q: ")) << said[0];
    EXPECT_TRUE(said[1].starts_with("S += v k^T: ")) << said[1];
  }
}

// Muon trains all matrices of a layer but convolutions, whatever a law calls them.
TEST(RuleStudy, AQuantityIsNoConvolution) {
  const auto matrices = [](const std::string& name) {
    const std::string law = fmt::format("{0} = token(K); S += v ({0} * k)^T; read S q", name),
                      model = "model.name = \"language\"\nmodel.width = 8\n";
    const Options config =
        parse_study(
            fmt::format(
                "[study]\nname = \"m\"\n[base]\ntask.name = \"mqar\"\n{}[memories.m]\nname = \"rule\"\nlaw = \"{}\"\n",
                model, law),
            "mine.toml")
            .runs.at(0)
            .config;
    const auto made =
        make_model<double>(config, find_task("mqar")->make(config)->vocabulary(), Device::cpu, 1);
    return hidden_matrices(made->parameters()).size();
  };
  EXPECT_EQ(matrices("deconv"), matrices("zz"));
}

TEST(RuleStudy, ANumberOfTheLawIsSweptInAGrid) {
  const std::string law = "law = [\"beta = c sigmoid(token)\", \"S += beta (v - S k) k^T\", \"read S q\"]";
  const Study study = parse_study(study_of(law, "\"memory.c\" = [0.5, 1, 2]\n"), "mine.toml");
  ASSERT_EQ(study.runs.size(), 3u);
  std::set<double> numbers;
  std::set<std::string> ids, laws;
  for (const auto& run : study.runs) {
    numbers.insert(run.config.get_double("memory.c"));
    laws.insert(run.config.get_string("memory.law"));
    ids.insert(run.id);
  }
  EXPECT_EQ(numbers, (std::set<double>{0.5, 1, 2}));
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(laws.size(), 1u);
  const std::string without = "law = [\"beta = sigmoid(token)\", \"S += beta (v - S k) k^T\", \"read S q\"]";
  EXPECT_NE(refusal(study_of(without, "\"memory.c\" = [0.5, 2]\n")).find("the law does not name c"),
            std::string::npos);
  const std::string own = "law = [\"c = 2\", \"S += c v k^T\", \"read S q\"]";
  EXPECT_NE(refusal(study_of(own, "\"memory.c\" = [0.5, 2]\n"))
                .find("a step of the law sets c; take that step away"),
            std::string::npos);
}

TEST(RuleStudy, SpellingDoesNotChangeTheRun) {
  const auto id = [](const std::string& law) {
    return parse_study(study_of(law), "mine.toml").runs.at(0).id;
  };
  const std::string want = id("law = [\"beta = sigmoid(token)\", \"S += beta (v - S k) k^T\", \"read S q\"]");
  EXPECT_EQ(id("law = \"beta = sigmoid( token );S = S+(beta)*((v-S k) k^T) ; read  S q\""), want);
  EXPECT_NE(id("law = \"b = sigmoid(token); S += b (v - S k) k^T; read S q\""), want);
}

TEST(RuleStudy, AStackHasNoLawOfItsOwn) {
  const std::string text =
      "[study]\nname = \"mine\"\nseeds = [1]\n[base]\ntask.name = \"words\"\nmodel.name = \"language\"\n"
      "model.layers = 2\nmodel.stack = \"memory rule\"\n[memories.mine]\nname = \"rule\"\n"
      "law = [\"S += v k^T\", \"read S q\"]\n[[grid]]\nmemory = [\"mine\"]\n";
  const std::string said = refusal(text);
  EXPECT_NE(said.find("a law stands in the study only once"), std::string::npos) << said;
  std::string right = text;
  right.replace(right.find("memory rule"), 11, "memory softmax");
  EXPECT_EQ(refusal(right), "read");
}

}  // namespace
}  // namespace crosstalk
