// SPDX-License-Identifier: Apache-2.0
#include "tasks/data_look.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "kernels/base/text/digest.h"
#include "tasks/given_files.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

constexpr Split splits[] = {Split::train, Split::eval, Split::test};
constexpr const char* names[] = {"training", "validation", "test"};
constexpr std::int64_t kMostNumbers[] = {30'000'000, 10'000'000, 10'000'000};  // looked at: a second in all

using Counts = std::unordered_map<std::int32_t, std::int64_t>;
using Hashes = std::unordered_set<std::uint64_t>;

std::uint64_t hash_of(const std::int32_t* numbers, int count) {
  return XXH3_64bits(numbers, static_cast<std::size_t>(count) * sizeof *numbers);
}
/// Up to the last answer that is due: what stands behind it changes nothing.
std::uint64_t hash_of(const SequenceView& s) {
  std::int32_t used = 0;
  for (int q = 0; q < s.shape.Q; ++q)
    if (s.target[q] >= 0) used = std::max(used, s.query_position[q]);
  return hash_of(s.tokens, (used == 0 ? s.shape.T : used) * s.shape.C);
}

/// What was seen of a split.
struct Look {
  std::string name;            ///< with how many of how many were looked at, where not all
  std::int64_t sequences = 0;  ///< looked at
  bool whole = true;
  std::int64_t answers = 0, here = 0,
               before = 0;  ///< here: answers that are the token at which they are due; or the one before
  Counts tokens, labels;    ///< tokens: of all columns together
  std::vector<std::uint64_t> hashes;  ///< of sequences
  Hashes distinct, rows;              ///< sequences; rows of answers
};

Look look_at(const Task& task, Split split) {
  const auto s = static_cast<std::size_t>(split);
  const SequenceShape shape = task.shape(split);
  const std::int64_t there = task.sequences(split),
                     most = std::max<std::int64_t>(1, kMostNumbers[s] / (shape.T * shape.C + shape.Q));
  Look look;
  look.sequences = std::min(there, most);
  look.whole = look.sequences == there;
  look.name = look.whole ? names[s]
                         : fmt::format("{} ({} of {} sequences looked at)", names[s], look.sequences, there);
  SequenceBuffer buffer(task, split, 0, false);
  for (std::int64_t n = 0; n < look.sequences; ++n) {
    const SequenceView one = buffer.draw(0, static_cast<std::uint64_t>(n));
    look.hashes.push_back(hash_of(one));
    look.rows.insert(hash_of(one.target, shape.Q));
    for (int t = 0; t < shape.T * shape.C; ++t) ++look.tokens[one.tokens[t]];
    for (int q = 0; q < shape.Q; ++q) {
      const std::int32_t label = one.target[q], t = one.query_position[q] - 1;
      if (label < 0) continue;
      ++look.answers;
      ++look.labels[label];
      if (shape.C > 1) continue;
      look.here += label == one.tokens[t];
      look.before += t > 0 && label == one.tokens[t - 1];
    }
  }
  look.distinct.insert(look.hashes.begin(), look.hashes.end());
  return look;
}

std::string share_text(double share) { return fmt::format("{:.3g} %", 100 * share); }

std::int64_t standing_in(const Look& look, const Look& other) {
  return std::count_if(look.hashes.begin(), look.hashes.end(),
                       [&](std::uint64_t hash) { return other.distinct.count(hash) != 0; });
}

/// "3 tokens (7, 9, 12)" of those in `here` that `there` lacks; "" for none.
std::string lacking_text(const Counts& here, const Counts& there, const char* what) {
  constexpr std::size_t most = 5;
  std::vector<std::int32_t> lacking;
  for (const auto& [number, count] : here)
    if (there.count(number) == 0) lacking.push_back(number);
  std::sort(lacking.begin(), lacking.end());
  if (lacking.empty()) return "";
  const std::vector<std::int32_t> some(
      lacking.begin(), lacking.begin() + static_cast<std::ptrdiff_t>(std::min(most, lacking.size())));
  return fmt::format("{} {}{} ({}{})", lacking.size(), what, lacking.size() > 1 ? "s" : "",
                     fmt::join(some, ", "), lacking.size() > most ? ", ..." : "");
}

/// How many different things there are, if `drawn` of them drawn at random are `distinct` different ones: the root of
/// distinct = N (1 - e^(-drawn/N)).
double different_of(double drawn, double distinct) {
  double low = distinct, high = 1e18;
  for (int i = 0; i < 200; ++i) {
    const double N = std::sqrt(low) * std::sqrt(high);
    (-N * std::expm1(-drawn / N) < distinct ? low : high) = N;
  }
  return low;
}

}  // namespace

