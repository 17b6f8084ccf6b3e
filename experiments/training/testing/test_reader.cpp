// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/testing/test_reader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "experiments/training/error_kinds.h"
#include "experiments/training/length_factors.h"

namespace crosstalk {
namespace {

/// Query facts of the parts of an evaluator: runs of one data seed share them.
class Facts {
 public:
  explicit Facts(const std::vector<SplitPart>& parts) : parts_(parts) {}
  const std::vector<QueryFacts>& of(const Run& run) {
    const auto seed = static_cast<std::uint64_t>(run.config.get_int("data_seed"));
    const auto [found, is_new] = known_.try_emplace(seed);
    if (is_new)
      for (const SplitPart& part : parts_)
        found->second.push_back(query_facts(*part.task, seed, part.sequences));
    return found->second;
  }

 private:
  const std::vector<SplitPart>& parts_;
  std::map<std::uint64_t, std::vector<QueryFacts>> known_;
};

double chance_of(const Record& record) {
  const auto found = record.metrics.find("chance_accuracy");
  return found == record.metrics.end() ? 0 : found->second;
}

std::vector<int> replicas_of(const std::vector<TestedRun>& runs) {
  std::vector<int> active;
  for (const TestedRun& run : runs) active.push_back(run.replica);
  return active;
}

/// The trained memory against answers that would be right in another context, where the task has contexts.
template <class Real>
void read_confused(const Options& config, const Task& task, Replicas<Real>& replicas,
                   const std::vector<TestedRun>& runs) {
  const auto confused = task.confused();
  if (!confused) return;
  Evaluator<Real> evaluator(config, *confused, Split::test, replicas);
  const auto results = evaluator.read(replicas_of(runs));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto& metrics = runs[i].record->metrics;
    const double other = evaluator.summary(results[i]).accuracy;
    metrics["test_accuracy_other_context"] = other;
    metrics["context_gap"] = metrics.at("test_accuracy") - other;
  }
}

/// Points of `exact` at eval.prefixes, between those of whole sequences.
void add_prefixes(Series& exact, const Options& config, const QueryResults& results) {
  for (const int answers : answer_prefixes(config.get_string("eval.prefixes"))) {
    const double x = answers / static_cast<double>(config.get_int("task.length"));
    const auto at = std::lower_bound(exact.x.begin(), exact.x.end(), x);
    if (at != exact.x.end() && *at == x) continue;
    exact.y.insert(exact.y.begin() + (at - exact.x.begin()), exact_prefix(results, answers));
    exact.x.insert(at, x);
  }
}

/// The trained memory read at other lengths, and by the number of operations before a read.
template <class Real>
void read_lengths(const Options& config, const Task& task, Replicas<Real>& replicas,
                  const std::vector<TestedRun>& runs) {
  const std::vector<int> active = replicas_of(runs);
  for (const int factor : tested_lengths(config)) {
    const auto lengthened = task.lengthened(factor);
    Evaluator<Real> evaluator(config, *lengthened, Split::test, replicas);
    Facts facts(evaluator.parts());
    const auto results = evaluator.read(active);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Record& record = *runs[i].record;
      const bool asks = lengthened->vocabulary().tokens > 0 || config.has("task.operations");
      add_length(record, config, *lengthened, factor, evaluator.summary(results[i]), evaluator.parts(),
                 results[i], asks ? facts.of(*runs[i].run) : std::vector<QueryFacts>());
    }
  }
}

}  // namespace

std::vector<int> tested_lengths(const Options& config) {
  std::vector<int> factors = length_factors(config.get_string("eval.length_factors"));
  if (factors.empty() && config.has("task.operations")) factors = {1};
  return factors;
}

