// What every registered task must keep: drawn from the registry, so that a new task is covered by itself.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/task.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "kernels/testing/refused.h"
#include "tasks/kinds/file_example.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk::task_test {

using testing::resolved_options;
using testing::Settings;

constexpr Split all_splits[] = {Split::train, Split::eval, Split::test};

/// Random settings within the declared ranges, small enough for thousands of sequences.
Settings random_settings(const TaskKind& kind) {
  Settings settings;
  for (const OptionSpec& spec : kind.options) {
    if (*rc::gen::inRange(0, 3) == 0) continue;  // default
    if (std::holds_alternative<std::string>(spec.default_value)) {
      if (!spec.choices.empty()) settings[spec.name] = *rc::gen::elementOf(spec.choices);
    } else if (std::holds_alternative<bool>(spec.default_value)) {
      settings[spec.name] = *rc::gen::arbitrary<bool>();
    } else if (std::holds_alternative<double>(spec.default_value)) {
      const double low = std::max(spec.min, -10.0), high = std::min(spec.max, 10.0);
      settings[spec.name] = low + (high - low) * *rc::gen::inRange(0, 9) / 8.0;
    } else {
      const int low = static_cast<int>(std::max(spec.min, 0.0));
      const int high = static_cast<int>(std::min(spec.max, low + 24.0));
      settings[spec.name] = std::int64_t{*rc::gen::inRange(low, high + 1)};
    }
  }
  if (const auto fit = testing::fit().find(kind.name); fit != testing::fit().end()) fit->second(settings);
  return settings;
}

std::unique_ptr<Task> random_task(const TaskKind& kind) {
  const Settings settings = random_settings(kind);
  try {
    return kind.make(resolved_options(kind, settings));
  } catch (const OptionError&) {
    RC_DISCARD("options that make no sense together");
  }
}

/// Meta of one query by a forward replay, each number on its own.
struct ReplayedMeta {
  int gap = 0, writes = 0, age = 0, touches = 0;
};
ReplayedMeta replay_meta(const SequenceView& s, std::int32_t key, int position) {
  ReplayedMeta meta;
  std::map<std::int32_t, int> written_at;  // key -> position of the write whose value it holds
  int last_touch = -1;
  for (int t = 0; t < position; ++t) {
    const std::int32_t* token = s.tokens + t * s.shape.C;
    if (s.role[t] == static_cast<int>(Role::write)) {
      written_at[token[channel_key]] = t;
      if (token[channel_key] == key) ++meta.writes, last_touch = t;
    } else if (s.role[t] == static_cast<int>(Role::swap)) {
      std::swap(written_at[token[channel_key]], written_at[token[channel_second_key]]);
      if (token[channel_key] == key || token[channel_second_key] == key) ++meta.touches, last_touch = t;
    }
  }
  meta.gap = position - 1 - written_at.at(key);
  meta.age = position - 1 - last_touch;
  return meta;
}

/// All promises about one sequence of single tokens.
void check_token_sequence(const TaskKind& kind, const Task& task, const SequenceView& s) {
  const Vocabulary vocabulary = task.vocabulary();
  RC_ASSERT(s.shape.C == 1 && vocabulary.keys == 0 && !vocabulary.second_key);
  for (int t = 0; t < s.shape.T; ++t) {
    RC_ASSERT(s.tokens[t] >= 0 && s.tokens[t] < vocabulary.tokens);
    RC_ASSERT(s.role[t] >= static_cast<int>(Role::pad) && s.role[t] <= static_cast<int>(Role::multiply));
  }
  int used = 0;
  for (int q = 0; q < s.shape.Q; ++q) {
    const std::int32_t* meta = s.meta + q * meta_count;
    for (int m = 0; m < meta_count; ++m) {
      const bool steps = m == meta_touches && kind.name == "depo";  // around a cycle, which may be short
      RC_ASSERT(meta[m] >= 0 && (m == meta_writes || meta[m] <= (steps ? vocabulary.tokens : s.shape.T)));
    }
    if (s.target[q] == -1) {  // unused
      RC_ASSERT(s.query[q] == 0 && s.query_position[q] == 0);
      for (int m = 0; m < meta_count; ++m) RC_ASSERT(meta[m] == 0);
      continue;
    }
    RC_ASSERT(used == q);  // unused slots come last
    ++used;
    const std::int32_t position = s.query_position[q];
    RC_ASSERT(position >= 1 && position <= s.shape.T);
    if (q > 0) {
      RC_ASSERT(position > s.query_position[q - 1]);
    }
    RC_ASSERT(s.query[q] == s.tokens[position - 1]);
    RC_ASSERT(s.target[q] >= 0 && s.target[q] < vocabulary.values);
    RC_ASSERT(s.target[q] == task.reference_answer(s, s.query[q], position));
  }
  RC_ASSERT(used >= 1);
}

