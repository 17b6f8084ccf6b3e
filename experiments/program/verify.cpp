// crosstalk verify: train a sample of a store again and compare.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>

#include "experiments/common/devices.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/provenance.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/common/version.h"
#include "experiments/sharing/python_package.h"
#include "experiments/study/schema.h"
#include "experiments/training/foreign_memory.h"
#include "experiments/training/training.h"
#include "results/numbers/verdict.h"
#include "results/store/record_io.h"
#include "results/suspects.h"

namespace crosstalk::program {
namespace {

/// One sampled record, and what became of it.
struct Check {
  const Record* recorded = nullptr;
  bool exact = false;  ///< must be equal to the bit
  std::optional<Record> again;
  std::string problem;  ///< why it could not be trained again
  Agreement agreement = Agreement::differs;
};

/// Losses agree within a share, or within a fifth of it as an absolute difference: 5 % or 0.01.
bool close(double a, double b, double tolerance) {
  if (std::isnan(a) && std::isnan(b)) return true;
  const double difference = std::abs(a - b);
  return difference <= tolerance * std::max(std::abs(a), std::abs(b)) || difference <= tolerance / 5;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  return object.is_object() ? object.value(key, std::string()) : std::string();
}

/// Bits are promised for one device and one compiler (the code of a CPU depends on its model, too).
bool same_machine(const nlohmann::json& a, const nlohmann::json& b) {
  std::vector<const char*> keys = {"device", "compiler", "flags"};
  if (text_at(a, "device") == "cpu") keys.push_back("cpu");
  return std::ranges::all_of(keys, [&](const char* key) { return text_at(a, key) == text_at(b, key); });
}

const char* word(Agreement agreement) {
  return agreement == Agreement::identical          ? "identical"
         : agreement == Agreement::within_tolerance ? "within tolerance"
         : agreement == Agreement::not_trained      ? "not trained here"
                                                    : "DIFFERS";
}

std::string loss_text(double loss) { return std::isnan(loss) ? "-" : fmt::format("{:.6g}", loss); }

/// Ids are hashes of configurations: the smallest are a random sample, and the same one every time. `study`: of its runs alone.
std::vector<Check> sample(const StoreContents& contents, const std::optional<Study>& study, std::size_t n) {
  std::set<std::string> asked;
  if (study)
    for (const Run& run : study->runs) asked.insert(run.id);
  std::vector<Check> checks;
  for (const auto& [id, record] : contents.records) {
    if (checks.size() == n) break;
    if (record.status == RunStatus::failed || (study && asked.count(id) == 0)) continue;
    checks.emplace_back().recorded = &record;
  }
  return checks;
}

/// Puts the second record of each run beside its first.
class Checker final : public TrainingClient {
 public:
  Checker(const std::map<std::string, Check*>& by_id, Console& console) : by_id_(by_id), console_(console) {}
  /// A run that was outrun ends where it did, whoever won.
  std::int64_t solved_at(const std::string& race) override {
    const auto found = solved.find(race);
    return found == solved.end() ? kNeverSolved : found->second;
  }
  void finished(Record&& record) override {
    Check& check = *by_id_.at(record.id);
    check.problem = record.status == RunStatus::failed ? record.message : "";
    check.again = std::move(record);
    ++ended_;
    if (console_.err_terminal)
      console_.err << fmt::format("\r\x1b[K{}/{} runs", ended_, by_id_.size()) << std::flush;
  }

  std::map<std::string, std::int64_t> solved;  ///< race -> step

