// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/error_kinds.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

using Counts = std::array<double, kErrorKinds>;

/// Counts the errors of one part; false if its sequences write nothing.
bool count(const Task& task, const QueryResults& results, std::uint64_t data_seed, Counts& counts) {
  SequenceBuffer buffer(task, Split::test, 0, false);
  const Vocabulary vocabulary = task.vocabulary();
  const bool keys_are_answers = vocabulary.tokens > 0 && vocabulary.tokens == vocabulary.values;
  for (int s = 0; s < results.sequences; ++s) {
    const auto first = static_cast<std::size_t>(s) * static_cast<std::size_t>(results.Q);
    const auto begin = results.correct.begin() + static_cast<std::ptrdiff_t>(first);
    if (s > 0 && std::find(begin, begin + results.Q, 0) == begin + results.Q) continue;
    const SequenceView sequence = buffer.draw(data_seed, static_cast<std::uint64_t>(s));
    const std::vector<KeyWrite> writes = task.writes(sequence);
    if (writes.empty()) return false;
    for (int q = 0; q < results.Q; ++q) {
      const std::size_t at = first + static_cast<std::size_t>(q);
      if (results.correct[at] != 0) continue;
      const KeyQuery asked{task.context_of(sequence, q), task.asked_key(sequence, q),
                           sequence.query_position[q], sequence.target[q]};
      ++counts[static_cast<std::size_t>(error_kind(writes, asked, results.answer[at], keys_are_answers))];
    }
  }
  return true;
}

}  // namespace

const char* name_of(ErrorKind kind) {
  static constexpr const char* kNames[kErrorKinds] = {"tie",     "key",           "oldest",      "newest",
                                                      "between", "other_context", "other_value", "never"};
  return kNames[static_cast<int>(kind)];
}

ErrorKind error_kind(const std::vector<KeyWrite>& writes, const KeyQuery& asked, std::int32_t answer,
                     bool keys_are_answers) {
  if (answer == asked.target) return ErrorKind::tie;
  if (keys_are_answers && answer == asked.key) return ErrorKind::key;
  std::vector<std::int32_t> own;  // values of the key, in order
  bool elsewhere = false, there = false;
  for (const KeyWrite& write : writes) {
    if (write.position > asked.position) continue;
    there = there || write.value == answer;
    if (write.key != asked.key) continue;
    if (write.context == asked.context)
      own.push_back(write.value);
    else
      elsewhere = elsewhere || write.value == answer;
  }
  if (std::find(own.begin(), own.end(), answer) != own.end())
    return answer == own.front()  ? ErrorKind::oldest
           : answer == own.back() ? ErrorKind::newest
                                  : ErrorKind::between;
  if (elsewhere) return ErrorKind::other_context;
  return there ? ErrorKind::other_value : ErrorKind::never;
}

void add_error_shares(Record& record, const std::vector<const Task*>& parts,
                      const std::vector<QueryResults>& results, std::uint64_t data_seed) {
  Counts counts = {};
  double queries = 0;
  for (std::size_t part = 0; part < results.size(); ++part) {
    const QueryResults& one = results[part];
    if (one.answer.size() != one.correct.size() || one.sequences == 0 ||
        !count(*parts[part], one, data_seed, counts))
      return;
    queries += static_cast<double>(
        std::count_if(one.correct.begin(), one.correct.end(), [](std::int32_t right) { return right >= 0; }));
  }
  for (int i = 0; i < kErrorKinds && queries > 0; ++i)
    record.metrics[std::string("error_") + name_of(static_cast<ErrorKind>(i))] =
        counts[static_cast<std::size_t>(i)] / queries;
}

}  // namespace crosstalk