void add_length(Record& record, const Options& config, const Task& task, int factor,
                const EvalSummary& summary, const std::vector<SplitPart>& parts,
                const std::vector<QueryResults>& results, const std::vector<QueryFacts>& facts) {
  const bool by_length = !length_factors(config.get_string("eval.length_factors")).empty(),
             by_operations = config.has("task.operations"), is_mixture = !parts[0].name.empty();
  const auto point = [&](const char* name, double y) {
    record.profiles[name].x.push_back(factor);
    record.profiles[name].y.push_back(y);
  };
  if (by_length) {
    point("loss_by_length", summary.loss);
    point("accuracy_by_length", summary.accuracy);
    point("exact_by_length", summary.exact);
  }
  if (by_length && factor == tested_lengths(config).back())
    add_prefixes(record.profiles["exact_by_length"], config, results[0]);
  if (by_length && task.vocabulary().tokens > 0 && !is_mixture)
    point("scaled_accuracy_by_length",
          scaled_accuracy_last_quarter(results[0], facts[0], task.shape(Split::test).T, chance_of(record)));
  if (factor == tested_lengths(config).back() && by_operations && !is_mixture) {
    const KeyProfile profile = by_key(results[0], facts[0].column(meta_operations));
    record.profiles["accuracy_by_operations"] = profile.accuracy;
    record.profiles["exact_by_operations"] = profile.exact;
  }
}

void add_token_test(Record& record, const Task& task, const EvalSummary& test,
                    const std::vector<SplitPart>& parts, const std::vector<QueryResults>& results,
                    const std::vector<QueryFacts>& facts) {
  record.metrics["test_exact"] = test.exact;
  const double chance = chance_of(record);
  record.metrics["test_scaled_accuracy"] = (test.accuracy - chance) / (1 - chance);
  if (task.is_text()) {
    record.metrics["test_bits_per_token"] = test.loss / std::numbers::ln2;
    record.metrics["test_perplexity"] = std::exp(test.loss);
  }
  add_token_profiles(record, results, facts);
  if (!parts[0].name.empty()) return;
  const double scaled = scaled_accuracy_last_quarter(results[0], facts[0], task.shape(Split::test).T, chance);
  if (std::isfinite(scaled)) record.metrics["scaled_accuracy_last_quarter"] = scaled;
  const double by_class = class_accuracy(results[0], facts[0].target);
  if (std::isfinite(by_class)) record.metrics["test_class_accuracy"] = by_class;
}

template <class Real>
void read_test(const Options& config, const Task& task, Replicas<Real>& replicas,
               const std::vector<TestedRun>& runs) {
  {
    Evaluator<Real> evaluator(config, task, Split::test, replicas);
    Facts facts(evaluator.parts());
    const auto results = evaluator.read(replicas_of(runs));
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Record& record = *runs[i].record;
      const EvalSummary test = evaluator.summary(results[i]);
      record.metrics["test_loss"] = test.loss;
      record.metrics["test_accuracy"] = test.accuracy;
      // Mixtures are of tokens, whose model has no metrics of its own.
      if (const auto means = metric_means(results[i][0]); !means.empty() && !evaluator.is_mixture()) {
        record.metrics.insert(means.begin(), means.end());
        replicas.model().derive(record.metrics);
      }
      std::vector<const Task*> parts;
      for (const SplitPart& part : evaluator.parts()) parts.push_back(part.task);
      add_error_shares(record, parts, results[i],
                       static_cast<std::uint64_t>(runs[i].run->config.get_int("data_seed")));
      if (evaluator.is_mixture()) add_segment_profiles(record, evaluator.parts(), results[i]);
      if (task.vocabulary().tokens == 0) continue;
      add_token_test(record, task, test, evaluator.parts(), results[i], facts.of(*runs[i].run));
    }
  }
  read_confused(config, task, replicas, runs);
  read_lengths(config, task, replicas, runs);
}

template <class Real>
void make_tests(const Options& config, const Task& task, Replicas<Real>& replicas) {
  { const Evaluator<Real> evaluator(config, task, Split::test, replicas); }
  if (const auto confused = task.confused())
    const Evaluator<Real> evaluator(config, *confused, Split::test, replicas);
  for (const int factor : tested_lengths(config)) {
    const auto lengthened = task.lengthened(factor);
    const Evaluator<Real> evaluator(config, *lengthened, Split::test, replicas);
  }
}

template void make_tests(const Options&, const Task&, Replicas<float>&);
template void make_tests(const Options&, const Task&, Replicas<double>&);
template void read_test(const Options&, const Task&, Replicas<float>&, const std::vector<TestedRun>&);
template void read_test(const Options&, const Task&, Replicas<double>&, const std::vector<TestedRun>&);

}  // namespace crosstalk
