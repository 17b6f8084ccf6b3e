// crosstalk bench: model-steps a second.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "experiments/common/devices.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/sharing/progress.h"
#include "experiments/training/pack.h"
#include "kernels/base/parallel.h"
#include "models/memory.h"
#include "models/mixers/probe_model.h"
#include "models/rules/rule_memory.h"
#include "results/csv.h"
#include "results/numbers/statistics.h"
#include "tasks/task.h"

namespace crosstalk::program {
namespace {

/// Four digits, without an exponent.
std::string rate_text(double rate) {
  return rate >= 1000 ? fmt::format("{:.0f}", rate) : fmt::format("{:.4g}", rate);
}

/// What a large GPU reaches in products of that precision, in TFLOP/s (measured on an H200, products of
/// 8192 x 8192 by cuBLAS: 51, 357 and 686); 0: not measured.
double cuda_tflops(const std::string& precision) {
  if (precision == "tf32") return 350;
  if (precision == "bf16") return 680;
  return precision == "fp64" ? 0 : 50;
}
constexpr double kLongEnough = 0.25;  // seconds
constexpr int kEvaluations = 4;       // of a training; between them lie the intervals that count

struct TrialRow {
  Run run;
  int replicas = 0, streams = 1;
  StepTime time;
  double parameters = 0, flops = 0;
  double tflops = 0;  ///< arithmetic of the floor; 0 = not known
  std::string problem;

  double in_flight() const { return static_cast<double>(replicas) * streams; }
  /// Model-steps a second.
  double rate() const {
    return time.seconds > 0 ? in_flight() * static_cast<double>(time.steps) / time.seconds : 0;
  }
  /// Of the floor.
  double share() const { return tflops > 0 ? rate() * flops / (tflops * 1e12) : 0; }
};

/// Trains `streams` packs of `replicas` replicas side by side.
class Trial {
 public:
  Trial(TrialRow& row, const TrainingOptions& training) : row_(row), training_(training) {
    training_.pack = row.replicas;
    training_.concurrency = 1;
    if (training_.threads <= 0) training_.threads = available_cores();
    if (row.streams > 1) training_.threads = std::max(1, training_.threads / row.streams);
  }

