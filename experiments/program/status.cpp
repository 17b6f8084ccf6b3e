// crosstalk status: what a store holds.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "experiments/common/exit_codes.h"
#include "experiments/common/requests.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/planning/survey.h"
#include "experiments/search/journal.h"
#include "experiments/sharing/progress.h"
#include "experiments/sharing/signals.h"
#include "experiments/training/foreign_memory.h"
#include "experiments/training/pack.h"
#include "results/printable.h"
#include "results/store/checkpoint.h"
#include "results/store/claims.h"
#include "results/store/follow.h"
#include "results/store/live.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;
using Counts = std::vector<std::pair<std::string, StateCounts>>;

/// Of each label, in the order in which they come.
class Counter {
 public:
  void add(const std::string& label, const std::string& state) {
    const auto [place, is_new] = places_.emplace(label, counts.size());
    if (is_new) counts.emplace_back(label, StateCounts());
    counts[place->second].second.add(state);
  }
  Counts counts;

 private:
  std::unordered_map<std::string, std::size_t> places_;
};

/// A run that the studies of a store ask for.
struct AskedRun {
  double cost = 0;
  std::vector<std::string> labels;
};
using AskedRuns = std::unordered_map<std::string, AskedRun>;

/// By label: in the study's order where there is one, else of the records and of what is asked for beside them.
Counts count(const Target& target, const StoreContents& contents, const AskedRuns& asked) {
  Counter counter;
  Counts& counts = counter.counts;
  if (target.study) {
    for (const Run& run : target.study->runs)
      for (const std::string& label : run.labels) counter.add(label, state_of(run, contents));
  } else {
    for (const auto& [key, record] : all_rows(contents.records, read_asked(target.store)).rows)
      counter.add(record.label, to_text(record.status));
    for (const auto& [id, run] : asked)
      if (contents.records.count(id) == 0)
        for (const std::string& label : run.labels) counter.add(label, "missing");
    std::ranges::sort(counts, [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return counts;
}

/// Records that the study does not ask for (any more).
std::int64_t count_others(const Target& target, const StoreContents& contents) {
  if (!target.study) return 0;
  std::set<std::string> ids;
  for (const Run& run : target.study->runs) ids.insert(run.id);
  return std::ranges::count_if(contents.records,
                               [&](const auto& entry) { return ids.count(entry.first) == 0; });
}

std::string finished_at(const Record& record) {
  return record.provenance.is_object() ? record.provenance.value("finished", std::string()) : std::string();
}

nlohmann::ordered_json to_json(const StateCounts& n) {
  return {{"done", n.done}, {"diverged", n.diverged}, {"failed", n.failed}, {"missing", n.missing}};
}

/// What the status is about, as it was read last.
struct Status {
  Target target;
  std::string name;  ///< the study file or store that was given
  StoreHeads heads;
  std::vector<ClaimingWorker> workers;
  std::optional<Record> last;
  /// What a study asks for, or all studies of a store; without them nobody knows what is missing.
  AskedRuns asked;
  StoreSurvey survey;                       ///< with --watch empty
  std::string search;                       ///< what a search in the store has come to; "": none
  std::map<std::string, LiveRun> training;  ///< runs without a record, as far as they have come
};

/// Of a search's own runs a sentence tells: each law would be a row.
void fold_search(Status& status) {
  const fs::path& store = status.target.store;
  status.search = status.target.study ? "" : search::summary_of(store);
  if (status.search.empty()) return;
  std::set<std::string> ids;
  for (const Asked& asked : read_asked(store))
    for (const AskedLabel& label : asked.labels) ids.insert(label.runs.begin(), label.runs.end());
  const auto folded = std::erase_if(status.heads.contents.records,
                                    [&](const auto& record) { return ids.count(record.first) == 0; });
  status.search += fmt::format("; its {} are not listed", plural(static_cast<std::int64_t>(folded), "run"));
}

void read_training(Status& status) {
  status.training = live_runs(status.target.store);
  std::erase_if(status.training,
                [&](const auto& run) { return status.heads.contents.records.count(run.first) != 0; });
}

/// A curve as 16 blocks between its least and its largest value, and its last value.
std::string curve_text(const LiveRun& run, const char* name) {
  static const char* const kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::size_t kColumns = 16;
  const auto found = run.curves.find(name);
  if (found == run.curves.end() || found->second.y.empty()) return "-";
  const std::vector<double>& y = found->second.y;
  const auto [least, most] = std::minmax_element(y.begin(), y.end());
  std::string text;
  const std::size_t columns = std::min(kColumns, y.size());
  for (std::size_t i = 0; i < columns; ++i) {
    const double value = y[(i + 1) * y.size() / columns - 1];
    text += kBlocks[*most > *least ? std::lround(7 * (value - *least) / (*most - *least)) : 0];
  }
  return fmt::format("{} {:.4g}", text, y.back());
}

/// The curves of runs that train, of each label the one that has come farthest first.
std::string training_text(const Status& status) {
  constexpr std::size_t kShown = 16;
  if (status.training.empty()) return "";
  const auto step = [](const LiveRun& run) {
    const auto loss = run.curves.find("eval_loss");
    return loss == run.curves.end() || loss->second.x.empty() ? 0. : loss->second.x.back();
  };
  std::map<std::string, std::vector<const LiveRun*>> by_label;
  for (const auto& [id, run] : status.training) by_label[run.label].push_back(&run);
  for (auto& [label, runs] : by_label)
    std::ranges::sort(runs, [&](const LiveRun* a, const LiveRun* b) { return step(*a) > step(*b); });
  std::vector<std::vector<std::string>> cells = {
      {"training", "seed", "step", "of", "validation loss", "accuracy"}};
  for (std::size_t i = 0; cells.size() <= kShown; ++i) {
    const std::size_t before = cells.size();
    for (const auto& [label, runs] : by_label)
      if (i < runs.size() && cells.size() <= kShown)
        cells.push_back({printable_line(label), fmt::format("{}", runs[i]->seed),
                         fmt::format("{:.0f}", step(*runs[i])), fmt::format("{}", runs[i]->max_steps),
                         curve_text(*runs[i], "eval_loss"), curve_text(*runs[i], "eval_accuracy")});
    if (cells.size() == before) break;
  }
  std::string text = "\n" + table(cells);
  if (status.training.size() > kShown)
    text += fmt::format("and {} more\n",
                        plural(std::ssize(status.training) - static_cast<std::int64_t>(kShown), "run"));
  return text;
}

StateCounts total_of(const Status& status) {
  StateCounts total;  // a run under two labels counts once
  if (status.target.study) {
    for (const Run& run : status.target.study->runs) total.add(state_of(run, status.heads.contents));
  } else {
    for (const auto& [id, record] : status.heads.contents.records) total.add(to_text(record.status));
    for (const auto& [id, run] : status.asked)
      if (status.heads.contents.records.count(id) == 0) total.add("missing");
  }
  return total;
}

/// Runs that are missing and saved, those of PyTorch models too: they go on from there.
std::int64_t count_half_way(const Status& status) {
  std::set<std::string> saved = checkpointed(status.target.store);
  std::error_code error;
  for (fs::directory_iterator at(status.target.store / "python", error);
       !error && at != fs::directory_iterator(); at.increment(error))
    if (at->path().extension() == ".pt") saved.insert(at->path().stem().string());
  return std::ranges::count_if(saved, [&](const std::string& id) {
    return status.asked.count(id) != 0 && status.heads.contents.records.count(id) == 0;
  });
}

std::string said_text(const ClaimingWorker& worker, const char* key, const char* otherwise = "-") {
  const auto found = worker.activity.find(key);
  return found != worker.activity.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

double rate_of(const ClaimingWorker& worker, const char* key) {
  const double seconds = said(worker.activity, "seconds");
  return worker.lives && worker.silent <= 0 && seconds > 0 ? said(worker.activity, key) / seconds : 0;
}

/// What is left of the costs at the rate of all workers that live; nothing where nobody has trained anything yet.
std::optional<double> seconds_left(const Status& status) {
  double left = 0, rate = 0;
  for (const auto& [id, run] : status.asked)
    if (status.heads.contents.records.count(id) == 0) left += run.cost;
  for (const ClaimingWorker& worker : status.workers) {
    rate += rate_of(worker, "cost") + rate_of(worker, "half_way");
    if (worker.lives) left += said(worker.activity, "beyond") - said(worker.activity, "half_way");
  }
  if (status.asked.empty() || rate <= 0) return std::nullopt;
  return std::max(0., left) / rate;
}

std::int64_t runs_left(const Status& status) {
  return std::ranges::count_if(
      status.asked, [&](const auto& run) { return status.heads.contents.records.count(run.first) == 0; });
}

void print_json(const Status& status, Console& console) {
  const StoreContents& contents = status.heads.contents;
  const StateCounts total = total_of(status);
  nlohmann::ordered_json json = {{"store", status.target.store.string()}};
  if (status.target.study) json["study"] = status.target.study->name;
  json["count"] =
      status.target.study ? total.total() : total.total() - total.missing;  // of a store: what it holds
  json["states"] = to_json(total);
  json["half_way"] = count_half_way(status);
  json["labels"] = nlohmann::ordered_json::object();
  // Labels are unique; json[label] would look through all of them each time.
  auto& labels = json["labels"].get_ref<nlohmann::ordered_json::object_t&>();
  for (const auto& [label, n] : count(status.target, contents, status.asked))
    labels.push_back({label, to_json(n)});
  json["others"] = count_others(status.target, contents);
  json["bad_lines"] = contents.bad_lines;
  json["torn_tails"] = contents.torn_tails;
  json["duplicates"] = contents.duplicates;
  json["conflicts"] = contents.conflicts;
  json["workers"] = nlohmann::ordered_json::array();
  for (const ClaimingWorker& worker : status.workers)
    json["workers"].push_back({{"name", worker.name},
                               {"host", worker.process.host},
                               {"pid", worker.process.pid},
                               {"job", said_text(worker, "job", "")},
                               {"lives", worker.lives},
                               {"silent", worker.silent},
                               {"claims", worker.claims},
                               {"device", said_text(worker, "device")},
                               {"ended", static_cast<std::int64_t>(said(worker.activity, "ended"))},
                               {"failed", static_cast<std::int64_t>(said(worker.activity, "failed"))},
                               {"steps_per_second", rate_of(worker, "steps")}});
  const std::optional<double> left = seconds_left(status);
  json["seconds_left"] = left ? nlohmann::ordered_json(*left) : nlohmann::ordered_json(nullptr);
  json["verdicts"] = nlohmann::ordered_json::object();
  for (const Verdict verdict : verdicts())
    if (const auto n = status.survey.verdicts.find(verdict); n != status.survey.verdicts.end())
      json["verdicts"][to_text(verdict)] = n->second;
  json["chance"] = {{"runs", status.survey.chance.runs},
                    {"within_noise", status.survey.chance.within},
                    {"text", status.survey.chance.text}};
  json["rate_edges"] = nlohmann::ordered_json::array();
  for (const EdgeChoice& edge : status.survey.edges)
    json["rate_edges"].push_back({{"label", edge.label},
                                  {"choices", edge.choices},
                                  {"smallest", edge.smallest},
                                  {"largest", edge.largest}});
  json["suspects"] = status.survey.suspects;
  json["training"] = nlohmann::ordered_json::array();
  for (const auto& [id, run] : status.training) {
    nlohmann::ordered_json one = {
        {"id", id}, {"label", run.label}, {"seed", run.seed}, {"max_steps", run.max_steps}};
    for (const auto& [name, series] : run.curves) one[name] = {{"step", series.x}, {"value", series.y}};
    json["training"].push_back(std::move(one));
  }
  json["last"] = nullptr;
  if (status.last)
    json["last"] = {{"id", status.last->id},
                    {"label", status.last->label},
                    {"status", to_text(status.last->status)},
                    {"eval_loss", status.last->eval_loss},
                    {"finished", finished_at(*status.last)}};
  console.out << dump(json);
}

void print_workers(const Status& status, Console& console) {
  if (status.workers.empty()) return;
  std::vector<std::vector<std::string>> cells = {
      {"host", "pid", "device", "", "trained", "failed", "claims", "runs/s", "steps/s"}};
  const bool has_jobs = std::ranges::any_of(
      status.workers, [](const ClaimingWorker& worker) { return !said_text(worker, "job", "").empty(); });
  if (has_jobs) cells[0].insert(cells[0].begin(), "job");
  double runs = 0, steps = 0;
  std::int64_t working = 0;
  for (const ClaimingWorker& worker : status.workers) {
    runs += rate_of(worker, "ended"), steps += rate_of(worker, "steps");
    const bool works = worker.lives && worker.silent <= 0;
    working += works ? 1 : 0;
    cells.push_back({printable_line(worker.process.host), fmt::format("{}", worker.process.pid),
                     printable_line(said_text(worker, "device")),
                     works          ? "works"
                     : worker.lives ? fmt::format("silent {}", duration(worker.silent))
                                    : "lost",
                     fmt::format("{:.0f}", said(worker.activity, "ended")),
                     fmt::format("{:.0f}", said(worker.activity, "failed")), fmt::format("{}", worker.claims),
                     fmt::format("{:.3g}", rate_of(worker, "ended")),
                     fmt::format("{:.0f}", rate_of(worker, "steps"))});
    if (has_jobs) cells.back().insert(cells.back().begin(), printable_line(said_text(worker, "job", "")));
  }
  console.out << "\n" << table(cells);
  const std::optional<double> left = seconds_left(status);
  console.out << fmt::format(
      "\n{}: {:.3g} runs/s, {:.0f} steps/s{}\n", plural(working, "worker"), runs, steps,
      left ? fmt::format("; {} left, about {}", plural(runs_left(status), "run"), duration(*left)) : "");
}

void print_text(const Status& status, Console& console) {
  const StoreContents& contents = status.heads.contents;
  const bool has_study = !status.asked.empty();  // else nobody knows what is missing
  const Counts counts = count(status.target, contents, status.asked);
  std::vector<std::vector<std::string>> cells = {{"label", "runs", "done", "diverged", "failed"}};
  if (has_study) cells[0].push_back("missing");
  const auto row = [&](const std::string& label, const StateCounts& n) {
    cells.push_back({label, fmt::format("{}", n.total()), fmt::format("{}", n.done),
                     fmt::format("{}", n.diverged), fmt::format("{}", n.failed)});
    if (has_study) cells.back().push_back(fmt::format("{}", n.missing));
  };
  for (const auto& [label, n] : counts) row(label, n);
  if (counts.size() != 1) row("total", total_of(status));
  console.out << "store: " << full_path(status.target.store) << "\n\n" << table(cells) << "\n";
  if (!status.search.empty()) console.out << printable_line(status.search) << "\n";
  if (const std::string verdicts = outcome_text(status.survey); !verdicts.empty())
    console.out << verdicts << "\n";
  for (const std::string& line : status.survey.suspects) console.out << line << "\n";
  for (const std::string& line : other_semantics(status.heads, status.target.store))
    console.out << line << "\n";
  if (const std::int64_t others = count_others(status.target, contents); others > 0)
    console.out << fmt::format("the store has {} more, which this study does not ask for\n",
                               plural(others, "run"));
  const auto foreign =
      !status.target.study ? 0 : std::ranges::count_if(status.target.study->runs, [&](const Run& run) {
        return is_foreign(run.config) && state_of(run, contents) == "missing";
      });
  if (foreign > 0)
    console.out << fmt::format(
        "PyTorch models: {} of the missing; 'crosstalk work {}' or 'python -m crosstalk train {}' trains them\n",
        foreign, full_path(status.target.store), status.name);
  if (const std::int64_t half_way = count_half_way(status); half_way > 0)
    console.out << fmt::format("half-way: {} of the missing, saved; 'crosstalk {} {}' resumes them\n",
                               half_way, status.target.study ? "run" : "work",
                               status.target.study ? status.name : full_path(status.target.store));
  if (contents.bad_lines > 0 || contents.torn_tails > 0)
    console.out << fmt::format("left out: {}, {} (the next run trains them again)\n",
                               plural(static_cast<std::int64_t>(contents.bad_lines), "damaged line"),
                               plural(static_cast<std::int64_t>(contents.torn_tails), "torn last line"));
  if (status.last)
    console.out << fmt::format("last: {} {} ({}), eval loss {:.6g}, {}\n",
                               printable_line(finished_at(*status.last)), printable_line(status.last->label),
                               printable_line(status.last->id), status.last->eval_loss,
                               to_text(status.last->status));
  if (const std::string edges = edges_text(status.survey.edges); !edges.empty())
    console.out << printable_line(edges) << (runs_left(status) > 0 ? " So far: runs are missing.\n" : "\n");
  print_workers(status, console);
  console.out << training_text(status);
}

/// What a request asks for, as it was written down when it was made. False: it was not.
bool add_asked(AskedRuns& runs, const std::vector<Asked>& versions, const Request& request) {
  const auto asked = std::ranges::find_if(versions, [&](const Asked& version) {
    return version.study == request.study && version.version == request.version;
  });
  if (asked == versions.end() || std::ranges::any_of(asked->labels, [](const AskedLabel& label) {
        return label.work.size() != label.runs.size();
      }))
    return false;
  AskedRuns asks;
  for (const AskedLabel& label : asked->labels)
    for (std::size_t i = 0; i < label.runs.size(); ++i) {
      AskedRun& run = asks[label.runs[i]];
      run.cost = label.work[i];
      run.labels.push_back(label.label);
    }
  runs.merge(asks);  // what two ask for counts under the labels of the first
  return true;
}

void find_asked(Status& status, Console& console) {
  const auto add = [&](const Study& study) {
    for (const Run& run : study.runs)
      status.asked.try_emplace(run.id, AskedRun{estimated_work(run), run.labels});
  };
  if (status.target.study) return add(*status.target.study);
  try {
    std::vector<std::string> warnings;
    std::vector<Request> unknown;  // to be expanded, which takes a while
    const std::vector<Asked> versions = read_asked(status.target.store);
    for (const Request& request : read_requests(status.target.store, warnings))
      if (!add_asked(status.asked, versions, request)) unknown.push_back(request);
    std::map<std::string, std::string> names;
    add(joint_study(unknown, status.target.store, names, warnings));
    for (const std::string& warning : warnings) print_warning(console, warning);
  } catch (const std::exception& error) {
    print_warning(console, fmt::format("what is missing is not known: {}", error.what()));
  }
}

void read_last(Status& status) {
  try {
    if (!status.heads.last.empty()) status.last = RecordReader(status.heads).record(status.heads.last);
  } catch (const StoreError&) {  // it was compacted away at this moment
  }
}

/// Leaves the records that --where names.
void keep_conditions(Status& status, const std::map<std::string, std::string>& conditions) {
  std::map<std::string, Record>& heads = status.heads.contents.records;
  std::map<std::string, Record> whole;
  RecordReader reader(status.heads);
  for (const auto& [id, head] : heads) {
    Record record = reader.record_without_series(id, true);
    if (conditions.count("verdict") != 0 && verdict_needs_curve(record)) record = reader.record(id);
    whole.emplace(id, std::move(record));
  }
  keep_matching(whole, conditions);
  std::erase_if(heads, [&](const auto& entry) { return whole.count(entry.first) == 0; });
  std::erase_if(status.heads.places, [&](const auto& entry) { return whole.count(entry.first) == 0; });
  if (heads.count(status.heads.last) == 0) status.heads.last.clear();
}

StoreHeads heads_of_store(const fs::path& store, Console& console) {
  StoreHeads heads = read_heads(store);  // throws where there is none
  for (const std::string& warning : heads.contents.warnings) print_warning(console, warning);
  return heads;
}

/// Until everything that is asked for is recorded, or a signal comes.
int watch(Status& status, WorkerWatch& workers, StoreFollower& follower, const Arguments& arguments,
          Console& console) {
  catch_stop_signals();
  const double every = arguments.number("every", 2, 0.1);
  const bool redraw = console.err_terminal && ::isatty(STDOUT_FILENO) == 1 && !arguments.has("json");
  for (;;) {
    if (redraw) console.out << "\x1b[H\x1b[2J";
    if (arguments.has("json")) {
      print_json(status, console);
    } else {
      if (!arguments.has("where")) fold_search(status);
      print_text(status, console);
    }
    console.out << std::flush;
    if (!status.asked.empty() && runs_left(status) == 0) return exit_done;
    const double until = steady_seconds() + every;
    while (steady_seconds() < until)
      if (stop_flag())
        return exit_done;
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const RecordHead& head : follower.added()) {
      Record& record = status.heads.contents.records[head.id];
      record.id = head.id;
      record.study = head.study;
      record.label = head.label;
      record.status = head.status;
    }
    status.last.reset();
    status.workers = workers.workers();
    read_training(status);
  }
}

int run_status(const Arguments& arguments, Console& console) {
  const std::string& name = arguments.positional.at(0);
  Status status;
  status.name = name;
  status.target = find_target(name, arguments);
  if (arguments.has("out")) status.target.store = arguments.get("out");
  const fs::path& store = status.target.store;
  StoreFollower follower(store, shard_positions(store));
  status.heads = status.target.study ? load_heads(store, console) : heads_of_store(store, console);
  if (arguments.has("where")) {  // of the store's records; what does not match is not missing
    status.target.study.reset();
    keep_conditions(status, conditions_of(arguments));
  }
  read_last(status);
  WorkerWatch workers(store, {});
  status.workers = workers.workers();
  read_training(status);
  if (!arguments.has("where")) find_asked(status, console);
  if (arguments.has("every") && !arguments.has("watch"))
    throw UsageError("--every: seconds between two looks of --watch; add --watch, or leave it out");
  if (arguments.has("watch")) return watch(status, workers, follower, arguments, console);
  if (!arguments.has("where") && !arguments.has("json")) fold_search(status);
  status.survey = survey(status.target.study ? &*status.target.study : nullptr, store, status.heads);
  if (arguments.has("json"))
    print_json(status, console);
  else
    print_text(status, console);
  return exit_done;
}

}  // namespace

extern const Command status_command = {
    "status",
    "count what is done, failed and missing",
    "STUDY.toml|STORE [--out STORE] [--where KEY=VALUE] [--watch] [--json]",
    "Of a study: how many runs of each label are done, diverged, failed and missing in its store.\n"
    "Of a store: what it holds, and what the studies that were run into it still lack. Missing runs\n"
    "that are half-way (saved) are counted too. Reads only, also while a run is writing. The processes that train\n"
    "into the store, on this and other machines, are listed with what they have claimed and how\n"
    "fast they are, and the curves of the runs that train now (a point a second at most); --watch repeats this\n"
    "until all that was asked for is recorded.\n"
    "What became of training (solved, plateau, still falling, ...: 'crosstalk describe verdict') is\n"
    "counted, and how many runs lie within the noise of chance; where the best learning rate of a grid is its largest or its smallest, that is said\n"
    "('crosstalk describe best' says why it matters), and so are runs that an earlier version may have recorded\n"
    "wrongly; none of it with --watch, or of more than 20,000 runs. --where counts the store's runs that match.\n"
    "Of the runs of a search's laws a sentence tells, unless --where or --json is given.\n\n"
    "Examples:\n"
    "  crosstalk status experiments/quickstart.toml\n"
    "  crosstalk status /scratch/me/store --watch\n"
    "  crosstalk status runs/quickstart --json | jq .states\n",
    1,
    1,
    "needs a study file or a store, for example: crosstalk status runs/quickstart",
    joined(
        {study_options(),
         {{"out,o", "STORE", "The study's store (default ./runs/<study>)"},
          where_option(),
          {"watch", "", "Show it again and again until nothing is missing"},
          {"every", "SECONDS", "Time between two looks of --watch (default 2)"},
          {"json", "",
           "Print JSON: store, count, states, labels, workers, verdicts, chance, rate_edges, suspects, training, last"}}}),
    run_status,
};

}  // namespace crosstalk::program
