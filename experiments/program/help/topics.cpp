// What no registry knows.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/help/topics.h"

#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "experiments/program/help/memory_tables.h"
#include "models/engines.h"
#include "results/numbers/verdict.h"
#include "results/replay/published.h"

namespace crosstalk::program {

extern const char* const kTopicsText;  ///< topics.txt, which the build makes a source of

namespace {

/// Names and meanings of the columns of published results.
std::string published_columns_text() {
  std::string text;
  for (const PublishedColumn& column : published_columns())
    text += fmt::format("{}  {}{}\n      {}", text.empty() ? "" : "\n", column.name,
                        column.required ? "  (needed)" : "", column.meaning);
  return text;
}

/// Which forms of a recurrence compute what, as its engine says (models/engines.h).
std::string forms_table() {
  struct Row {
    const char* what;
    RecurrenceKind kind;
  };
  const Row rows[] = {{"no decay, or one number a token", {}},
                      {"a decay of every key channel", {.channel_decay = true}},
                      {"a decay of every value channel", {.value_decay = true}},
                      {"an erase along any two vectors", {.erase = Erase::free}},
                      {"several writes a token", {.several_writes = true}}};
  std::string text = fmt::format("  {:<32}", "");
  for (const std::string& form : form_names())
    if (form != name_of(Form::automatic)) text += fmt::format("{:>11}", form);
  for (const Row& row : rows) {
    text += fmt::format("\n  {:<32}", row.what);
    for (const std::string& form : form_names())
      if (form != name_of(Form::automatic))
        text += fmt::format("{:>11}", covers(form_of(form), row.kind) ? "x" : "-");
  }
  return text;
}

/// Topics of topics.txt: a line "= name: summary" begins each. Lines of a paragraph are joined; indented ones
/// stay as they are.
std::vector<Topic> read_topics(const std::string& file) {
  std::vector<Topic> topics;
  std::istringstream lines(file);
  bool in_paragraph = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("= ")) {
      const std::size_t colon = line.find(": ");
      topics.push_back({line.substr(2, colon - 2), line.substr(colon + 2), ""});
      in_paragraph = false;
      continue;
    }
    if (topics.empty()) continue;
    std::string& text = topics.back().text;
    const bool is_paragraph = !line.empty() && line[0] != ' ';
    if (!text.empty()) text += in_paragraph && is_paragraph ? ' ' : '\n';
    text += line;
    in_paragraph = is_paragraph;
  }
  return topics;
}

}  // namespace

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all = [] {
    const std::pair<std::string, std::string> known[] = {{"%published_columns%", published_columns_text()},
                                                         {"%comparable%", comparable_text()},
                                                         {"%forms%", forms_table()},
                                                         {"%solved%", fmt::format("{}", kSolvedAccuracy)},
                                                         {"%margin%", fmt::format("{}", kChanceMargin)},
                                                         {"%least%", fmt::format("{}", kLeastEvaluations)},
                                                         {"%trend%", fmt::format("{:g}", 100 * kTrend)}};
    std::vector<Topic> read = read_topics(kTopicsText);
    for (Topic& topic : read) {
      while (topic.text.ends_with('\n')) topic.text.pop_back();
      for (const auto& [mark, text] : known) {
        for (std::size_t at; (at = topic.text.find(mark)) != std::string::npos;)
          topic.text.replace(at, mark.size(), text);
      }
    }
    return read;
  }();
  return all;
}

