// SPDX-License-Identifier: Apache-2.0
#include "tasks/fused_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/random.h"
#include "kernels/base/text/narrow.h"
#include "tasks/sequence_buffer.h"
#include "tasks/token_task.h"

namespace crosstalk {
namespace {

// sequence_common.h counts on these numbers (it may not include tasks/task.h).
static_assert(static_cast<std::uint32_t>(Split::train) == 0);
static_assert(static_cast<std::uint32_t>(RandomDomain::task_train) +
                  static_cast<std::uint32_t>(Split::eval) ==
              static_cast<std::uint32_t>(RandomDomain::task_eval));
static_assert(static_cast<std::uint32_t>(RandomDomain::task_train) +
                  static_cast<std::uint32_t>(Split::test) ==
              static_cast<std::uint32_t>(RandomDomain::task_test));

constexpr std::size_t text_width = 100;

struct Token {
  std::int32_t key, value, second_key;
  bool write() const { return value >= 0; }
  bool operation() const { return value < 0 && second_key >= 0; }
};

Token token_at(const SequenceView& sequence, int t) {
  const std::int32_t* token = sequence.tokens + static_cast<std::int64_t>(t) * sequence.shape.C;
  return {token[channel_key], token[channel_value],
          sequence.shape.C > channel_second_key ? token[channel_second_key] : -1};
}

/// What guessers know after the first `seen` tokens.
class Context {
 public:
  Context(const SequenceView& sequence, const Vocabulary& vocabulary)
      : sequence_(sequence),
        count_(static_cast<std::size_t>(vocabulary.values), 0),
        first_of_key_(static_cast<std::size_t>(vocabulary.keys), -1) {}

  void advance(int position) {
    if (position < seen_) {  // queries in another order than the tokens: start again
      std::fill(count_.begin(), count_.end(), 0);
      std::fill(first_of_key_.begin(), first_of_key_.end(), -1);
      seen_ = writes_ = distinct_ = 0;
      most_recent_ = first_ = -1;
    }
    for (; seen_ < position; ++seen_) {
      const Token token = token_at(sequence_, seen_);
      if (!token.write()) continue;
      if (count_[static_cast<std::size_t>(token.value)]++ == 0) ++distinct_;
      auto& first_of_key = first_of_key_[static_cast<std::size_t>(token.key)];
      if (first_of_key < 0) first_of_key = token.value;
      if (writes_++ == 0) first_ = token.value;
      most_recent_ = token.value;
    }
  }

  double chance() const {
    return 1.0 / (distinct_ > 0 ? static_cast<std::size_t>(distinct_) : count_.size());
  }
  double random_in_context(std::int32_t target) const {
    if (writes_ == 0) return 0;
    return static_cast<double>(count_[static_cast<std::size_t>(target)]) / writes_;
  }
  std::int32_t most_recent() const { return most_recent_; }
  std::int32_t first() const { return first_; }
  std::int32_t unchanged(std::int32_t key) const { return first_of_key_[static_cast<std::size_t>(key)]; }

