// Whole training steps a second, through the same trainer as `crosstalk run`: draw a batch, forward,
// backward, Adam.
//
// The clock is read where the trainer reports progress. Windows of equal numbers of steps follow each other
// in one training; the first ones warm up, the median of the others counts.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "benchmarks/cases.h"
#include "benchmarks/peak.h"
#include "experiments/common/version.h"
#include "experiments/training/training.h"

namespace crosstalk::benchmarks {
namespace {

constexpr int kWarmUp = 3;  // windows; the trainer tries its numbers of threads in the first two

struct Result {
  const Case* c;
  int threads, models;
  std::vector<double> repeats;  ///< steps/s of each window, all models together
  double final_loss;
  double median() const {
    std::vector<double> sorted = repeats;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t n = sorted.size();
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  }
};

// Trains `models` runs of c side by side, `window` steps of each to a window.
Result measure(const Case& c, int threads, int models, int repeats, std::int64_t window) {
  using Clock = std::chrono::steady_clock;
  // One window more than is used: at the end models that are ready leave their cores to the others.
  const std::vector<Run> runs = runs_of(c, models, (kWarmUp + repeats + 1) * window, window);
  struct Mark {
    Clock::time_point time;
    std::int64_t steps;
  };
  struct Stopwatch final : TrainingClient {
    void progressed(std::int64_t steps) override {
      marks.push_back({Clock::now(), marks.back().steps + steps});
    }
    void finished(Record&& record) override {
      if (record.status != RunStatus::done)
        throw std::runtime_error(fmt::format("training of {} failed: {}", record.label, record.message));
      final_loss = record.eval_loss;
    }
    std::vector<Mark> marks = {{Clock::now(), 0}};
    double final_loss = 0;
  } watch;
  TrainingOptions options;
  options.threads = threads;
  train_runs("benchmark", runs, options, watch);
  const std::vector<Mark>& marks = watch.marks;

  const auto passed = [&](std::int64_t steps) {
    const auto mark =
        std::find_if(marks.begin(), marks.end(), [&](const Mark& m) { return m.steps >= steps; });
    if (mark == marks.end()) throw std::logic_error("the trainer reported fewer steps than it was to do");
    return *mark;
  };
  Result result{&c, threads, models, {}, watch.final_loss};
  for (int i = kWarmUp; i < kWarmUp + repeats; ++i) {
    const Mark begin = passed(i * window * models), end = passed((i + 1) * window * models);
    const std::chrono::duration<double> seconds = end.time - begin.time;
    result.repeats.push_back(static_cast<double>(end.steps - begin.steps) / seconds.count());
  }
  return result;
}

// Steps in a window, such that it takes about `seconds`.
std::int64_t window_for(const Case& c, double seconds) {
  const double rate = measure(c, 1, 1, 1, 20).median();
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(rate * seconds), 20, 1000000);
}

nlohmann::json to_json(const Result& r, double peak) {
  const double flop = r.c->flop_per_step();
  return {{"model", r.c->name},
          {"variant", "crosstalk"},
          {"threads", r.threads},
          {"models", r.models},
          {"steps_per_s", r.median()},
          {"repeats", r.repeats},
          {"flop_per_step", flop},
          {"gflop_per_s", r.median() * flop * 1e-9},
          {"share_of_peak", r.median() * flop / peak},
          {"final_loss", std::isfinite(r.final_loss) ? nlohmann::json(r.final_loss) : nlohmann::json()}};
}

struct Arguments {
  int threads, models, repeats;
  std::int64_t steps;
  double seconds;
  std::string only;
  bool json;
};

int run_all(const Arguments& a) {
  const double peak = measured_peak(a.threads);
  nlohmann::json out;
  out["program"] = "crosstalk_training_benchmark";
  out["version"] = {{"version", version().version},       {"commit", version().commit},
                    {"dirty", version().dirty},           {"compiler", version().compiler},
                    {"build_type", version().build_type}, {"flags", version().flags}};
  out["threads"] = a.threads;
  out["peak_gflop_per_s"] = peak * 1e-9;
  out["results"] = nlohmann::json::array();
  if (!a.json) {
    fmt::print(
        "{} {} ({}{})\n{} threads, {} models at a time; peak of a 1024^3 product on each thread: {:.1f} GFLOP/s\n\n",
        "crosstalk", version().version, std::string(version().commit).substr(0, 12),
        version().dirty ? ", changed" : "", a.threads, a.models, peak * 1e-9);
    fmt::print("{:<28}{:>10}{:>18}{:>12}{:>10}{:>8}\n", "model", "steps/s", "slowest, fastest", "MFLOP/step",
               "GFLOP/s", "peak");
  }
  bool found = false;
  for (const Case& c : cases()) {
    if (c.name.find(a.only) == std::string::npos) continue;
    found = true;
    const Result r =
        measure(c, a.threads, a.models, a.repeats, a.steps > 0 ? a.steps : window_for(c, a.seconds));
    out["results"].push_back(to_json(r, peak));
    if (a.json) continue;
    const auto [low, high] = std::minmax_element(r.repeats.begin(), r.repeats.end());
    const double flop = c.flop_per_step();
    fmt::print("{:<28}{:>10.1f}{:>18}{:>12.1f}{:>10.2f}{:>7.1f}%\n", c.name, r.median(),
               fmt::format("{:.0f}, {:.0f}", *low, *high), flop * 1e-6, r.median() * flop * 1e-9,
               100 * r.median() * flop / peak);
    std::fflush(stdout);
  }
  if (!found) throw std::runtime_error(fmt::format("no model's name contains \"{}\"", a.only));
  if (a.json) fmt::print("{}\n", out.dump(2));
  return 0;
}

int main_of(int argc, char** argv) {
  namespace po = boost::program_options;
  Arguments a;
  po::options_description options("Training steps a second on this CPU");
  options.add_options()("help", "this text")(
      "threads",
      po::value(&a.threads)
          ->default_value(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))),
      "threads to use at most")("models", po::value(&a.models)->default_value(1),
                                "models to train side by side; steps/s are of all together")(
      "repeats", po::value(&a.repeats)->default_value(5), "windows of which the median counts")(
      "seconds", po::value(&a.seconds)->default_value(1.0), "length of a window, about")(
      "steps", po::value(&a.steps)->default_value(0), "steps in a window (0: as --seconds says)")(
      "model", po::value(&a.only)->default_value(""), "only models whose name contains this")(
      "json", po::bool_switch(&a.json), "print JSON");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(options).positional({}).run(), values);
  if (values.count("help")) {
    std::ostringstream text;
    text << options;
    fmt::print("{}", text.str());
    return 0;
  }
  po::notify(values);
  if (a.threads < 1 || a.models < 1 || a.repeats < 1 || a.steps < 0 || !(a.seconds > 0))
    throw std::runtime_error("--threads, --models, --repeats and --seconds must be positive");
  return run_all(a);
}

}  // namespace
}  // namespace crosstalk::benchmarks

int main(int argc, char** argv) {
  try {
    return crosstalk::benchmarks::main_of(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "crosstalk_training_benchmark: error: {}\n", error.what());
    return 2;
  }
}
