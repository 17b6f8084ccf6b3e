// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/test_reader.h"

#include <cmath>
#include <map>
#include <memory>

#include "experiments/training/length_factors.h"

namespace crosstalk {
namespace {

/// Query facts of the parts of an exam: runs of one data seed share them.
class Facts {
 public:
  explicit Facts(const std::vector<ExamPart>& parts) : parts_(parts) {}
  const std::vector<QueryFacts>& of(const Run& run) {
    const auto seed = static_cast<std::uint64_t>(run.config.get_int("data_seed"));
    const auto [found, is_new] = known_.try_emplace(seed);
    if (is_new)
      for (const ExamPart& part : parts_)
        found->second.push_back(query_facts(*part.task, seed, part.sequences));
    return found->second;
  }

 private:
  const std::vector<ExamPart>& parts_;
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

/// Other lengths at which runs of this configuration are read; 1 where all that is asked for is operations.
std::vector<int> lengths_of(const Options& config) {
  std::vector<int> factors = length_factors(config.get_string("eval.length_factors"));
  if (factors.empty() && config.has("task.operations")) factors = {1};
  return factors;
}

/// The trained memory read at other lengths, and by the number of operations before a read.
template <class Real>
void read_lengths(const Options& config, const Task& task, Replicas<Real>& replicas,
                  const std::vector<TestedRun>& runs) {
  const std::vector<int> factors = lengths_of(config);
  const bool by_length = !length_factors(config.get_string("eval.length_factors")).empty(),
             by_operations = config.has("task.operations");
  const std::vector<int> active = replicas_of(runs);
  for (const int factor : factors) {
    const auto lengthened = task.lengthened(factor);
    Exam<Real> exam(config, *lengthened, Split::test, replicas);
    Facts facts(exam.parts());
    const auto results = exam.read(active);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Record& record = *runs[i].record;
      const auto point = [&](const char* name, double y) {
        record.profiles[name].x.push_back(factor);
        record.profiles[name].y.push_back(y);
      };
      if (by_length) {
        const EvalSummary summary = exam.summary(results[i]);
        point("loss_by_length", summary.loss);
        point("accuracy_by_length", summary.accuracy);
        point("exact_by_length", summary.exact);
      }
      if (by_length && lengthened->vocabulary().tokens > 0 && !exam.is_mixture())
        point("scaled_accuracy_by_length",
              scaled_accuracy_last_quarter(results[i][0], facts.of(*runs[i].run)[0],
                                           lengthened->shape(Split::test).T, chance_of(record)));
      if (factor == factors.back() && by_operations && !exam.is_mixture()) {
        const KeyProfile profile = by_key(results[i][0], facts.of(*runs[i].run)[0].column(meta_operations));
        record.profiles["accuracy_by_operations"] = profile.accuracy;
        record.profiles["exact_by_operations"] = profile.exact;
      }
    }
  }
}

}  // namespace

template <class Real>
void read_test(const Options& config, const Task& task, Replicas<Real>& replicas,
               const std::vector<TestedRun>& runs) {
  {
    Exam<Real> exam(config, task, Split::test, replicas);
    Facts facts(exam.parts());
    const auto results = exam.read(replicas_of(runs));
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Record& record = *runs[i].record;
      const EvalSummary test = exam.summary(results[i]);
      record.metrics["test_loss"] = test.loss;
      record.metrics["test_accuracy"] = test.accuracy;
      // Mixtures are of tokens, whose model has no metrics of its own.
      if (const auto means = metric_means(results[i][0]); !means.empty() && !exam.is_mixture()) {
        record.metrics.insert(means.begin(), means.end());
        replicas.model().derive(record.metrics);
      }
      if (exam.is_mixture()) add_segment_profiles(record, exam.parts(), results[i]);
      if (task.vocabulary().tokens == 0) continue;
      record.metrics["test_exact"] = test.exact;
      add_token_profiles(record, results[i], facts.of(*runs[i].run));
      if (exam.is_mixture()) continue;
      const double scaled = scaled_accuracy_last_quarter(results[i][0], facts.of(*runs[i].run)[0],
                                                         task.shape(Split::test).T, chance_of(record));
      if (std::isfinite(scaled)) record.metrics["scaled_accuracy_last_quarter"] = scaled;
    }
  }
  read_lengths(config, task, replicas, runs);
}

template <class Real>
void make_tests(const Options& config, const Task& task, Replicas<Real>& replicas) {
  { const Exam<Real> exam(config, task, Split::test, replicas); }
  for (const int factor : lengths_of(config)) {
    const auto lengthened = task.lengthened(factor);
    const Exam<Real> exam(config, *lengthened, Split::test, replicas);
  }
}

template void make_tests(const Options&, const Task&, Replicas<float>&);
template void make_tests(const Options&, const Task&, Replicas<double>&);
template void read_test(const Options&, const Task&, Replicas<float>&, const std::vector<TestedRun>&);
template void read_test(const Options&, const Task&, Replicas<double>&, const std::vector<TestedRun>&);

}  // namespace crosstalk
