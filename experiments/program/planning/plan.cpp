// crosstalk plan: what a study would train.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "experiments/common/devices.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/chosen.h"
#include "experiments/program/planning/budget.h"
#include "experiments/program/planning/estimate.h"
#include "experiments/program/planning/survey.h"
#include "experiments/sharing/session_options.h"
#include "experiments/training/foreign_memory.h"
#include "experiments/training/pack.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "models/rules/report.h"
#include "models/rules/rule_memory.h"
#include "plots/figure.h"
#include "results/csv.h"
#include "results/numbers/unequal.h"
#include "results/printable.h"
#include "tasks/data_look.h"

namespace crosstalk::program {
namespace {

/// The runs of one label; a run under two labels is counted in both rows, and once in the total.
struct LabelRow {
  std::string label, memory, layer;
  StateCounts counts;
  std::int64_t min_d_dot = 0, max_d_dot = 0, min_state = 0, max_state = 0;
  std::int64_t min_heads = 1, max_heads = 1;
};

std::vector<LabelRow> rows_of(const Study& study, const StoreContents& contents) {
  std::vector<LabelRow> rows;
  std::unordered_map<std::string, std::size_t> places;
  const auto add = [&](const Run& run, const std::string& label) {
    const auto [place, is_new] = places.emplace(label, rows.size());
    const std::int64_t heads = run.config.has("model.heads") ? run.config.get_int("model.heads") : 1;
    if (is_new) {
      const std::string memory = run.config.has("memory.name") ? run.config.get_string("memory.name") : "";
      const bool language = !is_foreign(run.config) && run.config.has("model.name") &&
                            run.config.get_string("model.name") == "language";
      const std::string layer = language ? run.config.get_string("model.layer") : "-";
      rows.push_back(
          {label, memory, layer, {}, run.d_dot, run.d_dot, run.state_size, run.state_size, heads, heads});
    }
    LabelRow& row = rows[place->second];
    if (row.layer != "-" && run.config.get_string("model.layer") != row.layer) row.layer = "both";
    row.counts.add(state_of(run, contents));
    row.min_d_dot = std::min(row.min_d_dot, run.d_dot);
    row.max_d_dot = std::max(row.max_d_dot, run.d_dot);
    row.min_heads = std::min(row.min_heads, heads);
    row.max_heads = std::max(row.max_heads, heads);
    row.min_state = std::min(row.min_state, run.state_size);
    row.max_state = std::max(row.max_state, run.state_size);
  };
  for (const Run& run : study.runs)
    for (const std::string& label : run.labels) add(run, label);
  return rows;
}

std::string label_table(const std::vector<LabelRow>& rows, const StateCounts& total) {
  std::vector<std::vector<std::string>> cells = {
      {"label", "memory", "layer", "d_dot", "state size", "runs", "done", "diverged", "failed", "missing"}};
  const auto add = [&](std::vector<std::string> row, const StateCounts& n) {
    for (const std::int64_t count : {n.total(), n.done, n.diverged, n.failed, n.missing})
      row.push_back(fmt::format("{}", count));
    cells.push_back(std::move(row));
  };
  for (const LabelRow& row : rows)
    add({row.label, row.memory, row.layer,
         row.max_d_dot == 0   ? "-"
         : row.max_heads == 1 ? span(row.min_d_dot, row.max_d_dot)
                              : fmt::format("{} in {} heads", span(row.min_d_dot, row.max_d_dot),
                                            span(row.min_heads, row.max_heads)),
         row.max_state == 0 ? "-" : span(row.min_state, row.max_state)},
        row.counts);
  if (rows.size() > 1) add({"total", "", "", "", ""}, total);
  return table(cells);
}

/// What the program would train: PyTorch models are trained elsewhere.
std::vector<const Run*> missing_of(const Study& study, const StoreContents& contents) {
  std::vector<const Run*> missing;
  for (const Run& run : study.runs)
    if (!is_foreign(run.config) && state_of(run, contents) == "missing") missing.push_back(&run);
  return missing;
}

/// Where 'run' would train.
TrainingOptions training_here() {
  TrainingOptions training;
  try {
    choose_device("auto", training);
  } catch (const DeviceError&) {  // 'run' will say so
  }
  return training;
}

/// By what is recorded, and before that, or where a place is asked for, by a try. What PyTorch models take is not known.
TimeForecast time_of(const Study& study, const StoreHeads& heads,
                     const std::optional<TrainingOptions>& asked) {
  const auto foreign_left = std::count_if(study.runs.begin(), study.runs.end(), [&](const Run& run) {
    return is_foreign(run.config) && state_of(run, heads.contents) == "missing";
  });
  std::vector<Run> ours;  // else no copy of a large study
  if (foreign_left > 0)
    std::copy_if(study.runs.begin(), study.runs.end(), std::back_inserter(ours),
                 [](const Run& run) { return !is_foreign(run.config); });
  TimeForecast time;
  if (!asked) time = time_forecast(foreign_left > 0 ? ours : study.runs, heads);
  if (!time.seconds)
    time = estimate_time(missing_of(study, heads.contents), asked ? *asked : training_here());
  if (foreign_left > 0)
    time.text += fmt::format(
        " (without {} of PyTorch models, which 'crosstalk work' or 'python -m crosstalk train' trains)",
        plural(foreign_left, "run"));
  return time;
}

/// Slow forms on the GPU that trains (none on a CPU, where there is one form): a sentence, and the labels of its runs. Of
/// each label the run with the largest state is asked, which is the first to leave the fast forms.
std::vector<std::pair<std::string, std::vector<std::string>>> slow_rows(
    const std::vector<const Run*>& runs, const std::optional<TrainingOptions>& asked) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  const bool on_gpu = (asked ? *asked : training_here()).device == Device::cuda;
  if (runs.empty() || !on_gpu || cuda_device_count() == 0)
    return rows;  // --device cuda may mean another machine
  std::vector<const Run*> largest;
  for (const Run* run : runs) {
    const auto known = std::find_if(largest.begin(), largest.end(),
                                    [&](const Run* other) { return other->label == run->label; });
    if (known == largest.end()) {
      largest.push_back(run);
    } else if (run->state_size > (*known)->state_size) {
      *known = run;
    }
  }
  for (const Run* run : largest) {
    std::vector<std::string> sentences;
    try {
      sentences = slow_forms_of(run->config);
    } catch (const std::exception&) {  // too large to be made, say: 'run' will say so
    }
    for (const std::string& sentence : sentences) {
      const auto known =
          std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first == sentence; });
      if (known == rows.end()) {
        rows.push_back({sentence, {run->label}});
      } else {
        known->second.push_back(run->label);
      }
    }
  }
  return rows;
}

