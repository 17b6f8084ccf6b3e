// How the runs of a table were made, as a paragraph for a paper: data, splits, model, training, choice, seeds, stop rule. Every
// number is read from the records.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "plots/drawing/prepare.h"
#include "plots/drawing/window.h"
#include "plots/figure.h"
#include "plots/tables/latex.h"
#include "plots/tables/mad_table.h"
#include "results/csv.h"
#include "results/numbers/unequal.h"

namespace crosstalk {
namespace {

constexpr std::size_t kMostListed = 4;

class Protocol {
 public:
  Protocol(const RecordList& all, const RecordList& chosen, const FigureOptions& options, std::string metric)
      : all_(all), chosen_(chosen), options_(options), metric_(std::move(metric)) {}

  std::string text() const {
    std::vector<std::string> parts = {data(),  splits(), model(),  training(), rates(),
                                      seeds(), stop(),   others(), unequal()};
    std::erase(parts, "");
    return fmt::format("\\paragraph{{Protocol.}} {}\n", fmt::join(parts, " "));
  }

 private:
  /// Values of a key, sorted as numbers where they are; empty texts are none.
  static std::vector<std::string> values(const RecordList& records, const std::string& key) {
    std::set<std::string> seen;
    for (const Record* record : records)
      if (const auto value = field_text(*record, key); value && !value->empty()) seen.insert(*value);
    return sorted_values({seen.begin(), seen.end()});
  }
  std::vector<std::string> values(const std::string& key) const { return values(chosen_, key); }
  static std::string plain(const std::string& text) { return latex_of(mathtext_of(text)); }
  static std::string code(const std::string& text) { return "\\texttt{" + plain(text) + "}"; }

  /// "8", "8, 16 and 32", "20 to 600 (30 values)".
  static std::string listed(const std::vector<std::string>& values) {
    const bool numbers = std::ranges::all_of(values, [](const auto& v) { return number_in(v).has_value(); });
    if (values.size() > kMostListed && numbers)
      return fmt::format("{} to {} ({} values)", plain(values.front()), plain(values.back()), values.size());
    std::string text;
    for (std::size_t i = 0; i < values.size(); ++i)
      text += (i == 0 ? "" : i + 1 == values.size() ? " and " : ", ") + plain(values[i]);
    return text;
  }
  std::string listed(const std::string& key) const { return listed(values(key)); }
  /// "1 head", "2 and 4 heads".
  std::string counted(const std::string& key, const char* what) const {
    const std::string text = listed(key);
    return fmt::format("{} {}{}", text, what, text == "1" ? "" : "s");
  }
  bool has(const std::string& key) const { return !values(key).empty(); }
  /// Whether any run says something else than `neutral`.
  bool differs(const std::string& key, std::initializer_list<const char*> neutral) const {
    const auto found = values(key);
    return std::ranges::any_of(found, [&](const std::string& value) {
      return std::ranges::none_of(neutral, [&](const char* one) { return same_text(value, one); });
    });
  }

  /// "task mqar (length 256; pairs 4, 8 and 16)": what is not 0, false, none or empty.
  std::string data() const {
    std::string text;
    for (const std::string& task : values("task.name")) {
      RecordList of_task;
      std::set<std::string> keys;
      for (const Record* record : chosen_) {
        if (config_text(*record, "task.name") != task) continue;
        of_task.push_back(record);
        for (const auto& [key, value] : record->config)
          if (key.starts_with("task.") && key != "task.name") keys.insert(key);
      }
      std::vector<std::string> settings;
      for (const std::string& key : keys) {
        const auto found = values(of_task, key);
        const bool silent = std::ranges::all_of(found, [](const std::string& value) {
          return value == "0" || value == "-1" || value == "false" || value == "none";
        });
        if (!silent) settings.push_back(fmt::format("{} {}", plain(key.substr(5)), listed(found)));
      }
      text += fmt::format("{} {}{}.", text.empty() ? "Task" : " Task", code(task),
                          settings.empty() ? "" : fmt::format(" ({})", fmt::join(settings, "; ")));
    }
    // Segments count their sequences, files hold theirs; of other tasks examples says whether there is a set at all.
    std::set<std::string> fixed, drawn;
    for (const Record* record : chosen_) {
      const std::string task = config_text(*record, "task.name").value_or("");
      const bool segments = !config_text(*record, "task.segments").value_or("").empty(),
                 examples = config_number(*record, "task.examples").value_or(0) > 0,
                 fresh = config_text(*record, "task.fresh") == "true";
      (is_given(*record) || ((segments || examples) && !fresh) ? fixed : drawn).insert(task);
    }
    if (drawn.empty() && !fixed.empty())
      text += " Training goes over a fixed set of sequences again and again.";
    else if (fixed.empty() && !text.empty())
      text += " Every training step draws new sequences.";
    else if (!text.empty())
      text += fmt::format(
          " Training goes over a fixed set of sequences again and again ({}), or draws new ones at every step ({}).",
          listed(std::vector<std::string>(fixed.begin(), fixed.end())),
          listed(std::vector<std::string>(drawn.begin(), drawn.end())));
    return text;
  }
  /// Whether its sequences stand in files: a task that has a folder, and nothing to draw.
  static bool is_given(const Record& record) {
    return !config_text(record, "task.folder").value_or("").empty();
  }