const std::vector<Topic>& columns() {
  static const std::vector<Topic> all = {
      {"id", "hash of the configuration: ct- and 32 hex digits"},
      {"study", "name of the study that asks for the run"},
      {"label", "name of its [memories.LABEL] table in that study; a run that two labels name has two rows"},
      {"status", "done, diverged (its loss became non-finite) or failed (an error)"},
      {"seed", "the seed of [study]"},
      {"study_version", "which version of the study asks for it; only where rows differ in it"},
      {"d_dot", "dimension of phi(k); 0 where the memory has no feature map"},
      {"state_size",
       "floats that the memory keeps of a sequence at inference; empty where that is not known"},
      {"steps", "training steps until the run ended"},
      {"verdict",
       "what became of training: solved, plateau, still_falling, ...; see 'crosstalk describe verdict'"},
      {"eval_loss", "loss of the last evaluation (validation split); see 'crosstalk describe loss'"},
      {"best_eval_loss", "smallest loss of any evaluation"},
      {"eval_accuracy", "share of right answers (largest value read) in the last evaluation"},
      {"eval_exact", "share of sequences with every answer right"},
      {"test_loss",
       "loss on the test split, which no stop rule and no selection sees; mean over all queries"},
      {"test_accuracy", "share of right answers on the test split"},
      {"test_bits_per_token", "of task text: test_loss / log 2; where tokens are bytes, bits a byte"},
      {"test_perplexity", "of task text: e to the test_loss"},
      {"unigram_loss", "of task text: the loss of saying each token as often as training has it, in nats"},
      {"error_oldest", "share of test queries answered with what the key was first given, and no longer has"},
      {"error_between",
       "share of test queries answered with another old value of the key, neither its first nor its last"},
      {"error_newest",
       "share of test queries answered with what the key was last given, and no longer has (task swap)"},
      {"error_other_context",
       "share of test queries answered with a value that the same key has in another context"},
      {"error_other_value",
       "share of test queries answered with a value of another key of the sequence (places and stacks are keys, too)"},
      {"error_key", "share of test queries answered with the key itself, where keys can be answers"},
      {"error_never",
       "share of test queries answered with something that the sequence never gave to a key before the read"},
      {"error_tie",
       "share of test queries whose right answer was read no larger than every other; with test_accuracy and the other error_... columns it adds up to 1"},
      {"test_exact", "share of test sequences with every answer right (tasks of single tokens)"},
      {"test_scaled_accuracy",
       "test_accuracy above chance: (accuracy - chance) / (1 - chance), tasks of single tokens"},
      {"test_class_accuracy",
       "mean over classes of the share of their answers that are right, of every 128 test sequences (MAD's score)"},
      {"scaled_accuracy_last_quarter",
       "accuracy on the last quarter of a test sequence, above chance: (accuracy - chance) / (1 - chance)"},
      {"test_accuracy_other_context",
       "share of answers that are the value of the asked key in another context (the one with the next id)"},
      {"context_gap",
       "test_accuracy minus test_accuracy_other_context: 0 for a memory that is blind to contexts"},
      {"parameters", "numbers that training changes"},
      {"stage", "stage of its curriculum that a run came to, from 1"},
      {"chance_accuracy",
       "accuracy of guessing among the values of the sequence; tasks of single tokens: among all answers"},
      {"chance_loss", "tasks of single tokens: cross-entropy of guessing among all answers"},
      {"constant_loss", "loss of answering 0"},
      {"optimum_loss", "loss of ridge regression, the mean given the examples: nothing comes below it"},
      {"least_squares_loss", "loss of the shortest least squares solution"},
      {"delta_rule_loss", "loss of one pass of the delta rule with keys of length 1 and beta = 1"},
      {"one_step_loss", "loss of the sum rule, one step of gradient descent, with the best rate"},
      {"rank_bound",
       "the smallest loss of any memory that reads through d_dot features; see 'describe loss'"},
      {"sum_rule_floor", "0.5 (1 - E[1/m]), as published; takes values as different"},
      {"sum_rule_floor_exact", "the same with values that coincide: the floor of memories blind to order"},
      {"baseline_most_recent_accuracy", "accuracy of answering the value written last"},
      {"baseline_first_accuracy", "accuracy of answering the first value of the sequence"},
      {"baseline_random_in_context_accuracy", "accuracy of answering any value of the sequence"},
      {"baseline_unchanged_accuracy", "accuracy of ignoring every change"},
      {"baseline_in_order_accuracy", "accuracy of answering the q-th query with the q-th value (mqar)"},
      {"baseline_any_context_accuracy",
       "accuracy of answering the key's value in any context of the sequence (context_recall)"},
      {"baseline_own_context_accuracy",
       "accuracy of answering any value of the context asked (context_recall)"},
      {"baseline_last_context_accuracy",
       "accuracy of answering the value shown last with the key, whatever the context (context_recall)"},
      {"baseline_latest_of_stack_accuracy",
       "accuracy of answering what was pushed last on a stack, popped or not (stacks)"},
      {"baseline_latest_write_accuracy",
       "accuracy of answering the bit written last, undone or not (automaton)"},
      {"baseline_toggle_accuracy", "accuracy of turning the bit around where a write is undone (automaton)"},
      {"baseline_last_answer_accuracy",
       "accuracy of answering what was right at the question before (automaton)"},
      {"baseline_last_shown_accuracy", "accuracy of answering what stood beside the variable last (trace)"},
      {"baseline_hidden_ignored_accuracy",
       "accuracy of running a program as if hidden lines did nothing (trace)"},
      {"baseline_one_hop_accuracy", "accuracy of going one step only (k_hop, depo, reachability)"},
      {"baseline_itself_accuracy", "accuracy of answering what is asked (k_hop, depo)"},
      {"baseline_none_accuracy", "accuracy of always answering none (k_hop)"},
      {"baseline_unordered_accuracy", "accuracy of answering the smallest id that is left (brevo)"},
      {"baseline_most_common_accuracy",
       "accuracy of answering 0 (arithmetic), or training's most frequent token (text)"},
      {"baseline_unused_accuracy", "accuracy of answering any value that was no answer before (mqar)"},
      {"provenance",
       "columns of 'export --provenance': host, cpu, device, commit, compiler, started, wall_s, device_s (its share of a device), ..."},
  };
  return all;
}

}  // namespace crosstalk::program
