// mad_recall: recall of keys that come again and again, with noise, or with keys and values of several tokens.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tasks/drawn_task.h"
#include "tasks/kinds/mad_recall_sequence.h"

namespace crosstalk::mad_recall_task {

MadRecallSpec spec_of(const Options& options) {
  MadRecallSpec spec;
  spec.motif = int_option(options, "motif");
  spec.noises = int_option(options, "noise_vocabulary");
  const int ids = int_option(options, "vocabulary") - spec.noises - (spec.motif > 1 ? 1 : 0);
  spec.keys = ids / 2;
  spec.values = ids - ids / 2;
  spec.noise = static_cast<std::int32_t>(std::lround(options.get_double("task.noise") * mad::kProbability));
  spec.length = int_option(options, "length");
  spec.next = options.get_string("task.train_labels") == "next";
  spec.examples = examples_of(options);
  return spec;
}

class MadRecall final : public DrawnTask<MadRecall, TokenTask, mad_recall_sequence, mad_recall_scratch_size> {
 public:
  explicit MadRecall(const Options& options)
      : DrawnTask(spec_of(options)), vocabulary_(int_option(options, "vocabulary")) {}

  Vocabulary vocabulary() const override { return token_vocabulary(vocabulary_); }

  /// Each key with the value behind it; of motifs, the n-th token of a value under the n-th place behind its key.
  std::vector<KeyWrite> writes(const SequenceView& sequence) const override {
    std::vector<KeyWrite> all;
    for (int t = 1; t < sequence.shape.T; ++t)
      if (is_value(sequence.tokens[t]))
        if (const std::int32_t key = key_before(sequence, t); key >= 0)
          all.push_back({t + 1, 0, key, sequence.tokens[t]});
    return all;
  }
  std::int32_t asked_key(const SequenceView& sequence, int q) const override {
    return spec_.motif == 1 ? sequence.query[q] : key_before(sequence, sequence.query_position[q]);
  }
  SequenceShape full_shape(Split split) const override { return {of(split).tokens(), 1, of(split).tokens()}; }

  /// Answers are the tokens that come next; behind the last token what its key was followed by before.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    const std::int32_t *tokens = sequence.tokens, T = sequence.shape.T;
    if (position < T) return tokens[position];
    const auto value = [&](int t) { return tokens[t] >= spec_.keys; };
    int key_end = T;  // what stands behind it is the begin of its value
    while (value(key_end - 1)) --key_end;
    int key = key_end;
    while (key > 0 && !value(key - 1)) --key;
    const int size = key_end - key, offset = T - key_end;
    for (int t = 0; t + size + offset < key; ++t)
      if ((t == 0 || value(t - 1)) && value(t + size) &&
          std::equal(tokens + t, tokens + t + size, tokens + key))
        return tokens[t + size + offset];
    return -1;
  }

  void lengthen(int factor) override { eval_.length = lengthened_size(spec_.length, factor); }
  int eval_load() const override { return eval_.length; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return answer_word(sequence.tokens[t]);
  }
  std::string answer_word(std::int32_t token) const override {
    return token < spec_.keys                  ? fmt::format("k{}", token)
           : token < spec_.keys + spec_.values ? fmt::format("v{}", token - spec_.keys)
           : token == spec_.blank() && spec_.motif > 1
               ? "."
               : fmt::format("n{}", token - spec_.keys - spec_.values);
  }
  int answers() const override { return spec_.values; }

  /// most_recent: the value token shown last. random_in_context: any value token shown before.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    double right = 0, all = 0;
    std::int32_t last = -1;
    for (int t = 0; t < sequence.query_position[q]; ++t) {
      const std::int32_t token = sequence.tokens[t];
      if (token < spec_.keys || token >= spec_.keys + spec_.values) continue;
      ++all;
      right += token == sequence.target[q];
      last = token;
    }
    return {{"most_recent", last == sequence.target[q] ? 1.0 : 0.0}, {"random_in_context", right / all}};
  }

 private:
  bool is_value(std::int32_t token) const { return token >= spec_.keys && token < spec_.keys + spec_.values; }
  /// Under which key a value's token at place t stands: of one token that token; of motifs a number that is no token, of where
  /// its key was shown first and of the tokens of the value before it. -1: behind no key.
  std::int32_t key_before(const SequenceView& sequence, int t) const {
    const std::int32_t* tokens = sequence.tokens;
    const auto is_key = [&](int i) { return i >= 0 && tokens[i] < spec_.keys; };
    int end = t;
    while (end > 0 && is_value(tokens[end - 1])) --end;
    if (!is_key(end - 1)) return -1;
    if (spec_.motif == 1) return end == t ? tokens[t - 1] : -1;
    int begin = end;
    while (is_key(begin - 1)) --begin;
    const int size = end - begin;
    int first = 0;
    while (!((first == 0 || !is_key(first - 1)) && std::equal(tokens + begin, tokens + end, tokens + first) &&
             !is_key(first + size)))
      ++first;
    return vocabulary_ + first * (mad::kLongestMotif + 1) + (t - end);
  }
  int vocabulary_;
};

