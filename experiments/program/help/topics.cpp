// What no registry knows.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/help/topics.h"

#include <fmt/format.h>

#include <sstream>

#include "experiments/common/text.h"
#include "experiments/program/help/memory_tables.h"
#include "models/engines.h"
#include "results/numbers/verdict.h"
#include "results/replay/published.h"

namespace crosstalk::program {

// topics.txt and columns.txt, which the build makes sources of.
extern const char *const kTopicsText, *const kColumnsText;

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
    std::vector<Topic> read =
        read_topics(filled(kTopicsText, {{"%published_columns%", published_columns_text()},
                                         {"%comparable%", comparable_text()},
                                         {"%forms%", forms_table()},
                                         {"%solved%", fmt::format("{}", kSolvedAccuracy)},
                                         {"%margin%", fmt::format("{}", kChanceMargin)},
                                         {"%least%", fmt::format("{}", kLeastEvaluations)},
                                         {"%trend%", fmt::format("{:g}", 100 * kTrend)}}));
    for (Topic& topic : read)
      while (topic.text.ends_with('\n')) topic.text.pop_back();
    return read;
  }();
  return all;
}

const std::vector<Topic>& columns() {
  static const std::vector<Topic> all = [] {
    std::vector<Topic> read;
    std::istringstream lines(kColumnsText);
    for (std::string line; std::getline(lines, line);)
      read.push_back({line.substr(0, line.find(": ")), line.substr(line.find(": ") + 2), ""});
    return read;
  }();
  return all;
}

}  // namespace crosstalk::program
