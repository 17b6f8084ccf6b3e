// In-context, noisy and fuzzy recall of MAD: laws of pairs, noise and motifs, which labels are due, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/mad_recall_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::mad_recall_test {

const Settings noisy = {{"vocabulary", 32}, {"noise_vocabulary", 16}, {"noise", 0.2}};
const Settings fuzzy = {{"motif", 3}};

[[maybe_unused]] const bool pinned =
    pin("mad_recall", {{"in_context", {}, 0x4f75baa649ecea65u, 0x1765f242ed0af265u},
                       {"noisy", noisy, 0x9364bf855591b8a1u, 0x1823a2bb3c2359fau},
                       {"fuzzy", fuzzy, 0x512ca8ab3f41f7f0u, 0xc21bb3bf9c4c3d5eu}});

TEST(MadRecall, InContextPairsFollowTheLawAndValuesAreDueFromTheSecondShowingOn) {
  const auto task = make_task("mad_recall");
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{127, 1, 127}));
  Counts keys(8), values(8), last(8);
  for (const SequenceView& s : drawn(*task, Split::eval, 5, 1000)) {
    std::map<int, int> value_of;
    int q = 0;
    for (int t = 0; t < 127; t += 2) {
      const int key = s.tokens[t];
      ASSERT_TRUE(key >= 0 && key < 8);
      if (t < 126) ++keys[key];
      const auto known = value_of.find(key);
      if (known != value_of.end()) {
        ASSERT_EQ(s.query_position[q], t + 1);
        ASSERT_EQ(s.target[q++], known->second);
        if (t < 126) {
          ASSERT_EQ(s.tokens[t + 1], known->second);
        }
        continue;
      }
      ASSERT_LT(t, 126) << "the last key was never shown";
      const int value = s.tokens[t + 1];
      ASSERT_TRUE(value >= 8 && value < 16);
      value_of[key] = value;
      ++values[value - 8];
    }
    ++last[s.tokens[126]];
    for (; q < 127; ++q) ASSERT_EQ(s.target[q], -1);
  }
  expect_uniform({keys, values, last});
}

TEST(MadRecall, TrainingLabelsEveryNextTokenOrTheDueOnes) {
  for (const Settings& base : {Settings{}, noisy, fuzzy}) {
    Settings due = base;
    due["train_labels"] = "due";
    const auto all = make_task("mad_recall", base), some = make_task("mad_recall", due);
    SequenceBuffer a(*all, Split::train), b(*some, Split::train);
    for (std::uint64_t n = 0; n < 20; ++n) {
      const SequenceView x = a.draw(1, n), y = b.draw(1, n);
      const int T = x.shape.T;
      for (int t = 0; t < T; ++t) {
        ASSERT_EQ(x.tokens[t], y.tokens[t]);
        ASSERT_EQ(x.query_position[t], t + 1);
        if (t + 1 < T) {
          ASSERT_EQ(x.target[t], x.tokens[t + 1]);
        }
      }
      int q = 0;
      for (; q < T && y.target[q] >= 0; ++q) ASSERT_EQ(y.target[q], x.target[y.query_position[q] - 1]);
      EXPECT_GT(q, 0);
      EXPECT_LT(q, T);
      ASSERT_EQ(y.query_position[q - 1], T);  // the last answer, which is not in the input
    }
  }
}

TEST(MadRecall, NoiseTakesAPairsPlaceAsOftenAsItSays) {
  Counts ids(16), noise(63);
  for (const SequenceView& s : drawn("mad_recall", noisy, Split::eval, 5, 4000))
    for (int t = 0; t < 126; t += 2) {
      if (s.tokens[t] < 16) continue;
      ASSERT_GE(s.tokens[t + 1], 16);
      ++noise[t / 2];
      ++ids[s.tokens[t] - 16];
      ++ids[s.tokens[t + 1] - 16];
    }
  expect_uniform({ids});
  EXPECT_LT(std::abs(uniformity_score(noise)), 4);  // every place is as likely, the quiet one too
  double all = 0;
  for (const int count : noise) all += count;
  const double expected = 0.2 * (1 - 1.0 / 64), draws = 4000.0 * 63;  // one place of 64 is quiet
  EXPECT_NEAR(all / draws, expected, 4 * std::sqrt(expected * (1 - expected) / draws));
}