void resolve(Options& options) {
  const MadRecallSpec spec = spec_of(options);
  const std::string motif = fmt::format("task.motif = {}", spec.motif);
  if (spec.keys < spec.motif || spec.values < spec.motif || spec.keys < 1)
    refuse(
        options, "task.vocabulary",
        fmt::format(
            " leaves {} ids for keys and {} for values; {} needs as many of each, so give a larger vocabulary or less task.noise_vocabulary",
            std::max(spec.keys, 0), std::max(spec.values, 0), motif));
  if (std::pow(spec.keys + 1.0, spec.motif) > 2e9)
    refuse(options, "task.motif",
           fmt::format(" of {} keys are more motifs than are counted; give less", spec.keys));
  if (spec.motif == 1 && (spec.length % 2 != 0 || spec.length < 4))
    refuse(options, "task.length", ": pairs of two tokens need an even length of at least 4");
  if (spec.motif > 1 && spec.length <= 4 * spec.motif)
    refuse(options, "task.length", fmt::format(": {} needs at least {} tokens", motif, 4 * spec.motif + 1));
  if (spec.motif > 1 && (spec.noise > 0 || spec.noises > 0))
    throw OptionError("task.noise",
                      fmt::format("{} has no noise; leave task.noise and task.noise_vocabulary out", motif));
  if (spec.noise > 0 && spec.noises == 0)
    throw OptionError("task.noise_vocabulary", "task.noise needs ids of noise; give task.noise_vocabulary");
}

TaskKind kind() {
  return {
      "mad_recall",
      "keys with their values again and again: in-context, noisy and fuzzy recall of MAD",
      "Keys, each followed by its value, in a vocabulary whose first half are keys and whose second are values. Keys are drawn uniformly with "
      "replacement; a key's value is drawn at its first showing (keys may share values) and the same from then on, and wherever a key comes again "
      "its value is due before it is shown. In-context recall of MAD (Poli et al. 2024, arXiv 2403.17844; mad-lab, multi_query): vocabulary 16, "
      "length 128, of which 127 tokens are read. Noisy recall: a pair gives way to two ids of noise with probability `noise`: vocabulary = 32, "
      "noise_vocabulary = 16, noise = 0.2. Fuzzy recall: motif = 3; keys and values have 1 .. motif different tokens, keys of evaluation always "
      "`motif`, one pair stands in every sequence and comes last again, and one id fills up the front. train_labels = \"next\" trains on all next "
      "tokens, as MAD does, and evaluation scores the due ones only; examples = 12800 is MAD's training set. Two faults of the published generator "
      "are not kept: where all pairs are noise it fails, and in one fuzzy sequence in some hundreds the pair that is asked last was never shown. "
      "MAD's score is the mean over classes, test_class_accuracy. chance_accuracy is one among the values. MAD's grid: vocabulary to 128, length to "
      "1024, examples from 800, noise to 0.8.",
      {{"vocabulary", 16, "token ids: keys, values, noise, and one blank where motif > 1", 2, 1 << 20},
       {"length", 128, "tokens of a sequence, the last answer included where motif = 1", 4, 1 << 17},
       {"noise_vocabulary", 0, "of them noise", 0, 1 << 20},
       {"noise", 0.0, "probability that noise takes a pair's place", 0, 0.99},
       {"motif", 1, "largest number of tokens of a key and of a value", 1, mad::kLongestMotif},
       choice("train_labels", "next",
              "where training has its loss: at all tokens, on the next one, or at due answers only",
              {"next", "due"}),
       examples_option()},
      resolve,
      make<MadRecall>};
}

}  // namespace crosstalk::mad_recall_task