  /// "64", "at most 64", "12": how many sequences an evaluation reads; a mixture's segments count each their own.
  std::string evaluated() const {
    std::set<std::string> counts;
    bool at_most = false;
    for (const Record* record : chosen_) {
      const double each = config_number(*record, "eval.sequences").value_or(0);
      std::string groups = config_text(*record, "task.test_segments").value_or("");
      const bool as_trained = groups.empty();  // which says how many to train on, not to read
      if (as_trained) groups = config_text(*record, "task.segments").value_or("");
      double sum = 0;
      std::istringstream all(groups);
      for (std::string group; all >> group;) {
        const bool counted = !as_trained && std::ranges::count(group, ':') > 1;
        sum += counted ? number_in(group.substr(group.rfind(':') + 1)).value_or(0) : each;
      }
      if (is_given(*record) && record->profiles.count("accuracy_by_segment") != 0) {
        counts.insert("all");
      } else {
        at_most = at_most || is_given(*record);
        counts.insert(fmt::format("{}", groups.empty() ? each : sum));
      }
    }
    return (at_most ? "at most " : "") + listed(sorted_values({counts.begin(), counts.end()}));
  }

  std::string splits() const {
    const std::string shown = metric_.starts_with("test")
                                  ? "sequences of the test split, which nothing was chosen by"
                                  : "these validation sequences";
    return fmt::format(
        "Every {} steps the model is evaluated on {} validation sequences{}; shown is {} on {}.",
        listed("eval.every"), evaluated(),
        differs("eval.protocol", {"uniform"}) ? fmt::format(" by the protocol {}", listed("eval.protocol"))
                                              : "",
        code(metric_), shown);
  }

  std::string model() const {
    if (values("model.name") == std::vector<std::string>{"language"}) {
      std::string text =
          fmt::format("Language model of width {}, {}, {}, keys of {} and values of {} numbers",
                      listed("model.width"), counted("model.layers", "layer"), counted("model.heads", "head"),
                      listed("model.d_key"), listed("model.d_value"));
      if (has("model.layer")) text += fmt::format(", layer {}", listed("model.layer"));
      if (differs("model.stack", {"memory"})) text += fmt::format(", stack {}", listed("model.stack"));
      if (differs("model.mlp", {"none"})) text += fmt::format(", MLP {}", listed("model.mlp"));
      for (const auto& [key, words] : {std::pair{"model.short_conv", "short convolution of"},
                                       {"model.decoder", "decoder"},
                                       {"model.readout", "readout"}})
        if (differs(key, {"none", "linear"})) text += fmt::format(", {} {}", words, of_tasks(key));
      for (const auto& [key, words] : {std::pair{"model.embed_dropout", "dropout of embedded tokens"},
                                       {"model.dropout", "dropout"},
                                       {"model.weight_dropout", "dropout of attention weights"}})
        if (differs(key, {"0"})) text += fmt::format(", {} {}", words, listed(key));
      return text + ".";
    }
    return has("model.d_key") ? fmt::format("Keys of {} numbers.", listed("model.d_key")) : "";
  }

  std::string training() const {
    std::string text =
        fmt::format("{} on batches of {} sequences", listed(optimizers()), listed("train.batch"));
    const auto add = [&](const char* key, const char* words, std::initializer_list<const char*> neutral) {
      if (differs(key, neutral)) text += fmt::format(", {} {}", words, listed(key));
    };
    text += fmt::format(", $\\beta_1$ {}, $\\beta_2$ {}", listed("train.beta1"), listed("train.beta2"));
    add("train.weight_decay", "weight decay", {"0"});
    add("train.clip_norm", "gradients clipped to a norm of", {"0"});
    add("train.schedule", "learning rate by the schedule", {"constant"});
    add("train.warmup_steps", "steps of warm-up", {"0"});
    add("train.precision", "precision", {"fp32"});
    return text + ".";
  }
  std::vector<std::string> optimizers() const {
    std::vector<std::string> names;
    for (const std::string& name : values("train.optimizer"))
      names.push_back(name == "adam" ? "Adam" : name == "adamw" ? "AdamW" : "Muon and AdamW");
    return names;
  }

