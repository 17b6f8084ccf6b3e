// Malformed studies by the thousand, and studies written in another order.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "experiments/study/study_fuzz.h"

namespace crosstalk {
namespace {

const std::string kSmall =
    "[study]\nname = \"s\"\nseeds = [1, 2]\n[base]\ntask.name = \"recall\"\ntrain.batch = 32\n[memories.a]\nname = \"delta\"\nbeta_max = "
    "2\n[memories.b]\nname = \"softmax\"\ntrain.batch = 128\n[[grid]]\nmemory = [\"a\", \"b\"]\n"
    "\"task.associations\" = { range = [4, 8, 2] }\n[[grid.zip]]\n\"model.d_key\" = [16, 32]\n"
    "train.learning_rate = [3e-3, 1e-3]\n[[grid.skip]]\nmemory = \"b\"\ntask.associations = 8\n";

std::string joined(std::initializer_list<std::string> parts) {
  std::string all;
  for (const std::string& part : parts) all.append(part);
  return all;
}

std::string repeated(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all.append(text);
  return all;
}

std::vector<std::string> corpus() {
  using namespace std::string_literals;
  return {kSmall,
          example_study(),
          kSmall + "\0train.batch=1,2\0seeds=range(1,2)\0memory=a"s,
          kSmall + "\0eval.length_factors=1 2\0task.name=reassign"s,
          "i=[}",
          "[[[1]]]",
          "\xCE\xBB = 0.1",
          "a.b.c.d.e.f = [[[[[[]]]]]]",
          "[study]\nname=\"x\"\n[memories.m]\nname=\"softmax\"\n",
          std::string(3000, '['),
          "a = " + std::string(3000, '['),
          "a = " + std::string(3000, '{'),
          std::string(3000, '.'),
          joined({kSmall, "\0train.batch={"s, std::string(3000, '.')}),
          joined({"x.", repeated(3000, "a.\"=\"."), "a = 1"}),
          joined({kSmall, "\0a={x."s, repeated(3000, "a.\"=\"."), "a = 1}"}),
          repeated(250, joined({repeated(100, "a."), "a={"}))};
}

TEST(StudyMutation, CorpusAndItsPrefixes) {
  for (const std::string& seed : corpus()) {
    check_study_reader(seed);
    for (std::size_t end = 0; end < std::min<std::size_t>(seed.size(), 700); ++end)
      check_study_reader(seed.substr(0, end));
  }
}

TEST(StudyMutation, EveryByteReplaced) {
  for (std::size_t i = 0; i < kSmall.size(); ++i) {
    for (const char c : {'[', ']', '{', '"', '=', '.', ',', '\n', '#', '0', '-', '\0', '\xCE'}) {
      std::string text = kSmall;
      text[i] = c;
      check_study_reader(text);
    }
  }
}

TEST(StudyMutation, RandomEdits) {
  std::mt19937 random(20210222);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<std::string> seeds = corpus();
  const std::vector<std::string> words = {
      "[",      "]",        "[[grid]]\n", "{ range = [", "1e999", "9223372036854775807",
      "-",      "\"",       "'''",        "nan",         "task.", "\r\n",
      "memory", "=",        ",",          "\\u",         "true",  "{",
      "}",      "logrange", "0"};
  for (int round = 0; round < 6000; ++round) {
    std::string text = seeds[below(seeds.size())];
    for (std::size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(12));
          break;
        case 2:
          text.insert(at, words[below(words.size())]);
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
      }
    }
    check_study_reader(text);
  }
}

/// kSmall with tables, keys and list items in an order drawn by `seed`.
std::string permuted(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto shuffled = [&](std::vector<std::string> lines) {
    std::shuffle(lines.begin(), lines.end(), random);
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  };
  const auto either = [&](const char* a, const char* b) { return std::string(random() % 2 ? a : b); };
  const std::string grid =
      "[[grid]]\n" +
      shuffled({either("memory = ['a', 'b']", "memory = [\"b\", \"a\"]"),
                either("\"task.associations\" = { range = [4, 8, 2] }", "task.associations = [8, 4, 6]")}) +
      shuffled({"[[grid.zip]]\n" + either("\"model.d_key\" = [16, 32]\ntrain.learning_rate = [3e-3, 1e-3]",
                                          "train.learning_rate = [0.001, 0.003]\n\"model.d_key\" = [32, 16]"),
                "[[grid.skip]]\n" + shuffled({"memory = \"b\"", "task.associations = 8"})});
  return shuffled({"[study]\n" + shuffled({"name = \"s\"", either("seeds = [1, 2]", "seeds = [2, 1]")}),
                   "[base]\n" + shuffled({"task.name = \"recall\"", "train.batch = 32"}),
                   "[memories.a]\n" + shuffled({"name = \"delta\"", "beta_max = 2"}),
                   "[memories.b]\n" + shuffled({"name = \"softmax\"", "train.batch = 128"}), grid});
}

std::set<std::pair<std::string, std::string>> run_set(const std::string& text) {
  std::set<std::pair<std::string, std::string>> all;
  for (const Run& run : parse_study(fixture_schema(), text, "x.toml", {}).runs)
    all.emplace(run.id, run.label);
  return all;
}

RC_GTEST_PROP(StudyProperties, OrderOfTheFileDoesNotMatter, (std::uint32_t seed)) {
  RC_ASSERT(run_set(permuted(seed)) == run_set(kSmall));
}

RC_GTEST_PROP(StudyProperties, ARangeIsItsList, (std::uint8_t first, std::uint8_t span)) {
  const int begin = first + 1, step = 1 + span % 7, end = begin + step * (span % 40);
  std::string list;
  for (int value = begin; value <= end; value += step) list += std::to_string(value) + ", ";
  const std::string head = kSmall.substr(0, kSmall.find("[[grid]]")) + "[[grid]]\ntask.associations = ";
  const std::string range = "{ range = [" + std::to_string(begin) + ", " + std::to_string(end) + ", " +
                            std::to_string(step) + "] }\n";
  RC_ASSERT(run_set(head + range) == run_set(head + "[" + list + "]\n"));
}

}  // namespace
}  // namespace crosstalk
