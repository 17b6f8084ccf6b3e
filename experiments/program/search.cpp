// crosstalk search: laws found by the machine.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "experiments/common/command.h"
#include "experiments/common/devices.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/provenance.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/planning/estimate.h"
#include "experiments/search/front.h"
#include "experiments/search/shuffled_task.h"
#include "experiments/sharing/session_options.h"
#include "experiments/sharing/signals.h"
#include "kernels/base/parallel.h"
#include "models/rules/report.h"
#include "results/store/files.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;
using namespace crosstalk::search;

std::string tasks_text(const Schema& schema, const SearchFile& file) {
  std::vector<std::vector<std::string>> rows = {
      {"task", "weight", "runs a law", "steps", "a third", "values"}};
  for (std::size_t task = 0; task < file.tasks(); ++task) {
    const std::vector<Run> runs = runs_of(schema, file, task, {{"law0", kPlainSum}}, 1, 1);
    const Options& config = runs[0].config;
    const std::int64_t steps = config.get_int("train.max_steps"),
                       every = std::max<std::int64_t>(1, config.get_int("eval.every"));
    rows.push_back({config.get_string("task.name"), fmt::format("{}", file.weights[task]),
                    fmt::format("{}", runs.size()), fmt::format("{}", steps),
                    fmt::format("{}", ((steps + 2) / 3 + every - 1) / every * every),
                    fmt::format("{}", runs[0].state_size / std::max<std::int64_t>(1, file.limits.K))});
  }
  return table(rows);
}

int show_plan(const Schema& schema, const SearchFile& file, const TrainingOptions& training,
              Console& console) {
  std::ostream& out = console.out;
  out << tasks_text(schema, file) << "\n";
  const Limits& limits = file.limits;
  const auto limit = [](double n) { return n > 0 ? fmt::format("{:.0f}", n) : std::string("any number of"); };
  out << fmt::format(
      "laws: at most {} operations a token, {} floats of state, {} learned gates, {} nodes, {} states (K = {}, V = {})\n",
      limit(limits.operations), limit(static_cast<double>(limits.floats)), limits.gates, limits.nodes,
      limits.states, limits.K, limits.V);
  if (file.start.empty()) out << "start: laws drawn at random\n";
  for (const std::string& law : file.start) {
    const Price cost = price(law, limits.K, limits.V);
    out << fmt::format("start: {} ({:.0f} operations, {} floats, {})\n", law, cost.operations, cost.floats,
                       cost.engines ? "calls of the engines" : "token after token");
  }
  out << fmt::format("budget: {}{}{}; {} laws a generation, a third of them to the end\n",
                     file.minutes > 0 ? fmt::format("{} min", file.minutes) : "",
                     file.minutes > 0 && file.candidates > 0 ? " or " : "",
                     file.candidates > 0 ? plural(file.candidates, "law") : "", file.generation);
  const Study front = front_of(schema, file, {{"law0", kPlainSum}});
  std::vector<const Run*> runs;
  for (const Run& run : front.runs)
    for (int law = 0; law < (run.label == "law0" ? file.finalists : 1); ++law) runs.push_back(&run);
  out << fmt::format("afresh: up to {}, and {} of [memories.LABEL], by {}: {}, {}; slower laws take longer\n",
                     plural(file.finalists, "law"), std::ssize(front.labels) - 1,
                     plural(file.fresh_seeds, "seed"), plural(std::ssize(runs), "run"),
                     estimate_time(runs, training).text);
  if (!file.root.find("fresh"))
    print_note(
        console,
        "no [[fresh]] task: the best laws are held against fresh seeds of the search's own tasks alone");
  return exit_done;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  if (!stream.flush()) throw StoreError(fmt::format("{}: cannot be written", path.string()));
}

/// One call of `search`.
class SearchCommand {
 public:
  SearchCommand(const Arguments& arguments, Console& console)
      : arguments_(arguments), console_(console), quiet_(arguments.has("quiet")) {
    const std::string& path = arguments.positional.at(0);
    file_ = read_search(schema_, read_study_text(path, "search", "experiments/search/delta.toml"), path);
    store_ = arguments.get("out", (fs::path("runs") / file_.name).string());
  }