/// "words, group = "Z2", length = 3": what is not as it is by default.
std::string setting_text(const TaskKind& kind, const Options& config) {
  std::string text = kind.name;
  for (const OptionSpec& spec : kind.options)
    if (const OptionValue& value = config.at("task." + spec.name); value != spec.default_value)
      text += fmt::format(", {} = {}", spec.name, to_text(value));
  return text;
}

/// Of a task that can draw few different sequences: how many, and how much of test stands in training where that is notable.
std::string drawn_text(const TaskKind& kind, const Options& config) {
  constexpr double kNotable = 0.01;
  const double trained = static_cast<double>(config.get_int("train.max_steps")) *
                         static_cast<double>(config.get_int("train.batch"));
  const std::optional<Space> space = space_of(*kind.make(config), trained);
  if (!space || space->tested < kNotable) return "";
  const double unit = std::pow(10, std::max(0., std::floor(std::log10(space->different)) - 1));
  return fmt::format(
      "{}: about {:.0f} different sequences; training draws {:.0f}, so that about {:.0f} % of those of test stand in training",
      setting_text(kind, config), std::round(space->different / unit) * unit, trained, 100 * space->tested);
}

/// Of arrays of one's own: what is there, and how much of it is read; of tasks that draw few different sequences, how many. One
/// line for each data set.
std::vector<std::string> data_lines(const Study& study) {
  constexpr std::size_t kMostSettings = 50;  // looked at: half a second
  std::set<std::string> settings;
  std::vector<std::string> lines;
  for (const Run& run : study.runs) {
    const TaskKind& kind = *find_task(run.config.get_string("task.name"));
    if (kind.drawn) {
      if (settings.size() >= kMostSettings) continue;
      const std::string setting =
          fmt::format("{} {} {}", setting_text(kind, run.config), run.config.get_int("train.max_steps"),
                      run.config.get_int("train.batch"));
      if (!settings.insert(setting).second) continue;
      if (std::string line = drawn_text(kind, run.config); !line.empty()) lines.push_back(std::move(line));
      continue;
    }
    const auto task = kind.make(run.config);
    const auto read = [&](Split split) {
      std::int64_t there = task->sequences(split), used = run.config.get_int("eval.sequences");
      if (!task->segments(split).empty() || used >= there) return fmt::format("all {}", there);
      return fmt::format("the first {} of {}", used, there);
    };
    const SequenceShape shape = task->shape(Split::train);
    std::string line = fmt::format(
        "{}: training {} of {} with {} at most, validation {}, test {}", run.config.get_string("task.folder"),
        plural(task->sequences(Split::train), "sequence"), plural(shape.T, "token"),
        plural(shape.Q, "answer"), read(Split::eval), read(Split::test));
    if (line.find("the first") != line.npos) line += " (eval.sequences)";
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

/// What labels differ in besides what is swept, "" where in nothing.
std::string unequal_of(const Study& study) {
  UnequalOptions options;
  std::unordered_map<std::string, const Options*> last;  // of a label: most of the next run is as it was
  for (const Run& run : study.runs)
    for (const std::string& label : run.labels) {
      const auto [place, is_new] = last.try_emplace(label, &run.config);
      const Options& before = *place->second;
      for (const auto& [key, value] : run.config.values())
        if ((key.starts_with("m") || key.starts_with("t")) &&
            (is_new || !before.has(key) || before.at(key) != value))
          options.add(label, key, unquoted(value));
      place->second = &run.config;
    }
  return options.text([](const std::string& label) { return label; }, std::string::npos);
}

void print_json(const Study& study, const StoreHeads& heads, const std::filesystem::path& store,
                const std::optional<TrainingOptions>& asked, Console& console) {
  const StoreContents& contents = heads.contents;
  const TimeForecast time = time_of(study, heads, asked);
  nlohmann::ordered_json json = {{"study", study.name},
                                 {"title", study.title},
                                 {"count", study.runs.size()},
                                 {"product", study.product},
                                 {"store", store.string()},
                                 {"time", {{"seconds", nullptr}, {"text", time.text}, {"basis", time.basis}}},
                                 {"data", data_lines(study)},
                                 {"warnings", warnings_of(missing_of(study, contents))},
                                 {"labels_differ_in", unequal_of(study)},
                                 {"slow_forms", nlohmann::ordered_json::array()},
                                 {"verdicts", nlohmann::ordered_json::object()},
                                 {"runs", nlohmann::ordered_json::array()}};
  if (time.seconds) json["time"]["seconds"] = *time.seconds;
  for (const auto& [sentence, labels] : slow_rows(missing_of(study, contents), asked))
    json["slow_forms"].push_back({{"form", sentence}, {"labels", labels}});
  for (const auto& [verdict, n] : survey(&study, store, heads).verdicts)
    json["verdicts"][to_text(verdict)] = n;
  for (const Run& run : study.runs)
    json["runs"].push_back(
        {{"id", run.id},
         {"label", run.label},
         {"labels", run.labels},
         {"seed", run.seed},
         {"d_dot", run.d_dot > 0 ? nlohmann::ordered_json(run.d_dot) : nullptr},
         {"state_size", run.state_size > 0 ? nlohmann::ordered_json(run.state_size) : nullptr},
         {"state", state_of(run, contents)},
         {"config", to_json(run.config)}});
  console.out << dump(json);
}

/// "early stop: a run ends after 5500 steps without a new best loss (eval.every x (train.patience + 1)), or at an accuracy of
/// 0.999" of runs that are to be trained; "" where all go to their last step.
std::string stop_text(const std::vector<const Run*>& runs) {
  std::int64_t fewest = 0, most = 0;
  std::set<std::string> losses, accuracies;
  for (const Run* run : runs) {
    const Options& config = run->config;
    const std::int64_t last = config.get_int("train.max_steps"), every = config.get_int("eval.every"),
                       patience = config.get_int("train.patience");
    if (last == 0) continue;  // a probe
    if (every > 0 && patience < last / every) {
      const std::int64_t steps = (patience + 1) * every;
      fewest = fewest == 0 ? steps : std::min(fewest, steps);
      most = std::max(most, steps);
    }
    if (const double loss = config.get_double("train.stop_loss"); loss > 0)
      losses.insert(fmt::format("{:g}", loss));
    if (const double accuracy = config.get_double("train.stop_accuracy"); accuracy > 0)
      accuracies.insert(fmt::format("{:g}", accuracy));
  }
  std::vector<std::string> ends;
  if (most > 0)
    ends.push_back(fmt::format("after {} steps without a new best loss (eval.every x (train.patience + 1))",
                               span(fewest, most)));
  if (!losses.empty())
    ends.push_back(
        fmt::format("at a validation loss of {}", join({losses.begin(), losses.end()}, ", ", " or ")));
  if (!accuracies.empty())
    ends.push_back(fmt::format("at a validation accuracy of {}",
                               join({accuracies.begin(), accuracies.end()}, ", ", " or ")));
  return ends.empty() ? "" : fmt::format("early stop: a run ends {}", join(ends, ", ", " or "));
}

int run_plan(const Arguments& arguments, Console& console) {
  Study study = study_of(arguments);
  const std::optional<TrainingOptions> asked = given_training(arguments);
  keep_chosen(arguments, study, console);
  const std::filesystem::path store = store_path_of(arguments, study);
  const bool detect = arguments.has("detect"), json = arguments.has("json");
  const double budget = arguments.has("budget") ? seconds_of(arguments.get("budget"), "--budget") : 0;
  FigureOptions options;
  options.metric = arguments.get("metric");
  const double size = detect ? number_in(arguments.get("detect")).value_or(0) : 1;
  for (const char* sentence : {"detect", "budget"})
    if (json && arguments.has(sentence))
      throw UsageError(fmt::format("--{} prints a sentence; leave --json out", sentence));
  if (!(size > 0 && std::isfinite(size)))
    throw UsageError(
        fmt::format("--detect {}: the size of a difference, above 0 in either direction, such as 0.05",
                    arguments.get("detect")));
  if (!detect && !options.metric.empty())
    throw UsageError("--metric: of --detect SIZE, the difference that shall be told");
  const StoreHeads heads = load_heads(store, console);
  const TimeForecast time = print_plan(study, heads, store, json, asked, console);
  if (arguments.has("budget"))
    console.out << fmt::format("budget: {}\n", budget_text(missing_of(study, heads.contents), time, arguments,
                                                           budget, console.program));
  if (!detect) return exit_done;
  try {
    LabelledRecords rows;
    if (!heads.contents.records.empty()) rows = asked_rows(read_store(store).records, asked_of(study));
    if (rows.rows.empty())
      console.out << "detect: nothing is recorded yet; two seeds of two labels tell how runs spread\n";
    else
      for (const std::string& text : detect_text(rows, options, size))
        console.out << "detect: " << printable_line(text) << "\n";
  } catch (const std::invalid_argument& wrong) {
    throw UsageError(fmt::format("--detect {}: {}", arguments.get("detect"), wrong.what()));
  }
  return exit_done;
}

}  // namespace

TimeForecast print_plan(const Study& study, const StoreHeads& heads, const std::filesystem::path& store,
                        bool json, const std::optional<TrainingOptions>& asked, Console& console) {
  const StoreContents& contents = heads.contents;
  if (json) {
    print_json(study, heads, store, asked, console);
    return {};
  }
  const std::vector<LabelRow> rows = rows_of(study, contents);
  StateCounts total;
  for (const Run& run : study.runs) total.add(state_of(run, contents));  // once, whatever its labels
  const std::vector<const Run*> missing = missing_of(study, contents);
  const StoreSurvey found = survey(&study, store, heads);
  const std::string unequal = unequal_of(study), edges = edges_text(found.edges);
  std::vector<std::string> warnings;
  TimeForecast time{0, "nothing is left to train"};
  if (total.missing > 0) {
    time = time_of(study, heads, asked);
    if (std::string shortage = memory_shortage(missing, available_memory()); !shortage.empty())
      warnings.push_back(std::move(shortage));
    for (std::string& warning : warnings_of(missing)) warnings.push_back(std::move(warning));
    for (const auto& [sentence, labels] : slow_rows(missing, asked))
      warnings.push_back(fmt::format(
          "{}: the slow form: {}",
          labels.size() > 4 ? plural(std::ssize(labels), "label") : join(labels, ", ", " and "), sentence));
  }

  std::vector<std::string> look;
  if (total.failed > 0) look.push_back(fmt::format("{} that failed", plural(total.failed, "run")));
  if (!warnings.empty()) look.push_back(plural(std::ssize(warnings), "warning"));
  if (!unequal.empty()) look.push_back("what labels differ in besides the swept keys");
  if (!edges.empty()) look.push_back("rates that are best at the edge of their grid");
  std::string looks = look.empty() ? "" : join(look, ", ", " and ") + ", below";
  if (total.missing == total.total() && !missing.empty())
    looks += std::string(looks.empty() ? "" : "; ") + "'crosstalk pilot' finds steps and rates";
  if (looks.empty()) looks = "nothing stands out";
  const std::int64_t recorded = total.total() - total.missing;
  console.out << fmt::format("{}: {} of {}, {} to train\ntime: {}\nlook at: {}\n\n", study.name,
                             plural(total.total(), "run"), plural(std::ssize(rows), "model"),
                             recorded > 0 ? fmt::format("{} recorded, {}", recorded, total.missing)
                                          : fmt::format("{}", total.missing),
                             time.text, looks);

  if (!study.title.empty()) console.out << study.title << "\n";
  console.out << study.product << "\n\n" << label_table(rows, total) << "\n";
  if (!unequal.empty()) console.out << wrap("labels differ in " + printable_line(unequal), 110, "  ");
  if (const std::string verdicts = outcome_text(found); !verdicts.empty()) console.out << verdicts << "\n";
  console.out << fmt::format("store: {}\n", full_path(store));
  if (const auto again = lacking_weights(study.runs, contents, store); !again.empty())
    console.out << fmt::format(
        "without the weights that train.keep_weights wants, 'run' trains them again: {}\n",
        plural(std::ssize(again), "run"));
  for (const std::string& data : data_lines(study)) console.out << "data: " << printable_line(data) << "\n";
  if (const std::string stop = stop_text(missing); !stop.empty()) console.out << stop << "\n";
  if (!time.basis.empty()) console.out << fmt::format("the time is an estimate: {}\n", time.basis);
  for (const std::string& warning : warnings) print_warning(console, warning);
  if (!edges.empty())
    console.out << printable_line(edges) << (total.missing > 0 ? " So far: runs are missing.\n" : "\n");
  if (total.failed > 0)
    console.out << fmt::format("{} failed and are not tried again by 'run'; 'crosstalk retry' does\n",
                               plural(total.failed, "run"));
  return time;
}

std::string too_many_keys(const std::vector<const Run*>& runs) {
  std::vector<std::string> labels;
  std::int64_t keys = 0, d_dot = 0;
  for (const Run* run : runs) {
    const Options& config = run->config;
    if (config.get_string("model.name") != "retrieval" || !config.has("task.keys") ||
        !config.has("task.associations") || run->d_dot == 0)
      continue;
    const std::int64_t here = config.get_int("task.keys"), load = config.get_int("task.associations");
    // With as many keys as associations it would be solved; with more than d_dot keys other keys are always read too.
    if (here <= run->d_dot || load > run->d_dot || here <= load) continue;
    keys = here, d_dot = run->d_dot;
    if (std::find(labels.begin(), labels.end(), run->label) == labels.end()) labels.push_back(run->label);
  }
  if (labels.empty()) return "";
  const std::string which =
      labels.size() > 4 ? plural(std::ssize(labels), "label") : join(labels, ", ", " and ");
  return fmt::format(
      "{}: task.keys = {} is above d_dot = {}, so that some loss is left however few associations are stored (capacity 0); leave task.keys out (it "
      "is then task.associations), and set task.values alone where values should stay the same",
      which, keys, d_dot);
}

namespace {

/// The loss of answering nothing, or all answers alike: 0.5 where answers are vectors of length 1; nothing where it is not known.
std::optional<double> loss_of_nothing(const Options& config) {
  const TaskKind& kind = *find_task(config.get_string("task.name"));
  if (!kind.drawn) return std::nullopt;
  const bool codes = config.has("model.value_codes") && config.get_int("model.value_codes") > 0;
  if (config.get_string("model.name") != "language" && !codes) return 0.5;
  return std::log(static_cast<double>(kind.make(config)->vocabulary().values));
}

/// A stop rule that is met before anything is learned.
std::string stops_at_nothing(const std::vector<const Run*>& runs) {
  constexpr double kLeast = 0.5;  // no such loss is less, but of two answers alike
  for (const Run* run : runs) {
    const double stop = run->config.has("train.stop_loss") ? run->config.get_double("train.stop_loss") : 0;
    if (stop < kLeast) continue;
    if (const auto nothing = loss_of_nothing(run->config); nothing && stop >= *nothing)
      return fmt::format(
          "train.stop_loss = {} is not below {:.3g}, the loss of answering nothing: such runs are solved before they learn "
          "({}); set it below, such as 0.001",
          stop, *nothing, run->label);
  }
  return "";
}

}  // namespace

std::vector<std::string> warnings_of(const std::vector<const Run*>& runs) {
  std::vector<std::string> all = {too_many_keys(runs), stops_at_nothing(runs)};
  std::erase(all, "");
  std::set<std::string> folders, laws;
  bool warms_up = false;
  std::int64_t fewest = kLeastEvaluations,
               few = 0;  // evaluations, and runs with fewer than it takes to tell a slope
  for (const Run* run : runs) {
    const std::int64_t steps = run->config.get_int("train.max_steps"),
                       warmup = run->config.get_int("train.warmup_steps");
    if (!warms_up && steps > 0 && warmup >= steps) {
      warms_up = true;
      all.push_back(fmt::format(
          "train.warmup_steps = {} of train.max_steps = {}: the rate never comes to train.learning_rate",
          warmup, steps));
    }
    if (const std::int64_t every = run->config.get_int("eval.every");
        steps > 0 && every > 0 && steps / every < kLeastEvaluations) {
      fewest = std::min(fewest, steps / every);
      ++few;
    }
    if (run->config.get_string("memory.name") == "rule")
      for (const std::string& warning : rules::warnings_of(*rules::rule_of(run->config).law))
        if (laws.insert(run->label + warning).second)
          all.push_back(fmt::format("{}: {}", run->label, warning));
    const TaskKind& kind = *find_task(run->config.get_string("task.name"));
    if (kind.drawn || !folders.insert(run->config.get_string("task.folder")).second) continue;
    for (const std::string& doubt :
         doubts_of(*kind.make(run->config), printable_line(run->config.get_string("task.folder"))))
      all.push_back(doubt);
  }
  if (few > 0)
    all.push_back(fmt::format(
        "{} of {} {} only {}: whether a loss still falls at the last step can be told from {} on; set "
        "eval.every to an eighth of train.max_steps or less",
        few, plural(std::ssize(runs), "run"), few == 1 ? "has" : "have",
        plural(std::max<std::int64_t>(fewest, 1), "evaluation"), kLeastEvaluations));
  return all;
}

extern const Command plan_command = {
    "plan",
    "show what a study would train, and what of it is done",
    "STUDY.toml [--out STORE] [--set KEY=VALUE]... [--device DEVICE] [--threads N] [--budget TIME] [--detect SIZE] [--json]",
    "Reads and checks the study. Three lines say how much is to be trained, how long it takes and what to look at;\n"
    "then it spells out the product of the axes, and lists each memory\n"
    "with its feature dimension d_dot, its state size (floats a sequence at inference) and\n"
    "how many of its runs are in the store, and what became of them (solved, plateau, still falling, ...:\n"
    "'crosstalk describe verdict'); when a run stops early, and whether memory can do it. The time is that of the records\n"
    "of the store; before there are any, or with --device and --threads, it is estimated: on the CPU by trying some shapes\n"
    "for two seconds, on a GPU, which need not be there, by the milliseconds that each memory took on one. On a GPU it names memories whose shapes only the slow form of a kernel covers, and\n"
    "why. --budget 10m says what of it is trained in so long, and by which command: whole seeds, then some rates and points of one\n"
    "seed. --detect 0.05 says how many seeds such a difference of labels needs, by the spread of the recorded runs\n"
    "('crosstalk describe bold').\n"
    "What labels differ in besides the swept keys, defaults included, is told: 'crosstalk describe comparable'.\n"
    "Creates nothing.\n\n"
    "Examples:\n"
    "  crosstalk plan experiments/quickstart.toml\n"
    "  crosstalk plan experiments/quickstart.toml --set task.associations=20,40 --set seeds=1\n"
    "  crosstalk plan experiments/quickstart.toml --device cpu --threads 2\n"
    "  crosstalk plan experiments/mqar.toml --device cuda\n"
    "  crosstalk plan experiments/quickstart.toml --json | jq -r '.runs[] | select(.state==\"failed\").id'\n",
    1,
    1,
    "needs a study file, for example: crosstalk plan experiments/quickstart.toml",
    [] {
      std::vector<CommandOption> options = study_options();
      for (CommandOption& option : chosen_options()) options.push_back(std::move(option));
      for (CommandOption& option :
           session_option_list())  // the time is then that of this place, whatever is recorded
        if (option.name == "device" || option.name == "threads") options.push_back(std::move(option));
      options.push_back({"budget", "TIME",
                         "Say what of the study fits into so long (90s, 10m, 4h), and the command for it"});
      options.push_back(
          {"detect", "SIZE",
           "Say how many seeds it takes to tell such a difference of two labels, by recorded runs"});
      options.push_back({"metric", "NAME", "Of --detect: as in figure difference"});
      options.push_back({"out", "STORE", "The store (default ./runs/<study>)"});
      options.push_back(
          {"json", "",
           "Print JSON: study, count, product, store, time, data, warnings, labels_differ_in, slow_forms, verdicts, runs"});
      return options;
    }(),
    run_plan,
};

}  // namespace crosstalk::program