std::vector<std::string> doubts_of(const Task& task, const std::string& folder) {
  constexpr double kMost = 0.9;                       // answers that follow from one place, or are one
  constexpr double kRepeated = 0.1, kNotable = 0.01;  // sequences: twice in a split; of test in training
  std::vector<std::string> all;
  const auto doubt = [&]<class... A>(fmt::format_string<A...> text, A&&... a) {
    all.push_back(folder + ": " + fmt::format(text, std::forward<A>(a)...));
  };
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
  };
  for (const std::string& unused : unused_of(task)) all.push_back(unused);
  const Look looks[] = {look_at(task, splits[0]), look_at(task, splits[1]), look_at(task, splits[2])};
  const Look& trained = looks[0];
  const auto most_common = [](const Look& look) {
    return std::max_element(look.labels.begin(), look.labels.end(),
                            [](const auto& x, const auto& y) { return x.second < y.second; });
  };
  // Each is said once, of the first split that has it.
  const auto first = [&](auto has, auto say) {
    const auto look = std::find_if(std::begin(looks), std::end(looks), has);
    if (look != std::end(looks)) say(*look);
  };
  const auto many = [&](auto count, auto text) {
    first([&](const Look& look) { return share(count(look), look.answers) >= kMost; },
          [&](const Look& look) {
            doubt("{} of the {} answers of {} ({}) are {}", count(look), look.answers, look.name,
                  share_text(share(count(look), look.answers)), text(look));
          });
  };
  many(
      [](const Look& look) { return look.here; },
      [](const Look&) {
        return "the token at which they are due: repeating the input is right. Labels are not shifted inside "
               "a model here; for next tokens save labels[:, :-1] = inputs[:, 1:], and -100 at the end";
      });
  many([](const Look& look) { return look.before; },
       [](const Look&) { return "the token before the one at which they are due"; });
  if (task.vocabulary().numbers == 0) {
    many([&](const Look& look) { return look.labels.empty() ? 0 : most_common(look)->second; },
         [&](const Look& look) {
           return fmt::format("{}: saying it always is right as often", most_common(look)->first);
         });
    first(
        [](const Look& look) {
          return look.rows.size() == 1 && look.labels.size() > 1 && look.sequences > 1;
        },
        [&](const Look& look) {
          doubt("all {} sequences of {} have the same answers, whatever their tokens are", look.sequences,
                look.name);
        });
  }
  for (const Look& look : looks) {
    const auto repeated = look.sequences - std::ssize(look.distinct);
    if (share(repeated, look.sequences) >= kRepeated)
      doubt("{} of the {} sequences of {} ({}) are repeats of others there", repeated, look.sequences,
            look.name, share_text(share(repeated, look.sequences)));
  }
  const auto overlap = [&](const Look& look, const Look& other, const char* what) {
    const std::int64_t count = standing_in(look, other);
    if (share(count, look.sequences) >= kNotable)
      doubt("{} of the {} sequences of {} ({}) stand in {}, too: {}", count, look.sequences, look.name,
            share_text(share(count, look.sequences)), other.name, what);
  };
  overlap(looks[1], trained, "what is learned by heart counts as right there");
  overlap(looks[2], trained, "what is learned by heart counts as right there");
  overlap(looks[2], looks[1], "rates and ends of training are chosen by those");
  if (task.vocabulary().numbers != 0) return all;
  for (const Look* look : {&looks[1], &looks[2]}) {
    if (!trained.whole || task.is_text()) break;  // windows drawn at random leave some out
    std::vector<std::string> parts = {lacking_text(look->tokens, trained.tokens, "token"),
                                      lacking_text(look->labels, trained.labels, "answer")};
    std::erase(parts, "");
    if (!parts.empty())
      doubt("{} of {} never come in training, so that nothing is learned of them", fmt::join(parts, " and "),
            look->name);
  }
  Counts used;
  std::int32_t largest = 0;
  for (const Look& look : looks)
    for (const Counts* counts : {&look.tokens, &look.labels})
      for (const auto& [number, count] : *counts) used[number] += count, largest = std::max(largest, number);
  if (largest > 4 * std::ssize(used) + 60)
    doubt(
        "ids go up to {}, and {} of them are in use: embedding and answers of a model are as large as the "
        "largest id, and a few large ones may mark what was meant as none",
        largest, used.size());
  return all;
}

std::optional<Space> space_of(const Task& task, double trained) {
  constexpr std::int64_t kNumbers = 1 << 18, kMost = 1 << 14;  // some 20 ms
  constexpr std::int64_t kFewest = 10;  // repeats: 10 say the size of a space within a third
  const SequenceShape shape = task.shape(Split::train);
  std::int64_t draws = std::clamp<std::int64_t>(kNumbers / (std::int64_t{shape.T} * shape.C), 1, kMost);
  if (const std::int64_t there = task.sequences(Split::train); there > 0)
    trained = std::min(trained, static_cast<double>(there));
  draws = std::min(draws, static_cast<std::int64_t>(trained));
  if (task.shape(Split::test).T != shape.T) return std::nullopt;
  Hashes distinct, distinct_tests;
  SequenceBuffer buffer(task, Split::train, 0, false), tests(task, Split::test, 0, false);
  for (std::int64_t n = 0; n < draws; ++n)
    distinct.insert(hash_of(buffer.draw(0, static_cast<std::uint64_t>(n))));
  if (draws - std::ssize(distinct) < kFewest) return std::nullopt;
  std::int64_t met = 0;
  for (std::int64_t n = 0; n < draws; ++n) {
    const std::uint64_t hash = hash_of(tests.draw(0, static_cast<std::uint64_t>(n)));
    met += static_cast<std::int64_t>(distinct.count(hash));
    distinct_tests.insert(hash);
  }
  const auto different = [&](const Hashes& seen) {
    return different_of(static_cast<double>(draws), static_cast<double>(seen.size()));
  };
  Space space{different(distinct), static_cast<double>(met) / static_cast<double>(draws)};
  // Sequences of test that hardly repeat have a space of their own, longer expressions, say: training's says nothing of it.
  if (draws - std::ssize(distinct_tests) >= kFewest)
    space.tested =
        std::max(space.tested, -std::expm1(-trained / std::max(space.different, different(distinct_tests))));
  return space;
}

}  // namespace crosstalk