/// All promises about one sequence of examples (kNumberUnit): every slot asks the example beside a token of its own.
void check_examples(const Task& task, const SequenceView& s) {
  const Vocabulary vocabulary = task.vocabulary();
  RC_ASSERT(s.shape.C == 2 * (vocabulary.numbers + 1) && vocabulary.keys == 0 && !vocabulary.second_key);
  RC_ASSERT(vocabulary.values == 1 && s.shape.Q >= 1 && s.shape.Q <= s.shape.T);
  for (int q = 0; q < s.shape.Q; ++q) {
    RC_ASSERT(s.query[q] == q && s.query_position[q] == s.shape.T && s.target[q] == 0);
    RC_ASSERT(task.reference_answer(s, q, s.shape.T) == 0);
    for (int m = 0; m < meta_count; ++m) RC_ASSERT(s.meta[q * meta_count + m] == 0);
  }
  for (int t = 0; t < s.shape.T; ++t) RC_ASSERT(s.role[t] == static_cast<int>(Role::write));
}

/// All promises about one drawn sequence.
void check_sequence(const TaskKind& kind, const Task& task, const SequenceView& s, Split split) {
  if (task.vocabulary().tokens > 0) return check_token_sequence(kind, task, s);
  if (task.vocabulary().numbers > 0) return check_examples(task, s);
  const Vocabulary vocabulary = task.vocabulary();
  for (int t = 0; t < s.shape.T; ++t) {
    const std::int32_t* token = s.tokens + t * s.shape.C;
    const std::int32_t a = token[channel_key], value = token[channel_value];
    const std::int32_t b = s.shape.C > channel_second_key ? token[channel_second_key] : -1;
    RC_ASSERT(a >= 0 && a < vocabulary.keys);
    RC_ASSERT(value >= -1 && value < vocabulary.values);
    RC_ASSERT(b >= -1 && b < vocabulary.keys);
    switch (static_cast<Role>(s.role[t])) {
      case Role::write:
        RC_ASSERT(value >= 0 && b == -1);
        break;
      case Role::swap:
        RC_ASSERT(value == -1 && b >= 0 && a != b);
        break;
      case Role::identity:
        RC_ASSERT(value == -1 && a == b);
        break;
      default:
        RC_FAIL("a role that fused tasks do not have");
    }
  }
  int used = 0;
  std::set<std::pair<int, int>> asked;
  for (int q = 0; q < s.shape.Q; ++q) {
    const std::int32_t* meta = s.meta + q * meta_count;
    if (s.target[q] == -1) {  // unused
      RC_ASSERT(s.query[q] == 0 && s.query_position[q] == 0);
      for (int m = 0; m < meta_count; ++m) RC_ASSERT(meta[m] == 0);
      continue;
    }
    RC_ASSERT(used == q);  // unused slots come last
    ++used;
    RC_ASSERT(s.query[q] >= 0 && s.query[q] < vocabulary.keys);
    RC_ASSERT(s.query_position[q] >= 1 && s.query_position[q] <= s.shape.T);
    RC_ASSERT(s.target[q] == task.reference_answer(s, s.query[q], s.query_position[q]));
    if (q > 0) {
      RC_ASSERT(s.query_position[q] >= s.query_position[q - 1]);
    }
    if (split != Split::train) {
      RC_ASSERT(asked.insert({s.query_position[q], s.query[q]}).second);
    }
    const ReplayedMeta replayed = replay_meta(s, s.query[q], s.query_position[q]);
    RC_ASSERT(meta[meta_gap] == replayed.gap);
    RC_ASSERT(meta[meta_writes] == replayed.writes);
    RC_ASSERT(meta[meta_age] == replayed.age);
    RC_ASSERT(meta[meta_touches] == replayed.touches);
    RC_ASSERT(meta[meta_operations] >= 0 && meta[meta_operations] <= s.query_position[q]);
  }
  RC_ASSERT(used >= 1);
}