  /// Seconds of `steps` steps of each pack and an evaluation; NaN if a run failed, which row.problem says.
  double interval(std::int64_t steps) {
    marks_.assign(static_cast<std::size_t>(row_.streams), {});
    {
      std::vector<std::jthread> threads;  // joins
      for (int stream = 0; stream < row_.streams; ++stream)
        threads.emplace_back([this, stream, steps] { train(stream, steps); });
    }
    if (error_) std::rethrow_exception(error_);
    return row_.problem.empty() ? typical_interval(marks_) : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  class Stream final : public TrainingClient {
   public:
    Stream(Trial& trial, std::vector<double>& marks) : trial_(trial), marks_(marks) {}
    void progressed(std::int64_t done) override {  // after each evaluation
      if (done > 0) marks_.push_back(steady_seconds());
    }
    void finished(Record&& record) override {
      const std::lock_guard lock(trial_.mutex_);
      if (record.status != RunStatus::done)
        trial_.row_.problem = record.status == RunStatus::failed ? record.message : "diverged";
      if (const auto found = record.metrics.find("parameters"); found != record.metrics.end())
        trial_.row_.parameters = found->second;
    }

   private:
    Trial& trial_;
    std::vector<double>& marks_;
  };

  void train(int stream, std::int64_t steps) {
    std::vector<Run> runs;
    for (int r = 0; r < row_.replicas; ++r)
      runs.push_back(bench_run(row_.run, stream * row_.replicas + r + 1, steps, kEvaluations));
    Stream client(*this, marks_[static_cast<std::size_t>(stream)]);
    try {
      train_runs("bench", runs, training_, client);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
  }

  TrialRow& row_;
  TrainingOptions training_;
  Marks marks_;  // each stream writes its own
  std::mutex mutex_;
  std::exception_ptr error_;
};

std::vector<int> replicas_of(const Arguments& arguments, Device device) {
  // On the CPU lockstep gains nothing: there more replicas would only take longer.
  const std::string text = arguments.get("replicas", device == Device::cuda ? "1,16,128" : "1");
  std::vector<int> numbers;
  for (const std::string& part : parts_of(text, ',')) {
    numbers.push_back(number_in<int>(part).value_or(0));
    if (numbers.back() < 1 || numbers.back() > 1 << 20)
      throw UsageError(fmt::format("--replicas takes whole numbers with commas (1,16,128), not '{}'", text));
  }
  return numbers;
}

/// The first run of each pack.
std::vector<Run> shapes_of(const Study& study) {
  std::set<std::string> seen;
  std::vector<Run> shapes;
  for (const Run& run : study.runs)
    if (seen.insert(pack_key(run.config)).second) shapes.push_back(run);
  return shapes;
}

nlohmann::ordered_json to_json(const TrialRow& row) {
  nlohmann::ordered_json json = {{"label", row.run.label},
                                 {"memory", row.run.config.get_string("memory.name")},
                                 {"task", row.run.config.get_string("task.name")},
                                 {"d_dot", row.run.d_dot},
                                 {"config", program::to_json(row.run.config)},
                                 {"parameters", row.parameters},
                                 {"replicas", row.replicas},
                                 {"in_flight", row.in_flight()},
                                 {"steps", row.time.steps},
                                 {"seconds", row.time.seconds},
                                 {"model_steps_per_second", row.rate()},
                                 {"us_per_model_step", row.rate() > 0 ? 1e6 / row.rate() : 0},
                                 {"flop_per_step", row.flops}};
  json["floor_tflops"] = row.tflops > 0 ? nlohmann::ordered_json(row.tflops) : nullptr;
  json["share_of_floor"] = row.share() > 0 ? nlohmann::ordered_json(row.share()) : nullptr;
  json["problem"] = row.problem;
  return json;
}

/// How far a measurement of `total` shapes is, of which `done` took `seconds`.
std::string progress_text(std::int64_t done, std::int64_t total, double seconds) {
  if (total == 1) return "";
  const double left = seconds / static_cast<double>(done) * static_cast<double>(total - done);
  return fmt::format(" ({} of {}{})", done, total, done < total ? ", about " + duration(left) + " left" : "");
}

std::vector<std::string> cells_of(const TrialRow& row, bool with_floor) {
  const double rate = row.rate();
  std::vector<std::string> cells = {
      row.run.label,
      row.run.config.has("task.associations") ? fmt::format("{}", row.run.config.get_int("task.associations"))
      : row.run.config.has("task.pairs")      ? fmt::format("{}", row.run.config.get_int("task.pairs"))
                                              : "-",
      row.run.d_dot > 0 ? fmt::format("{}", row.run.d_dot) : "-",
      fmt::format("{:.0f}", row.parameters),
      fmt::format("{:.0f}", row.in_flight()),
      rate > 0 ? rate_text(rate) : "-",
      rate > 0 ? fmt::format("{:.4g}", 1e6 / rate) : "-",
      fmt::format("{:.3g}", row.flops / 1e6)};
  if (with_floor) cells.push_back(row.share() > 0 ? fmt::format("{:.2g}", 100 * row.share()) : "-");
  cells.push_back(row.problem);
  return cells;
}

int bench_shapes(const Study& study, const Arguments& arguments, const TrainingOptions& training,
                 Console& console) {
  const std::int64_t steps = arguments.integer("steps", 0, 1, 1 << 30);
  const int streams = static_cast<int>(arguments.integer("streams", 1, 1, 1024));
  const bool given = arguments.has("floor-tflops");
  const std::vector<Run> shapes = shapes_of(study);
  const std::vector<int> numbers = replicas_of(arguments, training.device);
  const auto total = static_cast<std::int64_t>(shapes.size() * numbers.size());
  if (!arguments.has("json") && total > 1)
    print_note(
        console,
        fmt::format(
            "{} to measure, {} each; --set memory=LABEL or --set KEY=VALUE measures fewer, --study-packs the whole study in 20 s",
            plural(total, "shape"), steps > 0 ? plural(3 * kEvaluations * steps, "step") : "about 5 s"));
  std::vector<TrialRow> rows;
  const double start = steady_seconds();
  for (const Run& shape : shapes) {
    for (const int replicas : numbers) {
      TrialRow row;
      row.run = shape;
      row.replicas = replicas;
      row.streams = streams;
      row.flops = step_flops(shape);
      if (given) {
        row.tflops = arguments.number("floor-tflops", 0, 1e-6);
      } else if (training.device == Device::cuda) {
        row.tflops = cuda_tflops(shape.config.get_string("train.precision"));
      }
      Trial trial(row, training);
      row.time = measure_steps([&](std::int64_t n) { return trial.interval(n); }, steps, kLongEnough);
      if (!arguments.has("json"))
        print_note(
            console,
            fmt::format("{}, {} at a time: {} model-steps/s{}", row.run.label,
                        plural(static_cast<std::int64_t>(row.in_flight()), "replica"), rate_text(row.rate()),
                        progress_text(std::ssize(rows) + 1, total, steady_seconds() - start)));
      rows.push_back(std::move(row));
    }
  }
  const bool failed = std::ranges::any_of(rows, [](const TrialRow& row) { return !row.problem.empty(); });
  if (arguments.has("json")) {
    nlohmann::ordered_json json = {{"study", study.name}, {"device", device_name(training)}};
    json["rows"] = nlohmann::ordered_json::array();
    for (const TrialRow& row : rows) json["rows"].push_back(to_json(row));
    console.out << dump(json);
    return failed ? exit_some_failed : exit_done;
  }
  std::vector<std::vector<std::string>> cells = {
      {"label", "load", "d_dot", "parameters", "in flight", "model-steps/s", "us/model-step", "MFLOP/step"}};
  std::set<double> floors;
  for (const TrialRow& row : rows)
    if (row.tflops > 0) floors.insert(row.tflops);
  if (!floors.empty()) cells[0].push_back("% of floor");
  cells[0].push_back(failed ? "problem" : "");
  for (const TrialRow& row : rows) cells.push_back(cells_of(row, !floors.empty()));
  console.out << study.name << " on " << device_name(training) << "\n\n" << table(cells);
  if (!floors.empty())
    console.out << fmt::format("\nfloor: arithmetic alone at {:g} TFLOP/s\n", fmt::join(floors, " or "));
  return failed ? exit_some_failed : exit_done;
}

/// Counts the steps of a study's runs until a moment, in steady_seconds().
struct Tally final : TrainingClient {
  Tally(const Study& study, double end_) : end(end_) {
    for (const Run& run : study.runs) by_id[run.id] = &run;
  }
  bool stopped() const override { return steady_seconds() >= end; }
  void finished(Record&& record) override {
    steps += record.steps;
    ++ended;
    failed += record.status == RunStatus::failed;
  }
  void save_state(const std::string& id, const std::string& state) override {  // in flight at the end
    steps += steps_of_state(state);
    ++replicas;
    ++in_flight[pack_key(by_id.at(id)->config)];
  }

  const double end;
  std::int64_t steps = 0, ended = 0, failed = 0, replicas = 0;
  std::map<std::string, std::int64_t> in_flight;  ///< replicas by pack key
  std::unordered_map<std::string, const Run*> by_id;
};

/// The whole study for some seconds, as 'run' would train it.
int bench_study(const Study& study, const Arguments& arguments, TrainingOptions training, Console& console) {
  const double limit = arguments.number("seconds", 20, 0.01);
  training.concurrency = static_cast<int>(arguments.integer("streams", 0, 1, 1024));
  training.pack = static_cast<int>(arguments.integer("replicas", 0, 1, 1 << 20));
  const double start = steady_seconds();
  Tally tally(study, start + limit);
  train_runs(study.name, study.runs, training, tally);
  const double seconds = std::min(limit, steady_seconds() - start);
  const double rate = static_cast<double>(tally.steps) / seconds;
  // On the CPU each run is a pack unless --replicas says otherwise; on a GPU equal shapes share one.
  std::int64_t packs = std::ssize(tally.in_flight);
  if (training.device == Device::cpu) {
    const std::int64_t slots = std::max(1, training.pack);
    packs = 0;
    for (const auto& [key, count] : tally.in_flight) packs += (count + slots - 1) / slots;
  }
  if (arguments.has("json"))
    console.out << dump({{"study", study.name},
                         {"device", device_name(training)},
                         {"seconds", seconds},
                         {"model_steps", tally.steps},
                         {"model_steps_per_second", rate},
                         {"runs", study.runs.size()},
                         {"ended", tally.ended},
                         {"failed", tally.failed},
                         {"packs_in_flight", packs},
                         {"replicas_in_flight", tally.replicas}});
  else
    console.out << fmt::format(
        "{} on {}: {} model-steps/s ({} in {}, preparation and evaluation included)\n"
        "in flight at the end: {}, {}; {} of {} had ended{}\n",
        study.name, device_name(training), rate_text(rate), plural(tally.steps, "model-step"),
        duration(seconds), plural(packs, "pack"), plural(tally.replicas, "replica"), tally.ended,
        plural(std::ssize(study.runs), "run"),
        tally.failed > 0 ? fmt::format(", {} failed", tally.failed) : "");
  return tally.failed > 0 ? exit_some_failed : exit_done;
}

int run_bench(const Arguments& arguments, Console& console) {
  Study study = study_of(arguments);
  TrainingOptions training;
  training.threads = static_cast<int>(arguments.integer("threads", 0, 1, 4096));
  if (const std::string why = choose_device(arguments.get("device", "auto"), training); !why.empty())
    print_note(console, why);
  choose_passes(arguments.all("no-pass"));
  arguments.number("seconds", 20, 0.01);  // checked also where it means nothing
  if (arguments.has("seconds") && !arguments.has("study-packs"))
    throw UsageError(
        "bench: --seconds belongs to --study-packs, which trains the whole study for so long; without it each shape is measured for as long as it "
        "needs, or for --steps N");
  if (study.runs.empty()) throw UsageError("the study has no runs");
  const auto probes = std::erase_if(study.runs, [](const Run& run) { return is_probe(run.config); });
  if (study.runs.empty())
    throw UsageError(fmt::format(
        "bench times steps of training, and a probe (model.name = \"probe\") has none; to see how long it takes: crosstalk run {}",
        shell_quote(arguments.positional.at(0))));
  if (probes > 0)
    print_note(console, fmt::format("{} of probes left out: they train nothing",
                                    plural(static_cast<std::int64_t>(probes), "run")));
  return arguments.has("study-packs") ? bench_study(study, arguments, training, console)
                                      : bench_shapes(study, arguments, training, console);
}

}  // namespace

double step_flops(const Run& run) {
  const auto task = find_task(run.config.get_string("task.name"))->make(run.config);
  const SequenceShape shape = task->shape(Split::train);
  const Vocabulary vocabulary = task->vocabulary();
  if (run.config.get_string("model.name") == "language") return language_flops(run.config, shape, vocabulary);
  const double S = vocabulary.keys, L = shape.T, Q = shape.Q;
  const auto e = static_cast<double>(run.config.get_int("model.embedding"));
  const auto d = static_cast<double>(run.config.get_int("model.d_key"));
  const auto B = static_cast<double>(run.config.get_int("train.batch"));
  const auto heads = static_cast<double>(run.config.get_int("model.heads"));
  const Memory& memory = memory_of(run.config);
  const double K = (run.d_dot > 0 ? static_cast<double>(run.d_dot) : d) / heads,
               V = vocabulary.values / heads;
  return (vocabulary.second_key ? 12 : 6) * S * e * d + 6 * B * e * d +
         B * heads * memory.flops(run.config, K, V, L, Q);
}

Run bench_run(const Run& run, std::int64_t seed, std::int64_t every, std::int64_t evaluations) {
  Run result = run;
  result.seed = seed;
  for (const char* key : {"seed", "data_seed", "init_seed"}) result.config.set(key, seed);
  result.config.set("train.stop_loss", 0.0);
  result.config.set("train.stop_accuracy", 0.0);
  result.config.set("train.epochs", std::int64_t{0});
  result.config.set("train.patience", std::int64_t{1} << 30);
  result.config.set("train.max_steps", every * evaluations);
  result.config.set("eval.every", every);
  result.config.set("eval.sequences", std::int64_t{1});
  result.config.set("eval.length_factors", std::string());
  result.id = run_id(result.config);
  return result;
}

double typical_interval(const Marks& marks) {
  double all_began = -std::numeric_limits<double>::infinity(), first_ended = -all_began;
  for (const std::vector<double>& stream : marks) {
    if (stream.empty()) continue;
    all_began = std::max(all_began, stream.front());
    first_ended = std::min(first_ended, stream.back());
  }
  std::vector<double> all, side_by_side;
  for (const std::vector<double>& stream : marks) {
    for (std::size_t i = 1; i < stream.size(); ++i) {
      all.push_back(stream[i] - stream[i - 1]);
      if (stream[i - 1] >= all_began && stream[i] <= first_ended) side_by_side.push_back(all.back());
    }
  }
  return median(side_by_side.empty() ? all : side_by_side);
}

StepTime measure_steps(const std::function<double(std::int64_t)>& interval, std::int64_t steps,
                       double long_enough) {
  constexpr std::int64_t kMost = 10'000'000;
  for (std::int64_t n = steps > 0 ? steps : 10;;) {
    const double one = interval(n), difference = interval(2 * n) - one;
    if (std::isnan(difference)) return {n, 0};
    if (steps > 0 || difference >= long_enough || n >= kMost) return {n, difference};
    const double factor = difference > 0 ? 1.3 * long_enough / difference : 100;
    // Multiples of 10: a GPU replays so many steps at once.
    n = std::min(kMost,
                 static_cast<std::int64_t>(static_cast<double>(n) / 10 * std::clamp(factor, 2., 100.)) * 10);
  }
}

extern const Command bench_command = {
    "bench",
    "measure training: model-steps a second of each shape, or of the study",
    "STUDY.toml [--replicas 1,16,128] [--device DEVICE] [--json] [OPTIONS]",
    "For each shape of the study (--set narrows it) and each number of replicas: trains so many\n"
    "replicas of its first run in lockstep, and prints model-steps a second, microseconds a\n"
    "model-step, the arithmetic of a step and its share of a floor. N steps are the time between\n"
    "evaluations that lie 2 N steps apart less that of N, so that these do not count. The arithmetic is\n"
    "6 S e d + 6 B e d + B M (S keys, e embedding, d = d_key, B batch; M about what the memory takes\n"
    "for a sequence: 6 p L Q for softmax and linear attention, 14 p L Q for the delta rule, p = d_dot,\n"
    "L tokens, Q queries). With --study-packs: the whole study side by side for some seconds, as\n"
    "'run' would train it. Records nothing.\n\n"
    "Examples:\n"
    "  crosstalk bench experiments/quickstart.toml --set task.associations=20 --replicas 1,4\n"
    "  crosstalk bench experiments/schlag2021_capacity.toml --set task.associations=100 --device cuda\n"
    "  crosstalk bench experiments/schlag2021_capacity.toml --study-packs --seconds 20 --json\n",
    1,
    1,
    "needs a study file, for example: crosstalk bench experiments/quickstart.toml",
    joined({study_options(),
            {
                {"replicas", "N,...", "Replicas in lockstep (default 1,16,128 on a GPU, 1 on the CPU)"},
                {"steps", "N", "Compares N and 2 N steps (default: as many as take 0.25 s)"},
                {"device", "DEVICE", "auto (a GPU if there is one), cpu, cuda or cuda:N"},
                {"no-pass", "NAME", "Leave out a pass that fuses ops, to see what it gains", true},
                {"streams", "N", "Packs side by side (default 1; with --study-packs as 'run' does it)"},
                {"threads", "N", "Threads (default: all cores)"},
                {"floor-tflops", "T",
                 "Arithmetic of the floor, in TFLOP/s (default on a GPU: 50 in fp32, 350 tf32, 680 bf16)"},
                {"study-packs", "", "Train the whole study for some seconds instead"},
                {"seconds", "T", "With --study-packs: for how long (default 20)"},
                {"json", "", "Print JSON"},
            }}),
    run_bench,
};

}  // namespace crosstalk::program