TEST(MadRecall, FuzzyMotifsAreOfDifferentTokensAndTheLastWasShown) {
  const auto task = make_task("mad_recall", fuzzy);
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{128, 1, 128}));
  for (const Split split : {Split::eval, Split::train}) {
    std::vector<int> key_sizes(3), value_sizes(3);
    for (const SequenceView& s : drawn(*task, split, 5, 500)) {
      int t = 0;
      while (s.tokens[t] == 15) ++t;  // the front
      ASSERT_GE(t, 1);
      std::map<std::vector<int>, std::vector<int>> value_of;
      while (t < 128) {
        std::vector<int> key, value;
        for (; t < 128 && s.tokens[t] < 7; ++t) key.push_back(s.tokens[t]);
        for (; t < 128 && s.tokens[t] >= 7; ++t) value.push_back(s.tokens[t]);
        for (const auto& motif : {key, value}) {
          ASSERT_EQ(std::set<int>(motif.begin(), motif.end()).size(), motif.size());
          ASSERT_LE(motif.size(), 3u);
        }
        ASSERT_EQ(std::count(value.begin(), value.end(), 15), 0);
        const bool end = t == 128;
        if (end)
          value.push_back(s.target[split == Split::train ? 127 : [&] {
            int q = 0;
            while (q + 1 < 128 && s.target[q + 1] >= 0) ++q;
            return q;
          }()]);
        if (split == Split::eval) {
          ASSERT_EQ(key.size(), 3u);
        }
        if (end) {
          ASSERT_EQ(value_of.count(key), 1u) << "the last key was never shown";
        }
        if (value_of.count(key) == 0) {
          ++key_sizes[key.size() - 1];
          ++value_sizes[value.size() - 1];
        }
        ASSERT_EQ(value_of.emplace(key, value).first->second, value);
      }
    }
    EXPECT_LT(std::abs(uniformity_score(value_sizes)), 5);
    if (split == Split::train) {
      EXPECT_GT(key_sizes[2], key_sizes[0]);  // keys of one token soon have been shown
    }
  }
}

// What error kinds go by: wherever a value's token is due, the same key was given that token before, and nothing else.
TEST(MadRecall, WhatIsDueIsWhatItsKeyWasGiven) {
  for (const Settings& settings : {Settings{}, Settings{{"motif", 3}}, Settings{{"motif", 2}, {"length", 64}},
                                   Settings{{"vocabulary", 32}, {"noise_vocabulary", 16}, {"noise", 0.3}}}) {
    const auto task = make_task("mad_recall", settings);
    SequenceBuffer buffer(*task, Split::test);
    for (std::uint64_t n = 0; n < 100; ++n) {
      const SequenceView s = buffer.draw(6, n);
      const std::vector<KeyWrite> writes = task->writes(s);
      ASSERT_FALSE(writes.empty());
      for (int q = 0; q < s.shape.Q; ++q) {
        if (s.target[q] < 0) continue;
        int given = 0;
        for (const KeyWrite& write : writes) {
          if (write.position > s.query_position[q] || write.key != task->asked_key(s, q)) continue;
          ++given;
          ASSERT_EQ(write.value, s.target[q]) << "sequence " << n << ", query " << q;
        }
        ASSERT_GE(given, 1) << "sequence " << n << ", query " << q;
      }
    }
  }
}

TEST(MadRecall, ATrainingSetHasSoManySequences) {
  const auto task = make_task("mad_recall", {{"examples", 5}});
  EXPECT_EQ(task->sequences(Split::train), 5);
  SequenceBuffer a(*task, Split::train), b(*task, Split::train);
  a.draw(1, 2), b.draw(1, 7);
  EXPECT_EQ(a.contents(), b.contents());
  b.draw(1, 6);
  EXPECT_NE(a.contents(), b.contents());
}

TEST(MadRecall, RefusesWhatHasNoRoom) {
  for (const auto& [settings, key] :
       std::vector<std::pair<Settings, std::string>>{{{{"length", 7}}, "task.length"},
                                                     {{{"motif", 3}, {"length", 12}}, "task.length"},
                                                     {{{"motif", 3}, {"vocabulary", 6}}, "task.vocabulary"},
                                                     {{{"noise", 0.5}}, "task.noise_vocabulary"},
                                                     {{{"noise_vocabulary", 16}}, "task.vocabulary"},
                                                     {{{"motif", 2}, {"noise_vocabulary", 2}}, "task.noise"},
                                                     {{{"motif", 4}, {"vocabulary", 1000}}, "task.motif"}}) {
    EXPECT_EQ(refused("mad_recall", settings).key, key);
  }
}

[[maybe_unused]] const bool fitted = [] {
  fit()["mad_recall"] = [](Settings& settings) {
    if (whole_of(settings, "motif", 1) > 2) settings["motif"] = 2;
    settings["vocabulary"] = static_cast<int>(whole_of(settings, "noise_vocabulary", 0)) + 12;
    settings["length"] = 2 * static_cast<int>(whole_of(settings, "length", 14)) + 4;
  };
  return true;
}();

}  // namespace crosstalk::testing::mad_recall_test