class EveryTask : public ::testing::TestWithParam<std::string> {
 protected:
  const TaskKind& kind() const { return *find_task(GetParam()); }
  std::unique_ptr<Task> standard() const { return testing::make_task(GetParam()); }
};
std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskKind& kind : task_kinds()) names.push_back(kind.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, ::testing::ValuesIn(task_names()),
                         [](const auto& test) { return test.param; });

TEST_P(EveryTask, AnswersAreWhatReplayingTheTokensGives) {
  EXPECT_TRUE(rc::check("sequences keep every promise, whatever the options", [this] {
    const auto task = random_task(kind());
    for (const Split split : all_splits) {
      SequenceBuffer buffer(*task, split);
      const auto seed = *rc::gen::arbitrary<std::uint64_t>();
      for (int i = 0; i < 8; ++i)
        check_sequence(kind(), *task, buffer.draw(seed, *rc::gen::arbitrary<std::uint64_t>()), split);
    }
  }));
}

// What is asked is what the key was last given; where values change places, something that was given.
TEST_P(EveryTask, AnswersAreAmongItsWrites) {
  if (kind().name == "tokens") return;  // files without a rule: writes are what followed a token
  const auto task = standard();
  SequenceBuffer buffer(*task, Split::test);
  for (std::uint64_t n = 0; n < 50; ++n) {
    const SequenceView s = buffer.draw(3, n);
    const std::vector<KeyWrite> writes = task->writes(s);
    if (writes.empty()) return;  // no values are given to keys
    bool swaps = false;
    for (int t = 0; t < s.shape.T; ++t) swaps = swaps || s.role[t] == static_cast<int>(Role::swap);
    for (int q = 0; q < s.shape.Q; ++q) {
      if (s.target[q] < 0) continue;
      std::int32_t held = -1;
      bool is_there = false;
      for (const KeyWrite& write : writes) {
        if (write.position > s.query_position[q]) continue;
        is_there = is_there || write.value == s.target[q];
        if (write.key == task->asked_key(s, q) && write.context == task->context_of(s, q)) held = write.value;
      }
      const std::string wrong = fmt::format(
          "task {}, sequence {}, query {}: writes() does not give the asked key its answer; override writes() (and asked_key(), context_of()) to say "
          "what a sequence stores, or give its tokens no role `write` (docs/extending.md)",
          kind().name, n, q);
      ASSERT_TRUE(is_there) << wrong;
      if (swaps) continue;
      ASSERT_EQ(held, s.target[q]) << wrong;
    }
  }
}

TEST_P(EveryTask, EveryElementIsWrittenAndTheScratchDoesNotMatter) {
  EXPECT_TRUE(rc::check("two poisons, one sequence", [this] {
    const auto task = random_task(kind());
    for (const Split split : all_splits) {
      SequenceBuffer buffer(*task, split);
      buffer.poison(-77777777);
      buffer.draw(1, 5);
      const auto first = buffer.contents();
      buffer.poison(77777777);
      buffer.draw(1, 5);
      RC_ASSERT(first == buffer.contents());
      for (const std::int32_t element : first) RC_ASSERT(element != -77777777);
    }
  }));
}

TEST_P(EveryTask, RoleAndMetaMayBeLeftOut) {
  const auto task = standard();
  for (const Split split : all_splits) {
    SequenceBuffer full(*task, split), bare(*task, split);
    full.poison(-5);
    bare.poison(-5);
    SequenceView view = bare.view();
    view.role = view.meta = nullptr;
    std::vector<std::int32_t> scratch(static_cast<std::size_t>(task->scratch_size()));
    task->sequence(9, split, 4, view, scratch.data());
    const SequenceView reference = full.draw(9, 4);
    EXPECT_TRUE(std::equal(view.tokens, view.tokens + view.shape.T * view.shape.C, reference.tokens));
    EXPECT_TRUE(std::equal(view.query, view.query + view.shape.Q, reference.query));
    EXPECT_TRUE(std::equal(view.target, view.target + view.shape.Q, reference.target));
    EXPECT_EQ(bare.view().role[0], -5);
    EXPECT_EQ(bare.view().meta[0], -5);
  }
}

