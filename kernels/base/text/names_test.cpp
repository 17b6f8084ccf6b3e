// Which name is meant by a misspelt one.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace crosstalk {
namespace {

TEST(Names, TypingErrorsFindTheNearest) {
  EXPECT_EQ(nearest_name("asociations", {"associations", "queries"}), "associations");
  EXPECT_EQ(nearest_name("rnu", {"run", "export"}), "run");
  EXPECT_EQ(nearest_name("zzz", {"associations"}), "");
  EXPECT_EQ(nearest_name("", {"a"}), "");
}

TEST(Names, WhatIsFarAwayIsNotSuggested) {
  EXPECT_EQ(nearest_name("device", {"degree"}), "");
  EXPECT_EQ(nearest_name("mad", {"mqar", "path", "gla"}), "");
  EXPECT_EQ(nearest_name("python", {"path", "mqar"}), "");
  EXPECT_EQ(nearest_name("best", {"mesa"}), "");
  EXPECT_EQ(nearest_name("s5", {"s4d"}), "");
  EXPECT_EQ(nearest_name("gsa", {"gla"}), "");
}

TEST(Names, CaseAndPunctuationDoNotCount) {
  EXPECT_EQ(nearest_name("AdamW", {"adam", "adamw"}), "adamw");
  EXPECT_EQ(nearest_name("DeltaNet", {"delta", "deltanet"}), "deltanet");
  EXPECT_EQ(nearest_name("Gated-DeltaNet", {"gated_delta", "deltanet"}), "gated_delta");
  EXPECT_EQ(nearest_name("learning-rate", {"learning_rate"}), "learning_rate");
}

TEST(Names, SynonymsCountBeforeNearness) {
  EXPECT_EQ(nearest_name("fp16", {"fp32", "fp64", "tf32", "bf16"}), "bf16");
  EXPECT_EQ(nearest_name("Mamba", {"mamba1", "mamba2"}), "mamba2");
  EXPECT_EQ(nearest_name("attention", {"gated_attention", "softmax"}), "softmax");
  EXPECT_EQ(nearest_name("transformer", {"softmax", "retnet"}), "softmax");
  EXPECT_EQ(nearest_name("lr", {"train.batch", "train.learning_rate"}), "train.learning_rate");
  EXPECT_EQ(nearest_name("attention", {"a", "b"}), "");  // only where there is such a thing
}

TEST(Names, TheOnlyOneThatBeginsSo) {
  EXPECT_EQ(nearest_name("assoc", {"associations", "queries"}), "associations");
  EXPECT_EQ(nearest_name("del", {"delta", "deltanet"}), "");
  EXPECT_EQ(nearest_name("memory", {"tasks", "memories"}), "memories");
}

TEST(Names, TheOnlyOneThatEndsSo) {
  EXPECT_EQ(nearest_name("d_key", {"model.d_key", "model.d_value"}), "model.d_key");
  EXPECT_EQ(nearest_name("dkey", {"model.d_key", "model.d_value"}), "model.d_key");
  EXPECT_EQ(nearest_name("name", {"model.name", "task.name"}), "");
}

TEST(Names, SynonymsAreFoldedAndStandOnceUnderAName) {
  for (const Synonym& synonym : synonyms()) {
    std::set<std::string_view> seen;
    for (const std::string_view other : synonym.others) {
      EXPECT_TRUE(std::all_of(other.begin(), other.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      })) << other;
      EXPECT_TRUE(seen.insert(other).second) << other;
    }
  }
}

}  // namespace
}  // namespace crosstalk