 private:
  SequenceView sequence_;
  std::vector<int> count_;
  std::vector<std::int32_t> first_of_key_;
  int seen_ = 0, writes_ = 0, distinct_ = 0;
  std::int32_t most_recent_ = -1, first_ = -1;
};

}  // namespace

std::int32_t FusedTask::reference_answer(const SequenceView& sequence, std::int32_t key, int position) const {
  std::map<std::int32_t, std::int32_t> bound;
  for (int t = 0; t < position; ++t) {
    const Token token = token_at(sequence, t);
    if (token.write()) {
      bound[token.key] = token.value;
    } else if (token.operation()) {
      std::swap(bound.try_emplace(token.key, -1).first->second,
                bound.try_emplace(token.second_key, -1).first->second);
    }
  }
  const auto it = bound.find(key);
  return it == bound.end() ? -1 : it->second;
}

std::string FusedTask::to_text(const SequenceView& sequence) const {
  std::string text, line;
  const auto flush = [&] {
    if (!line.empty()) text += line + '\n';
    line.clear();
  };
  const auto add = [&](const std::string& head, const std::string& word) {
    if (line.size() + 2 + word.size() > text_width) flush();
    line += line.empty() ? head : "  ";
    line += word;
  };
  for (int t = 0; t < sequence.shape.T; ++t) {
    const Token token = token_at(sequence, t);
    const std::string head = fmt::format("{:>6}: ", t + 1);
    if (token.write()) {
      add(head, fmt::format("k{}=v{}", token.key, token.value));
    } else if (!token.operation()) {
      add(head, fmt::format("k{}", token.key));
    } else if (token.key == token.second_key) {
      add(head, fmt::format("(k{} stays)", token.key));
    } else {
      add(head, fmt::format("k{}<>k{}", token.key, token.second_key));
    }
  }
  flush();
  int position = -1;
  for (int q = 0; q < sequence.shape.Q; ++q) {
    if (sequence.target[q] < 0) continue;
    if (sequence.query_position[q] != position) flush();
    position = sequence.query_position[q];
    add(fmt::format("  read after {}: ", position),
        fmt::format("k{} -> v{}", sequence.query[q], sequence.target[q]));
  }
  flush();
  return text;
}

std::map<std::string, double> FusedTask::baselines() const {
  double chance = 0, random = 0, recent = 0, first = 0, unchanged = 0;
  std::int64_t queries = 0;
  each_of_baselines(*this, [&](const SequenceView& sequence) {
    Context context(sequence, vocabulary());
    for (int q = 0; q < sequence.shape.Q; ++q) {
      const std::int32_t target = sequence.target[q];
      if (target < 0) continue;
      context.advance(sequence.query_position[q]);
      ++queries;
      chance += context.chance();
      random += context.random_in_context(target);
      recent += context.most_recent() == target;
      first += context.first() == target;
      unchanged += context.unchanged(sequence.query[q]) == target;
    }
  });
  const auto count = static_cast<double>(queries);
  return {{"constant_loss", 0.5},
          {"chance_accuracy", chance / count},
          {"baseline_random_in_context_accuracy", random / count},
          {"baseline_most_recent_accuracy", recent / count},
          {"baseline_first_accuracy", first / count},
          {"baseline_unchanged_accuracy", unchanged / count}};
}

int capped_queries(int all, int max_queries) { return max_queries > 0 ? std::min(all, max_queries) : all; }

int int_option(const Options& options, const std::string& name) {
  return narrow<int>(options, "task." + name);
}

void refuse(const Options& options, const std::string& key, const std::string& why) {
  throw OptionError(key, fmt::format("{} = {}{}", key, to_text(options.at(key)), why));
}

void refuse_above(const Options& options, const std::string& low, const std::string& high) {
  if (options.get_int(low) > options.get_int(high))
    refuse(options, low,
           fmt::format(" is more than {} = {}; give at most that", high, options.get_int(high)));
}

void refuse_longer(int factor, const std::string& task, const std::string& reason,
                   const std::string& instead) {
  if (factor > 1)
    throw OptionError("eval.length_factors",
                      fmt::format("{} has no form {} times as long: {}; use factor 1{}{}", task, factor,
                                  reason, instead.empty() ? "" : ", ", instead));
}

std::vector<OptionSpec> with_vocabulary(std::vector<OptionSpec> options) {
  for (const std::string name : {"value", "key"})
    options.insert(
        options.begin() + 1,
        {name + "s", 0, fmt::format("size of the {} vocabulary; 0 means as many as associations", name), 0,
         max_option_size});
  return options;
}

void resolve_vocabulary(Options& options) {
  const std::int64_t associations = options.get_int("task.associations");
  for (const std::string name : {"keys", "values"}) {
    const std::string key = "task." + name;
    const std::int64_t size = options.get_int(key);
    if (size == 0) options.set(key, associations);
    if (size != 0 && size < associations)
      throw OptionError(key, fmt::format("{} = {} is less than task.associations = {}, which need as many "
                                         "distinct {}; give at least {}, or 0 for exactly as many",
                                         key, size, associations, name, associations));
  }
}

void check_length_factor(int factor) {
  if (factor < 1)
    throw OptionError("eval.length_factors",
                      fmt::format("a length factor of {} makes no sequence; give 1 or more", factor));
}

int lengthened_size(int size, int factor) {
  const double longer = static_cast<double>(size) * factor;
  if (longer > max_option_size)
    throw OptionError(
        "eval.length_factors",
        fmt::format("a length factor of {} makes sequences of {:.0f} tokens; at most {:.0f} are supported",
                    factor, longer, max_option_size));
  return static_cast<int>(longer);
}

}  // namespace crosstalk