TEST_P(EveryTask, ASequenceDependsOnItsNumberAlone) {
  const auto task = standard(), again = standard();
  for (const Split split : all_splits) {
    SequenceBuffer forward(*task, split), backward(*again, split);
    std::map<std::uint64_t, std::vector<std::int32_t>> drawn;
    for (std::uint64_t n = 0; n < 50; ++n) {
      forward.draw(11, n);
      drawn[n] = forward.contents();
    }
    for (std::uint64_t n = 50; n-- > 0;) {
      backward.draw(11, n);
      ASSERT_EQ(drawn[n], backward.contents()) << "sequence " << n;
    }
  }
}

TEST_P(EveryTask, SplitsSeedsAndHighWordsGiveOtherSequences) {
  if (!kind().drawn) {
    GTEST_SKIP() << "the sequences of task " << kind().name << " are given, not drawn";
  }
  const auto task = standard();
  std::set<std::vector<std::int32_t>> tokens;
  const auto add = [&](Split split, std::uint64_t seed, std::uint64_t n) {
    SequenceBuffer buffer(*task, split);
    const SequenceView s = buffer.draw(seed, n);
    const int T = std::min({task->shape(Split::train).T, task->shape(Split::eval).T});
    tokens.insert({s.tokens, s.tokens + T * s.shape.C});
  };
  for (const Split split : all_splits)
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
      for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
        add(split, seed, n);
  EXPECT_EQ(tokens.size(), 27u);
}

// The answer follows the value tokens and nothing else: other names for the values, other names of answers.
TEST_P(EveryTask, RenamingTheValuesRenamesTheAnswers) {
  if (standard()->vocabulary().tokens > 0 || standard()->vocabulary().numbers > 0) {
    GTEST_SKIP() << "its tokens have no channel of values";
  }
  EXPECT_TRUE(rc::check("renamed values", [this] {
    const auto task = random_task(kind());
    if (task->vocabulary().tokens > 0) RC_DISCARD("its tokens have no channel of values");
    std::vector<std::int32_t> renamed(static_cast<std::size_t>(task->vocabulary().values));
    std::iota(renamed.begin(), renamed.end(), 0);
    std::reverse(renamed.begin(), renamed.end());
    std::rotate(renamed.begin(), renamed.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(renamed)),
                renamed.end());
    SequenceBuffer buffer(*task, Split::eval);
    const SequenceView s = buffer.draw(2, *rc::gen::arbitrary<std::uint64_t>());
    for (int t = 0; t < s.shape.T; ++t) {
      std::int32_t& value = s.tokens[t * s.shape.C + channel_value];
      if (value >= 0) value = renamed[static_cast<std::size_t>(value)];
    }
    for (int q = 0; q < s.shape.Q; ++q) {
      if (s.target[q] < 0) continue;
      RC_ASSERT(task->reference_answer(s, s.query[q], s.query_position[q]) ==
                renamed[static_cast<std::size_t>(s.target[q])]);
    }
  }));
}

TEST_P(EveryTask, FewerQueriesAreAmongAllQueries) {
  EXPECT_TRUE(rc::check("capped queries", [this] {
    const auto task = random_task(kind());
    const int all_queries = task->shape(Split::eval).Q, cap = *rc::gen::inRange(1, all_queries + 3);
    SequenceBuffer full(*task, Split::eval), capped(*task, Split::eval, cap);
    const SequenceView all = full.draw(4, 6), some = capped.draw(4, 6);
    RC_ASSERT(some.shape.Q == std::min(cap, all_queries));
    RC_ASSERT(std::equal(all.tokens, all.tokens + all.shape.T * all.shape.C, some.tokens));
    std::set<std::vector<int>> rows;
    for (int q = 0; q < all.shape.Q; ++q) rows.insert({all.query[q], all.query_position[q], all.target[q]});
    for (int q = 0; q < some.shape.Q; ++q)
      RC_ASSERT(rows.count({some.query[q], some.query_position[q], some.target[q]}) == 1u);
    RC_ASSERT(task->shape(Split::train).Q == task->shape(Split::train, cap).Q);  // training is never capped
  }));
}