  std::string rates() const {
    std::string text;
    for (const std::string& key : options_.best)
      text += fmt::format(
          "{}{} is chosen for each memory and point among {} by the {} of the validation data, median over seeds.",
          text.empty() ? "" : " ", key == "train.learning_rate" ? "The learning rate" : code(key),
          listed(values(all_, key)),
          options_.best_by == BestBy::accuracy ? "largest accuracy" : "smallest loss");
    if (!options_.best.empty())
      if (const std::string unequal = unequal_seeds_text(all_, options_.best); !unequal.empty())
        text += " " + unequal;
    const std::string rate = "train.learning_rate";
    if (std::ranges::find(options_.best, rate) == options_.best.end() && has(rate))
      text += fmt::format("{}Learning rate {}.", text.empty() ? "" : " ", listed(rate));
    if (differs("train.optimizer", {"adam", "adamw"}))
      text += fmt::format(" Muon's rate {}.", listed("train.muon_rate"));
    return text;
  }

  /// The fewest and the most runs that differ in nothing but seeds.
  std::pair<std::size_t, std::size_t> seeds_of_a_point() const {
    std::map<std::string, std::set<std::string>> points;
    for (const Record* record : chosen_) {
      std::string point = record->label;
      for (const auto& [key, value] : record->config)
        if (!is_seed_key(key)) point += "\n" + key + " " + value.dump();
      points[point].insert(field_text(*record, "seed").value_or(""));
    }
    std::pair<std::size_t, std::size_t> found{std::string::npos, 0};
    for (const auto& [point, seeds] : points)
      found = {std::min(found.first, seeds.size()), std::max(found.second, seeds.size())};
    return found;
  }

  std::string seeds() const {
    const auto found = values("seed");
    const auto diverged = std::ranges::count_if(
        chosen_, [](const Record* record) { return record->status == RunStatus::diverged; });
    const auto [fewest, most] = seeds_of_a_point();
    // A seed is that of data and of initialisation, but where a study fixes one of them.
    std::vector<std::string> fixed;
    for (const auto& [key, words] : {std::pair{"data_seed", "data"}, {"init_seed", "initialisation"}})
      if (std::ranges::any_of(chosen_, [key = key](const Record* record) {
            const auto own = config_number(*record, key);
            return own && *own != static_cast<double>(record->seed);
          }))
        fixed.push_back(fmt::format("{} drawn by {} {}", words, plain(key), listed(key)));
    std::string text = fmt::format(
        "{} ({}), {}; medians over seeds.",
        most == 1        ? "One seed"
        : fewest == most ? fmt::format("{} seeds", most)
                         : fmt::format("{} to {} seeds a point", fewest, most),
        listed(found),
        fixed.empty() ? "each of both data and initialisation" : fmt::format("{}", fmt::join(fixed, ", ")));
    if (diverged > 0)
      text += fmt::format(" {} of {} runs diverged and count as the worst.", diverged, chosen_.size());
    return text;
  }

  std::string stop() const {
    std::vector<std::string> rules;
    if (differs("train.stop_loss", {"0"}))
      rules.push_back(fmt::format("the validation loss is at most {}", listed("train.stop_loss")));
    if (differs("train.stop_accuracy", {"0"}))
      rules.push_back(fmt::format("the validation accuracy is at least {}", listed("train.stop_accuracy")));
    const auto may_lose_patience = [](const Record* record) {
      const double every = config_number(*record, "eval.every").value_or(0);
      return every > 0 && config_number(*record, "train.patience").value_or(0) <
                              config_number(*record, "train.max_steps").value_or(0) / every;
    };
    if (has("train.patience") && std::ranges::any_of(chosen_, may_lose_patience))
      rules.push_back(
          fmt::format("more than {} evaluations in a row bring no new best loss", listed("train.patience")));
    rules.push_back(fmt::format("{} steps are done", listed("train.max_steps")));
    std::string text = "Training stops when ";
    for (std::size_t i = 0; i < rules.size(); ++i)
      text += (i == 0 ? "" : i + 1 == rules.size() ? ", or " : ", ") + rules[i];
    return text + ".";
  }

