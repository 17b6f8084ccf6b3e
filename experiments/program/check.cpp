// crosstalk check: what a law of the memory `rule` is, and what runs it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/study/study.h"
#include "experiments/study/toml_reader.h"
#include "kernels/base/text/names.h"
#include "models/rules/kernels.h"
#include "models/rules/latex.h"
#include "models/rules/memory_law.h"
#include "models/rules/report.h"
#include "models/rules/rule_memory.h"

namespace crosstalk::program {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first);
}

/// The law of [memories.LABEL] as the file spells it, with its own names; "" where it stands elsewhere.
std::string spelling_of(const Study& study, const std::string& label) {
  const TomlNode root = parse_toml(study.text);
  const TomlEntry* entry = root.find("memories");
  for (const char* key : {label.c_str(), "law"})
    if (entry) entry = entry->node.find(key);
  if (!entry) return "";
  const bool list = entry->node.kind == TomlNode::Kind::array;
  std::string text;
  for (const TomlNode& step : list ? entry->node.items : std::vector<TomlNode>{entry->node})
    if (const auto* one = std::get_if<std::string>(&step.value)) text += (text.empty() ? "" : "; ") + *one;
  return text;
}

/// A rule of a study: its first run, and its law in the file's words where they are known.
struct StudyRule {
  Run run;
  std::string spelling;
};

/// That of a label, which is the only rule of the study where none is named.
StudyRule rule_of_study(const std::filesystem::path& path, const std::string& label) {
  const Study study = study_named(path.string());
  std::vector<std::string> rules;
  const Run* found = nullptr;
  for (const Run& run : study.runs) {
    for (const std::string& name : run.labels) {
      if (run.config.get_string("memory.name") != "rule") {
        if (name == label)
          throw UsageError(fmt::format(
              "check: {} of {} is {}, which has no law as text; 'crosstalk describe {}' explains it", label,
              path.string(), run.config.get_string("memory.name"), run.config.get_string("memory.name")));
        continue;
      }
      if (std::ranges::find(rules, name) == rules.end()) rules.push_back(name);
      if (!found && (label.empty() || name == label)) found = &run;
    }
  }
  if (rules.empty()) {
    std::vector<std::string> labels;
    for (const StudyLabel& one : study.labels) labels.push_back(one.label);
    throw UsageError(
        fmt::format("check: {} has no memory with a law (name = \"rule\"); {} {} built in, and "
                    "'crosstalk describe NAME' explains a memory, 'crosstalk plan {}' a study",
                    path.string(), join(labels, ", ", " and "), labels.size() == 1 ? "is" : "are",
                    shell_quote(path.string())));
  }
  if (!found)
    throw UsageError(
        fmt::format("check: {} has no rule {}; {}", path.string(), label, suggestion(label, rules)));
  if (label.empty() && rules.size() > 1)
    throw UsageError(fmt::format("check: {} has the rules {}; name one: crosstalk check {} {}", path.string(),
                                 join(rules, ", ", " and "), shell_quote(path.string()), rules[0]));
  std::string spelling = spelling_of(study, label.empty() ? rules[0] : label);
  return {*found, std::move(spelling)};
}

/// One word is no law: a file that is not there, or a memory's name.
void check_is_law(const std::string& given) {
  if (given.find_first_of("=;([ \t\n") != std::string::npos) return;
  if (given.find_first_of("./") != std::string::npos)
    throw UsageError(fmt::format("check: {} is neither a law nor a study file, which ends in .toml", given));
  if (const std::string near = nearest_name(given, names_of(all_memories())); !near.empty())
    throw UsageError(
        fmt::format("check: {} is no law; the memory {} is explained by 'crosstalk describe {}', and a law "
                    "is text: crosstalk check \"S += v k^T; read S q\"",
                    given, near, near));
}

/// The law of a text; what is wrong stands under its step.
const rules::Rule& rule_of_text(const std::string& text) {
  const std::vector<std::string> steps = rules::steps_of(text);
  try {
    return rules::rule_of(text, rules::numbers_of({}));
  } catch (const rules::LawError& error) {
    const auto at = static_cast<std::size_t>(error.step) - 1;
    const std::string step = at < steps.size() ? steps[at] : "";
    const std::string shown = trimmed(step);
    const auto skipped = static_cast<int>(step.size() - shown.size());
    throw UsageError(fmt::format("check: step {}, column {}: {}\n  {}\n  {:>{}}", error.step,
                                 std::max(1, error.column - skipped), error.what(), shown, "^",
                                 std::max(1, error.column - skipped)));
  }
}