TEST_P(EveryTask, AWrongShapeIsABugAndSaysSo) {
  const auto task = standard();
  SequenceBuffer buffer(*task, Split::eval);
  SequenceView view = buffer.view();
  view.shape.T -= 1;
  std::vector<std::int32_t> scratch(static_cast<std::size_t>(task->scratch_size()));
  EXPECT_THROW(task->sequence(0, Split::eval, 0, view, scratch.data()), std::logic_error);
}

TEST_P(EveryTask, ResolvingTwiceChangesNothing) {
  EXPECT_TRUE(rc::check("resolve is idempotent", [this] {
    Options options;
    try {
      options = resolved_options(kind(), random_settings(kind()));
    } catch (const OptionError&) {
      RC_DISCARD("options that make no sense together");
    }
    Options again = options;
    if (kind().resolve != nullptr) kind().resolve(again);
    RC_ASSERT(again == options);
  }));
}

TEST_P(EveryTask, BaselinesAreProbabilitiesAndDeterministic) {
  const auto numbers = standard()->baselines();
  EXPECT_EQ(numbers, standard()->baselines());
  for (const auto& [name, value] : numbers)
    EXPECT_TRUE(value >= 0 && (value <= 1 || name == "chance_loss" || name == "unigram_loss"))
        << name << " = " << value;
  EXPECT_EQ(numbers.count("chance_accuracy"), 1u);
  if (standard()->vocabulary().tokens > 0) {
    EXPECT_NEAR(std::exp(-numbers.at("chance_loss")), numbers.at("chance_accuracy"), 1e-12);
    return;
  }
  if (standard()->vocabulary().numbers > 0) {
    EXPECT_EQ(numbers.at("constant_loss"), 0.5);
    EXPECT_LT(numbers.at("optimum_loss"), 0.5);
    return;
  }
  for (const char* name :
       {"baseline_most_recent_accuracy", "baseline_first_accuracy", "baseline_random_in_context_accuracy"})
    EXPECT_EQ(numbers.count(name), 1u) << name;
  EXPECT_EQ(numbers.at("constant_loss"), 0.5);
}

TEST_P(EveryTask, DescribesItself) {
  EXPECT_FALSE(kind().summary.empty());
  EXPECT_NE(kind().description.find("arXiv"), std::string::npos) << "give the source";
  std::set<std::string> names;
  for (const OptionSpec& spec : kind().options) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name << " twice";
    EXPECT_NE(spec.name, "name");
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    EXPECT_NO_THROW(check_option(spec, "task", spec.default_value)) << spec.name;
  }
  const auto task = standard();
  SequenceBuffer buffer(*task, Split::train);
  EXPECT_NE(task->to_text(buffer.draw(0, 0)).find("->"), std::string::npos);
}

// Segments and stages are tasks of their own with the vocabulary of the whole, which has room for the longest.
TEST_P(EveryTask, PartsFitIntoTheWhole) {
  EXPECT_TRUE(rc::check("parts", [this] {
    const auto task = random_task(kind());
    const auto fits = [&](const TaskSegment& part, Split split) {
      RC_ASSERT(!part.name.empty() && part.task->segments(split).empty() && part.task->stages().empty());
      RC_ASSERT(part.task->vocabulary().tokens == task->vocabulary().tokens);
      RC_ASSERT(part.task->vocabulary().values == task->vocabulary().values);
      RC_ASSERT(part.task->shape(split).T <= task->shape(split).T);
      RC_ASSERT(part.task->scratch_size() <= task->scratch_size());
    };
    for (const Split split : all_splits)
      for (const TaskSegment& part : task->segments(split)) fits(part, split);
    const std::vector<TaskSegment> stages = task->stages();
    for (const TaskSegment& stage : stages) fits(stage, Split::train);
    if (stages.empty()) return;
    SequenceBuffer whole(*task, Split::train), last(*stages.back().task, Split::train);
    whole.draw(1, 2), last.draw(1, 2);
    RC_ASSERT(whole.contents() == last.contents());
  }));
}

TEST_P(EveryTask, LengthFactorsBelowOneAreRefused) {
  EXPECT_EQ(checks::refused([&] { standard()->lengthened(0); }).key, "eval.length_factors");
}

TEST(Registry, FindsTasksByName) {
  EXPECT_EQ(find_task("recall")->name, "recall");
  EXPECT_EQ(find_task("recal"), nullptr);
  const auto names = task_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

}  // namespace crosstalk::task_test