  int run() {
    Trials::Settings settings;
    settings.store = store_;
    if (const std::string why =
            choose_device(file_.shuffled ? "cpu" : arguments_.get("device", "auto"), settings.training);
        !why.empty())
      print_note(console_, why);
    settings.training.threads = static_cast<int>(arguments_.integer("threads", 0, 1, 4096));
    if (arguments_.has("plan")) return show_plan(schema_, file_, settings.training, console_);
    if (file_.shuffled) settings.training.make_task = shuffled_task;
    settings.keeps_records = !file_.shuffled;
    const int threads = settings.training.threads > 0 ? settings.training.threads : available_cores();
    settings.provenance = process_provenance(command_line(console_), device_name(settings.training), threads);
    const double limit =
        arguments_.has("time-limit") ? seconds_of(arguments_.get("time-limit"), "--time-limit") : 0;
    const double started = now_seconds();
    std::function<bool()> time_is_up = [] { return false; };
    settings.stopped = [&] {
      return stop_flag() || time_is_up() || (limit > 0 && now_seconds() - started >= limit);
    };
    if (!file_.shuffled)
      const StoreWriter made(store_);  // before the journal: a store is made in an empty folder
    Journal journal(journal_of(store_));
    check_course(journal);
    Trials trials(settings, journal);
    Search search(schema_, file_, trials, journal, [this](const std::string& line) {
      if (!quiet_) print_note(console_, line);
    });
    time_is_up = [&search] { return search.time_is_up(); };
    const bool searched = search.run();
    time_is_up = [] { return false; };
    if (!searched) return stopped();
    if (!quiet_) tell(search, trials);
    const std::vector<LabelledLaw> laws = finalists(file_, search);
    if (laws.empty()) {
      print_error(
          console_,
          "no law was trained to its end within the budget; give more minutes, or a generation of fewer laws");
      return exit_some_failed;
    }
    const fs::path folder = store_ / "search", front = folder / (file_.name + "_front.toml");
    const std::string text = front_study(file_, laws);
    const Study study = parse_study(schema_, text, front.string(), {});
    write(front, text);
    write(folder / (file_.name + ".toml"), file_.text);
    write(folder / "laws.csv", laws_csv(search));
    if (!quiet_)
      print_note(console_, fmt::format("{} afresh: {}", plural(std::ssize(laws), "law"), study.product));
    if (!trials.train(study.name, study.runs, false)) return stopped();
    if (!file_.shuffled) {
      StoreWriter(store_).keep_study(study.name, text);
      keep_asked(store_, asked_of(study));
    }
    const FreshResults results = fresh_results(file_, search, study, trials);
    write(folder / "laws.md", laws_text(file_, search, laws, results));
    report(search, results, laws);
    return exit_done;
  }

 private:
  int stopped() const {
    print_note(console_, fmt::format("stopped; the same command goes on:\n  {}", command_line(console_)));
    return exit_stopped;
  }

  /// A store holds one search: other laws would be mixed with its own.
  void check_course(Journal& journal) const {
    const std::string course = course_of(file_);
    for (const nlohmann::json& line : journal.lines())
      if (line.contains("course")) {
        if (line["course"] != course)
          throw ConfigError(fmt::format(
              "{}: {} holds a search of the same name that was asked otherwise (all but minutes, candidates, finalists and fresh_seeds "
              "of [search] have to agree for it to go on, and [base] and [[task]]); give another name, or --out",
              file_.path, full_path(store_)));
        return;
      }
    journal.append({{"course", course}});
  }

  void tell(const Search& search, const Trials& trials) const {
    const Draws& draws = search.draws();
    const std::int64_t tried =
        std::ssize(search.tried());  // without a generation that the end of the time has cut
    const double seconds = std::max(1e-9, search.seconds());
    print_note(
        console_,
        fmt::format(
            "{} laws tried in {} ({:.0f} a minute), {} to the end; of {} drawn {} were known by text, {} by their values, {} "
            "too large, {} unstable, {} dead, {} unlikely",
            tried, duration(seconds), 60 * static_cast<double>(tried) / seconds, draws.whole, draws.drawn,
            draws.known_text, draws.known_values, draws.large, draws.unstable, draws.dead, draws.unlikely));
    print_note(console_, fmt::format("{} trained, {} of them twice; {:.0f} % of the time here in training",
                                     plural(trials.trained(), "run"), trials.twice(),
                                     100 * trials.seconds() / std::max(1e-9, now_seconds() - started_)));
  }