 private:
  const std::map<std::string, Check*>& by_id_;
  Console& console_;
  std::size_t ended_ = 0;
};

bool of_python(const Check& check) { return config_text(*check.recorded, "memory.name") == kForeignMemory; }

/// Lets Python train the records of PyTorch models: a line each comes back, a record or {"id", "problem"}.
void train_foreign_again(const std::map<std::string, Check*>& by_id, const std::string& store,
                         const Arguments& arguments) {
  if (by_id.empty()) return;
  const PackagePython python = package_python(arguments);
  std::vector<std::string> words = {"verify", store, "--records", "--device",
                                    arguments.get("device", "auto")};
  for (const auto& [id, check] : by_id) {
    words.insert(words.end(), {"--only", id});
    check->problem = fmt::format("{} did not train it, see above", python.path);
    if (!python.path.empty()) continue;
    check->agreement = Agreement::not_trained;
    check->problem = fmt::format("{}; where there is one: python -m crosstalk verify {}", python.why_none,
                                 shell_quote(store));
  }
  if (python.path.empty()) return;
  std::istringstream lines(output_of(package_call(python.path, words), true).text);
  for (std::string line; std::getline(lines, line);) {
    if (ParsedLine parsed = from_line(line); parsed.record) {
      if (const auto found = by_id.find(parsed.record->id); found != by_id.end()) {
        found->second->problem = "";
        found->second->again = std::move(parsed.record);
      }
      continue;
    }
    const nlohmann::json told = nlohmann::json::parse(line, nullptr, false);
    if (const auto found = by_id.find(text_at(told, "id")); found != by_id.end())
      found->second->problem = text_at(told, "problem");
  }
}

/// Trains what can be trained.
void train_again(std::vector<Check>& checks, const TrainingOptions& training, const std::string& store,
                 const Arguments& arguments, Console& console) {
  std::vector<Run> runs;
  std::map<std::string, Check*> by_id, foreign;
  for (Check& check : checks) {
    if (of_python(check)) {
      foreign[check.recorded->id] = &check;
      continue;
    }
    try {
      runs.push_back(run_of(*check.recorded));
      by_id[check.recorded->id] = &check;
    } catch (const std::exception& error) {
      check.problem = error.what();
    }
  }
  Checker checker(by_id, console);
  for (const Run& run : runs)
    if (const Record& record = *by_id.at(run.id)->recorded; is_outrun(record))
      checker.solved[race_of(run.config)] = record.steps;
  train_runs(checks[0].recorded->study, runs, training, checker);
  if (console.err_terminal) console.err << "\r\x1b[K" << std::flush;
  train_foreign_again(foreign, store, arguments);
}

void print_json(const std::vector<Check>& checks, const std::string& store, std::int64_t wrong,
                Console& console) {
  nlohmann::ordered_json json = {{"store", store},
                                 {"checked", checks.size()},
                                 {"differ", wrong},
                                 {"runs", nlohmann::ordered_json::array()}};
  for (const Check& check : checks) {
    nlohmann::ordered_json row = {
        {"id", check.recorded->id},       {"label", check.recorded->label},
        {"seed", check.recorded->seed},   {"status", to_text(check.recorded->status)},
        {"steps", check.recorded->steps}, {"eval_loss", check.recorded->eval_loss}};
    row["status_again"] = check.again ? nlohmann::ordered_json(to_text(check.again->status)) : nullptr;
    row["steps_again"] = check.again ? nlohmann::ordered_json(check.again->steps) : nullptr;
    row["eval_loss_again"] = check.again ? nlohmann::ordered_json(check.again->eval_loss) : nullptr;
    row["must_be_identical"] = check.exact;
    row["result"] = word(check.agreement);
    row["problem"] = check.problem;
    json["runs"].push_back(std::move(row));
  }
  console.out << dump(json);
}

void print_table(const std::vector<Check>& checks, Console& console) {
  std::vector<std::vector<std::string>> cells = {
      {"id", "label", "recorded loss", "loss again", "steps", "steps again", "result"}};
  for (const Check& check : checks) {
    std::string result = word(check.agreement);
    if (!check.problem.empty()) result += ": " + check.problem;
    const auto status = [](const Record& record) {
      return record.status == RunStatus::done ? loss_text(record.eval_loss) : to_text(record.status);
    };
    cells.push_back({check.recorded->id, check.recorded->label, status(*check.recorded),
                     check.again ? status(*check.again) : "-", fmt::format("{}", check.recorded->steps),
                     check.again ? fmt::format("{}", check.again->steps) : "-", result});
  }
  console.out << table(cells);
}

int run_verify(const Arguments& arguments, Console& console) {
  const std::string& name = arguments.positional.at(0);
  TrainingOptions training;
  training.threads = static_cast<int>(arguments.integer("threads", 0, 1, 4096));
  training.pack = static_cast<int>(arguments.integer("pack", 0, 1, 1 << 20));
  training.concurrency = static_cast<int>(arguments.integer("streams", 0, 1, 1024));
  if (const std::string why = choose_device(arguments.get("device", "auto"), training); !why.empty())
    print_note(console, why);
  const auto n = static_cast<std::size_t>(arguments.integer("count", 20, 1));
  const double tolerance = arguments.number("tolerance", 0.05, 0);
  Target target = find_target(name, arguments);
  if (arguments.has("out")) target.store = arguments.get("out");
  const StoreContents contents = load_target(target, name, console);
  for (const std::string& line : suspects_text(list_of(contents.records))) print_note(console, line);
  std::vector<Check> checks = sample(contents, target.study, n);
  if (checks.empty())
    throw UsageError(fmt::format("no finished runs {}in {}; 'crosstalk run' makes them",
                                 target.study ? "of the study " : "", target.store.string()));

  const nlohmann::json here = process_provenance("", device_name(training), training.threads);
  train_again(checks, training, target.store.string(), arguments, console);
  std::int64_t wrong = 0, exact = 0, left = 0;
  for (Check& check : checks) {
    // Replicas of a PyTorch model are not packed again as they were.
    check.exact = !of_python(check) && same_machine(check.recorded->provenance, here);
    if (check.again) check.agreement = compare(*check.recorded, *check.again, check.exact, tolerance);
    left += check.agreement == Agreement::not_trained;
    wrong += check.agreement == Agreement::differs;
    exact += check.agreement == Agreement::identical;
  }
  if (arguments.has("json")) {
    print_json(checks, target.store.string(), wrong, console);
  } else {
    print_table(checks, console);
    const auto elsewhere =
        std::ranges::count_if(checks, [](const Check& check) { return !check.exact && !of_python(check); });
    std::string text = fmt::format("\n{} trained again on {}: {} identical, {} within tolerance, {}{}",
                                   plural(std::ssize(checks) - left, "run"), text_at(here, "device"), exact,
                                   std::ssize(checks) - left - wrong - exact,
                                   wrong == 0 ? "none differs" : fmt::format("{} DIFFER", wrong),
                                   left > 0 ? fmt::format("; {} of PyTorch models not", left) : "");
    if (elsewhere > 0)
      text += fmt::format(
          "\n{} recorded by another device or compiler: its bits may differ, its losses by {:g} % or {:g}",
          elsewhere == 1 ? "1 was" : fmt::format("{} were", elsewhere), 100 * tolerance, tolerance / 5);
    console.out << text << "\n";
  }
  return wrong > 0 ? exit_some_failed : exit_done;
}

OptionValue value_of(const OptionSpec* spec, const std::string& key, const nlohmann::json& json) {
  OptionValue value;
  if (json.is_boolean())
    value = json.get<bool>();
  else if (json.is_number_integer())
    value = json.get<std::int64_t>();
  else if (json.is_number_float())
    value = json.get<double>();
  else if (json.is_string())
    value = json.get<std::string>();
  else
    throw std::runtime_error(fmt::format("its configuration has no plain value for {}", key));
  if (spec == nullptr) return value;
  return check_option(*spec, key.substr(0, key.find('.')), value);
}

}  // namespace

Run resolved_run(const Record& record) {
  const Schema& schema = default_schema();
  const std::string task = config_text(record, "task.name").value_or(""),
                    memory = config_text(record, "memory.name").value_or("");
  if (schema.find_task(task) == nullptr)
    throw std::runtime_error(fmt::format("this crosstalk has no task '{}'", task));
  const SchemaMemory* kind = schema.find_memory(memory);
  if (kind == nullptr) throw std::runtime_error(fmt::format("this crosstalk has no memory '{}'", memory));
  Run run;
  for (const auto& [key, json] : record.config) {
    const OptionSpec* spec = find_option(schema, task, memory, key);
    const bool known = spec != nullptr || key == "task.name" || key == "memory.name" || key == "seed" ||
                       key == "data_seed" || key == "init_seed";
    if (!known) throw std::runtime_error(fmt::format("this crosstalk has no option {}", key));
    run.config.set(key, value_of(spec, key, json));
  }
  // Options that came after the record was made are at what they were then: their neutral default.
  fill_defaults(run.config, "task", schema.find_task(task)->options);
  fill_defaults(run.config, "model", schema.model);
  fill_defaults(run.config, "memory", kind->options);
  std::vector<OptionSpec> train = schema.train;
  std::erase_if(train,
                [](const OptionSpec& option) { return option.name == "keep_weights"; });  // no result's
  fill_defaults(run.config, "train", train);
  fill_defaults(run.config, "eval", schema.eval);
  run.id = run_id(run.config);
  run.label = record.label;
  run.seed = record.seed;
  const TaskSizes sizes = schema.find_task(task)->sizes(run.config);
  run.d_dot = kind->d_dot(run.config);
  run.state_size = kind->state_size(run.config, sizes.vocabulary.values, sizes.eval_length);
  return run;
}

Run run_of(const Record& record) {
  Run run = resolved_run(record);
  if (run.id == record.id) return run;
  throw std::runtime_error(fmt::format(
      "its configuration has the id {} here: the record was changed, or made with other semantics than {}",
      run.id, kSemantics));
}

Agreement compare(const Record& recorded, const Record& again, bool exact, double tolerance) {
  if (same_result(recorded, again)) return Agreement::identical;
  if (exact || recorded.status != again.status) return Agreement::differs;
  return close(recorded.eval_loss, again.eval_loss, tolerance) &&
                 close(recorded.best_eval_loss, again.best_eval_loss, tolerance)
             ? Agreement::within_tolerance
             : Agreement::differs;
}

extern const Command verify_command = {
    "verify",
    "train a sample of a store again and compare",
    "STORE|STUDY.toml [-n N] [--device DEVICE] [--tolerance SHARE] [--json]",
    "Takes N finished runs of a store (always the same ones), trains each again from its recorded\n"
    "configuration, and compares every result. On the device, the CPU model and with the compiler\n"
    "that recorded a run, each number must be equal to the bit; elsewhere the losses may differ by\n"
    "the tolerance (5 % or 0.01). Writes nothing into the store.\n\n"
    "PyTorch models are trained again by a Python that has torch and crosstalk (--python), within the tolerance, which runs\n"
    "their Python files: of a store that you do not trust, --python none leaves them out.\n\n"
    "Examples:\n"
    "  crosstalk verify runs/quickstart\n"
    "  crosstalk verify runs/quickstart -n 5 --device cpu\n"
    "  crosstalk verify runs/quickstart --json | jq '.runs[] | select(.result==\"DIFFERS\").id'\n\n"
    "Exit codes: 0 all agree, 1 some differ.\n",
    1,
    1,
    "needs a store, for example: crosstalk verify runs/quickstart",
    {
        {"count,n", "N", "Runs to train again (default 20)"},
        {"device", "DEVICE", "auto (a GPU if there is one), cpu, cuda or cuda:N"},
        {"tolerance", "SHARE",
         "Largest share by which losses may differ; or a fifth of it, absolute (default 0.05)"},
        {"out,o", "STORE", "The study's store (default ./runs/<study>)"},
        {"threads", "N", "Threads (default: all cores); changes no result"},
        {"pack", "N", "Runs trained in lockstep, at most (default: chosen); changes no result"},
        {"streams", "N", "CUDA: packs at a time (default: chosen); changes no result"},
        python_option(),
        {"json", "", "Print JSON: store, checked, differ, runs"},
    },
    run_verify,
};

}  // namespace crosstalk::program