  /// "Settings beside these: model.out\_act silu.": keys that no sentence is about and that are not as by default.
  std::string others() const {
    static const std::set<std::string> told = {"seed",
                                               "data_seed",
                                               "init_seed",
                                               "model.name",
                                               "model.d_key",
                                               "train.optimizer",
                                               "train.batch",
                                               "train.beta1",
                                               "train.beta2",
                                               "train.weight_decay",
                                               "train.clip_norm",
                                               "train.schedule",
                                               "train.warmup_steps",
                                               "train.precision",
                                               "train.learning_rate",
                                               "train.muon_rate",
                                               "train.stop_loss",
                                               "train.stop_accuracy",
                                               "train.patience",
                                               "train.max_steps",
                                               "eval.every",
                                               "eval.sequences",
                                               "eval.protocol"};
    static const std::set<std::string> of_language = {
        "model.width",         "model.layers",  "model.heads",         "model.d_value", "model.layer",
        "model.stack",         "model.mlp",     "model.short_conv",    "model.decoder", "model.readout",
        "model.embed_dropout", "model.dropout", "model.weight_dropout"};
    const bool language = values("model.name") == std::vector<std::string>{"language"};
    std::set<std::string> keys;
    for (const Record* record : chosen_)
      for (const auto& [key, value] : record->config) {
        const std::string text = config_text(*record, key).value_or("");
        if (key.starts_with("task.") || key.starts_with("memory.") || told.count(key) != 0 ||
            (language && of_language.count(key) != 0))
          continue;
        const auto standard =
            options_.default_of ? options_.default_of(*record, key) : std::optional<std::string>();
        if (standard && !text.empty() && !same_text(text, *standard)) keys.insert(key);
      }
    std::vector<std::string> settings;
    for (const std::string& key : keys) settings.push_back(fmt::format("{} {}", plain(key), listed(key)));
    return settings.empty() ? "" : fmt::format("Settings beside these: {}.", fmt::join(settings, "; "));
  }

  std::string unequal() const {
    std::vector<std::string> swept = options_.by;
    swept.insert(swept.end(), options_.best.begin(), options_.best.end());
    return plain(unequal_text(
        chosen_, [](const std::string& label) { return label; }, std::string::npos, swept));
  }

  /// "last (compression) and none (mad_recall, memorise)" where it goes by the task; else its values.
  std::string of_tasks(const std::string& key) const {
    std::map<std::string, std::set<std::string>> tasks;  // of each value
    std::size_t pairs = 0;
    for (const Record* record : chosen_)
      if (const auto value = config_text(*record, key))
        pairs += tasks[*value].insert(config_text(*record, "task.name").value_or("")).second ? 1 : 0;
    if (tasks.size() < 2 || pairs != values("task.name").size()) return listed(key);
    std::vector<std::string> texts;
    for (const auto& [value, names] : tasks)
      texts.push_back(fmt::format("{} ({})", plain(value), plain(fmt::format("{}", fmt::join(names, ", ")))));
    return fmt::format("{}", fmt::join(texts, " and "));
  }

  const RecordList &all_, &chosen_;
  const FigureOptions& options_;
  const std::string metric_;  ///< what the table shows
};

}  // namespace

namespace {

/// What a table shows where no --metric says it.
std::string shown_metric(const std::string& table, const Prepared& prepared, const FigureOptions& options) {
  if (!options.metric.empty()) return options.metric;
  std::ostringstream unsaid;
  const FigureInput input{prepared.records, prepared.styles, options, unsaid};
  if (table == "mad") return mad_metric(input).name;
  if (table == "windows") return window_metric(input).name;
  if (table == "tracking") return "test_accuracy";
  return options.best.empty() ? "eval_loss" : "test_loss";
}

}  // namespace

std::string protocol_text(const std::string& table, const LabelledRecords& rows,
                          const FigureOptions& options) {
  const Prepared prepared = prepare("protocol", rows, options);
  const RecordList all = choose_records(list_of(rows.rows), options.where);
  const auto trained = [](const Record* record) {
    return config_text(*record, "train.max_steps").has_value();
  };
  if (!std::ranges::all_of(prepared.records, trained))
    throw std::invalid_argument(
        "--protocol: some rows are no runs of this program (they have no train.max_steps), so nothing is known of their training; leave them out "
        "with --where");
  return Protocol(all, prepared.records, options, shown_metric(table, prepared, options)).text();
}

}  // namespace crosstalk