  void report(const Search& search, const FreshResults& results, const std::vector<LabelledLaw>& laws) const {
    std::vector<std::vector<std::string>> rows = {
        {"memory", "score", "accuracy less chance", "less the best built-in", "law"}};
    for (const FreshResult& one : results.memories) {
      const auto law = std::ranges::find(laws, one.label, &LabelledLaw::label);
      rows.push_back({one.label, spelt(one.score, 2), one.guessed ? spelt(*one.guessed, 3) : "",
                      one.against ? spelt(*one.against, 2) : "", law == laws.end() ? "" : law->law});
    }
    console_.out << table(rows) << "\n" << table(by_task(results)) << "\n";
    console_.out << fmt::format(
        "Score: mean over settings of log10(test loss / loss of answering nothing), 0 is nothing learned; by {} seeds that the search has "
        "not used. Intervals: 95 % (Student's t), Bonferroni for the {} laws that were tried.\n",
        file_.fresh_seeds, std::ssize(search.tried()));
    if (file_.shuffled) return;
    const std::string front = shell_quote((store_ / "search" / (file_.name + "_front.toml")).string());
    if (!quiet_)
      print_note(
          console_,
          fmt::format(
              "laws, equations and descent: {}; the study: {}. Next: crosstalk plot front {} --store {}",
              (store_ / "search" / "laws.md").string(), front, front, shell_quote(store_.string())));
    console_.out << store_.string() << "\n";
  }

  const Arguments& arguments_;
  Console& console_;
  const bool quiet_;
  const double started_ = now_seconds();
  const Schema& schema_ = default_schema();
  SearchFile file_;
  fs::path store_;
};

int run_search(const Arguments& arguments, Console& console) {
  catch_stop_signals();
  auto nothing_begun = std::make_unique<NothingBegun>(words_before_training(arguments, command_line(console)),
                                                      patience(arguments));
  SearchCommand command(arguments, console);
  nothing_begun.reset();
  return command.run();
}

}  // namespace

extern const Command search_command;
const Command search_command = {
    "search",
    "look for update laws: the machine proposes them, and trains them",
    "SEARCH.toml [--plan] [--out STORE] [OPTIONS]",
    "Draws laws of the memory `rule`, trains them on the tasks of the file, makes others of the best, and\n"
    "so on until the budget is spent; then trains the best of the front of score against cost afresh, by\n"
    "seeds and on tasks ([[fresh]]) that the search has not seen, beside the memories that the file names,\n"
    "and prints what they reach there. [search] has the start laws, the budget and the limits; [base] and\n"
    "[[task]] have the keys of studies. Laws are tried by stages: untrained, then a third of the steps, then\n"
    "the rest of the same run, then more seeds and rates. The course depends on the file alone, not on\n"
    "threads and stops; a search that was stopped goes on where it was.\n\n"
    "STORE/search has every law with its descent and results (candidates.jsonl), the best as text and LaTeX\n"
    "(laws.md) and the study that trained them afresh (NAME_front.toml), whose runs are in STORE.\n\n"
    "Examples:\n"
    "  crosstalk search experiments/search/delta.toml --plan\n"
    "  crosstalk search experiments/search/delta.toml\n",
    1,
    1,
    "needs a search file, for example: crosstalk search experiments/search/delta.toml",
    {{"out,o", "STORE", "Where to keep it (default runs/NAME)"},
     {"plan", "", "Say what would be tried, and try nothing"},
     {"threads", "N", "Threads (default: all cores); changes no result"},
     {"device", "DEVICE", "auto (a GPU if there is one), cpu, cuda or cuda:N"},
     {"time-limit", "TIME",
      "Stop after this time (90, 30m, 2h, HH:MM:SS) with exit code 75, to go on another time"},
     {"quiet,q", "", "No progress and no summary; the table alone"}},
    run_search,
};

}  // namespace crosstalk::program