int run_check(const Arguments& arguments, Console& console) {
  const std::string& given = arguments.positional.at(0);
  const bool study = given.ends_with(".toml");
  if (!study && arguments.positional.size() > 1)
    throw UsageError(
        "check: a law is one word of the command line; put quotes around it: crosstalk check \"S += v k^T; read S q\"");
  if (study && arguments.positional.size() > 2) throw UsageError("check: one label at a time");
  std::string text = given;
  const rules::Rule* rule = nullptr;
  std::int64_t state_size = 0;
  std::unique_ptr<rules::Law> written;
  const Memory* memory = find_memory(given);
  if (memory && !memory->law.empty()) {
    written = rules::study_law(*memory, {});
    text = fmt::format("{}", fmt::join(rules::canonical(*written), "; "));
    rule = &rule_of_text(text);
  } else if (study) {
    const auto [run, spelling] =
        rule_of_study(given, arguments.positional.size() > 1 ? arguments.positional[1] : "");
    rule = &rules::rule_of(run.config);
    text = rule->text, state_size = run.state_size;
    // A grid may have replaced the file's law.
    if (!spelling.empty() && rules::rule_of(spelling, rules::numbers_of({})).text == text) text = spelling;
  } else {
    check_is_law(given);
    rule = &rule_of_text(text);
  }
  if (!written) written = rules::parse_law(rules::steps_of(text), rules::numbers_of({}));
  rules::LawReport report = rules::report(*written, *rule->law, rule->plan);
  if (memory && rules::kernel_of_law(memory->name))
    report.engines.insert(
        report.engines.begin(),
        {memory->name, rule->refused.empty()
                           ? "a kernel of its own; as a law of a study it runs as follows"
                           : "a kernel of its own, and as a law of a study nothing runs it"});
  std::ostream& out = console.out;
  rules::Rows names = {{"name", "type", ""}};
  names.insert(names.end(), report.names.begin(), report.names.end());
  out << table(names) << "\nlaw\n";
  for (const std::string& step : rules::steps_of(rule->text)) out << "  " << trimmed(step) << "\n";
  out << "\nengine\n" << two_columns(report.engines, 8, 100);
  out << fmt::format("\noperations a token: {} with the state, {} before, for all tokens at once\n",
                     report.with_state, report.without_state);
  if (state_size > 0) out << fmt::format("state: {} numbers a sequence\n", state_size);
  for (const std::string& note : report.notes) out << wrap("note: " + note, 100, "  ");
  for (const std::string& warning : report.warnings) print_warning(console, warning);
  out << "\nLaTeX\n" << rules::latex(*written) << "\n";
  if (rule->refused.empty() || memory) return exit_done;
  throw UsageError(fmt::format("check: nothing can run this law: {}", rule->refused));
}

}  // namespace

extern const Command check_command = {
    "check",
    "what a law of the memory `rule` is, and what runs it",
    "\"LAW\" | MEMORY | STUDY.toml [LABEL]",
    "LAW is the steps of a law (docs/rules.md) with ; between them. It is said what every name is, how the\n"
    "law is kept (memory.law of a record), and which engine runs each state, or why none does; then the\n"
    "exit code is 2. Operations are additions, products and functions of numbers; projections of the\n"
    "token are not among them. At the end the law's equations, for a paper (LaTeX, package amsmath).\n"
    "Of a study, the law of LABEL; of a memory whose law is text, the one that a study may begin with.\n\n"
    "Examples:\n"
    "  crosstalk check \"beta = sigmoid(token); S += beta (v - S k) k^T; read S q\"\n"
    "  crosstalk check kda\n"
    "  crosstalk check mine.toml\n",
    1,
    -1,
    "needs a law, a memory or a study, for example: crosstalk check \"S += v k^T; read S q\"",
    {},
    run_check,
};

}  // namespace crosstalk::program
