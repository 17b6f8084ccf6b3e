// crosstalk inspect: looks inside a trained memory.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/inspect/sample.h"
#include "experiments/program/verify.h"
#include "kernels/base/error.h"
#include "kernels/base/text/npy.h"
#include "plots/figure.h"
#include "results/csv.h"
#include "results/store/weights.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFirstLine = "Crosstalk looked inside a memory";

std::string name_of(const Record& record) {
  return fmt::format("{} ({}, seed {})", record.id, record.label, record.seed);
}

/// The command that trains a run again for its weights.
std::string remedy(const Record& record, const fs::path& store, const Console& console) {
  return fmt::format(
      "'{}' trains it again for them",
      shell_quote({console.program, "run", (store / "studies" / (record.study + ".toml")).string(), "--out",
                   store.string(), "--only", record.id, "--set", "train.keep_weights=true"}));
}

/// Says what to do instead where there is nothing to look at, trained again or not.
void check_model(const Record& record, const fs::path& store) {
  const std::string model = config_text(record, "model.name").value_or("retrieval");
  if (model == "probe")
    throw UsageError(fmt::format(
        "run {} is a probe, whose memory learns nothing to look at; what it measured: crosstalk plot probe {}. To look inside, train the "
        "memory in model.name = \"retrieval\"",
        name_of(record), shell_quote(store.string())));
}

/// The one run that --run and --where name; of several, those whose weights are kept.
Record chosen_run(const std::string& target, const fs::path& store, const Arguments& arguments,
                  Console& console) {
  std::map<std::string, Record> found;  // by id: under several labels it is one run
  const std::string begin = arguments.get("run");
  for (auto& [key, record] : load_rows({target}, arguments, console).rows)
    if (record.id.rfind(begin, 0) == 0) found.emplace(record.id, std::move(record));
  const std::string where = fs::absolute(store).lexically_normal().string();
  if (found.empty())
    throw UsageError(begin.empty() ? fmt::format("no such run in {}", where)
                                   : fmt::format("--run {}: no such run in {}", begin, where));
  std::vector<const Record*> candidates;
  const std::set<std::string> kept = kept_weights(store);
  for (const auto& [id, record] : found)
    if (kept.count(id) != 0) candidates.push_back(&record);
  const Record& first = candidates.empty() ? found.begin()->second : *candidates[0];
  if (candidates.size() <= 1) check_model(first, store);
  if (candidates.size() == 1) return first;
  if (candidates.empty() && first.status != RunStatus::done)
    throw UsageError(
        fmt::format("run {} {}: it has no final weights", name_of(first), to_text(first.status)));
  if (candidates.empty())
    throw UsageError(
        fmt::format("the weights of run {} are not kept; {}", name_of(first), remedy(first, store, console)));
  std::string text = fmt::format("{} runs keep their weights; name one with --run, or say more with --where:",
                                 candidates.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(candidates.size(), 8); ++i)
    text += "\n  --run " + name_of(*candidates[i]);
  if (candidates.size() > 8) text += "\n  ...";
  throw UsageError(text);
}

std::vector<int> positions_of(const std::string& text) {
  std::vector<int> positions;
  if (text.empty()) return positions;
  for (const std::string& part : parts_of(text, ',')) {
    positions.push_back(number_in<int>(part).value_or(0));
    if (positions.back() < 1)
      throw UsageError(fmt::format("--positions {}: needs numbers of tokens, such as 1,8,16", text));
  }
  return positions;
}

/// What --layer and --head name, in the model of a run. Of a language model one head is shown unless all are asked for.
void choose_layer(const Arguments& arguments, const Record& record, InspectRequest& request) {
  const bool language = config_text(record, "model.name").value_or("retrieval") == "language";
  if (arguments.has("layer") && !language)
    throw UsageError(fmt::format(
        "--layer: run {} is a retrieval model, which is one memory without layers; leave --layer out",
        name_of(record)));
  const auto number = [&](const char* option) {
    return static_cast<int>(arguments.integer(option, 0, 0, std::numeric_limits<int>::max()));
  };
  if (arguments.has("layer")) request.layer = number("layer");
  const std::string head = arguments.get("head", language ? "0" : "all");
  if (head == "all") return;
  request.head = arguments.has("head") ? number("head") : 0;
}

/// "test sequence 0", of a language model with layer and head.
std::string place_of(const InspectRequest& request, const Inspection& inspection) {
  std::string text = fmt::format("{} sequence {}", split_name(request.split), request.sequence);
  if (inspection.layer >= 0) text += fmt::format(", layer {}", inspection.layer);
  if (request.head) text += fmt::format(", head {}", *request.head);
  return text;
}

/// Refuses a folder that cannot be made, or that holds somebody else's README.txt.
void check_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    throw UsageError(fmt::format("--out {}: it exists and is not a folder", folder.string()));
  for (fs::path at = fs::absolute(folder).lexically_normal(); at.has_relative_path(); at = at.parent_path())
    if (fs::exists(at / "store.json", error))
      throw UsageError(
          fmt::format("--out {}: {} is a store, which holds nothing but runs; name another folder",
                      folder.string(), at.string()));
  const fs::path readme = folder / "README.txt";
  if (!fs::exists(readme, error)) return;
  std::string line;
  std::ifstream file(readme);
  std::getline(file, line);
  if (line != kFirstLine)
    throw UsageError(
        fmt::format("--out {}: it holds a README.txt of something else; name a new folder", folder.string()));
}

std::string readme_text(const Inspection& inspection, const Record& record, const std::string& sequence) {
  std::string text = fmt::format(
      "{}\n\nrun {}, {}\n\nArrays: numpy.load(\"NAME.npy\"); calculated in float64. T tokens, M writes, Q "
      "queries, H heads,\nd and K numbers of a key before and after phi, V values.\n\n",
      kFirstLine, name_of(record), sequence);
  for (const InspectArray& array : inspection.arrays)
    text += fmt::format("{:<18} {:<15} [{}]\n                   {}\n", array.name, array.shape,
                        fmt::join(array.dims, ","), array.meaning);
  return text + "\nConfiguration of the run:\n" + record.config.object().dump(2) + "\n";
}

void write_arrays(const fs::path& folder, const Inspection& inspection) {
  for (const InspectArray& array : inspection.arrays) {
    const std::string path = (folder / (array.name + ".npy")).string();
    if (array.integers)
      write_npy(path, NpyArray<std::int64_t>{array.dims, {array.data.begin(), array.data.end()}});
    else
      write_npy(path, NpyArray<double>{array.dims, array.data});
  }
}

/// Arrays of an earlier look that this one does not write would be taken for its own.
void remove_older(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored))
    if (file.path().extension() == ".npy") fs::remove(file.path(), ignored);
}

int run_inspect(const Arguments& arguments, Console& console) {
  const std::string& name = arguments.positional.at(0);
  Target target = find_target(name, arguments);
  const Record record = chosen_run(name, target.store, arguments, console);
  InspectRequest request;
  request.sequence = static_cast<std::uint64_t>(arguments.integer("sequence", 0, 0));
  request.positions = positions_of(arguments.get("positions"));
  const std::string split = arguments.get("split", "test");
  for (const Split candidate : {Split::train, Split::eval, Split::test})
    if (split == split_name(candidate)) request.split = candidate;
  choose_layer(arguments, record, request);
  const fs::path folder = arguments.get("out", "inside");
  check_folder(folder);

  Inspection inspection;
  try {
    const fs::path file = weights_path(target.store, record.id);
    const Weights weights = weights_from_npz(read_weights(file), file.string());
    check_run(weights, record.id, file.string());
    inspection = inspect(run_of(record).config, weights, request);
  } catch (const std::out_of_range& error) {
    throw UsageError(error.what());
  } catch (const StoreError&) {
    throw;
  } catch (const OptionError& error) {
    throw UsageError(fmt::format("run {}: {}", name_of(record), error.what()));
  } catch (const std::runtime_error& error) {
    throw UsageError(fmt::format("run {}: {}", name_of(record), error.what()));
  }

  const std::string sequence = place_of(request, inspection);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UsageError(fmt::format("--out {}: {}", folder.string(), error.message()));
  remove_older(folder);
  std::ostringstream notes;
  try {
    std::ofstream readme(folder / "README.txt", std::ios::trunc);
    readme << readme_text(inspection, record, sequence);
    readme.close();
    if (!readme) throw std::runtime_error(fmt::format("{}: README.txt cannot be written", folder.string()));
    write_arrays(folder, inspection);
    console.out << (folder / "README.txt").string() << "\n";
    if (arguments.get("figures", "on") == "on") {
      InspectedArrays arrays;
      arrays.title =
          arguments.get("title", fmt::format("{}, seed {}, {}", record.label, record.seed, sequence));
      if (arguments.has("no-title")) arrays.title.clear();
      for (const InspectArray& array : inspection.arrays) arrays.names.push_back(array.name);
      arrays.tokens = inspection.token_names;
      arrays.gates = inspection.gates;
      arrays.width = arguments.number("width", arrays.width, 1);
      for (const fs::path& path : draw_inspection(folder, arrays, notes))
        console.out << path.string() << "\n";
    }
  } catch (const FigureWriteError& problem) {
    throw StoreError(fmt::format("inspect: {}", problem.what()));
  } catch (const std::runtime_error& problem) {
    throw UsageError(fmt::format("inspect: {}", problem.what()));
  }
  const std::string text = notes.str();
  if (!text.empty()) print_plain(console, text.substr(0, text.find_last_not_of('\n') + 1));
  return exit_done;
}

}  // namespace

extern const Command inspect_command = {
    "inspect",
    "look inside a trained memory: keys, gates, read weights, states",
    "STORE|STUDY.toml [--run ID] [--where KEY=VALUE]... [--layer N] [--head N]\n"
    "                  [--sequence N] [--out DIR]",
    "Reads the weights of a run (train.keep_weights = true), gives the memory one sequence of its\n"
    "task, and writes what happens inside as .npy files, with a README.txt that says what each is,\n"
    "and figures: read weights beside the tokens, overlap of keys, singular values and effective\n"
    "rank of the state, histograms of gates and half-lives. Each figure is a script of its own,\n"
    "yours to edit. Prints the paths.\n\n"
    "Files, as far as the memory has them:\n" +
        inspect_reference() +
        "\nOf a language model these are arrays of one layer, which reads at every token: where the memory\n"
        "makes an array, its Q is T. --layer and --head choose; README.txt in the folder has the shapes.\n"
        "Memories without weights over tokens (fwm) have no read_weights; those without a state\n"
        "(softmax) no state and no singular values.\n\n"
        "Examples:\n"
        "  crosstalk run mine.toml --set train.keep_weights=true\n"
        "  crosstalk inspect runs/mine --where label=delta --where seed=1 --out inside\n"
        "  crosstalk inspect runs/mine --run ct-3f2a --sequence 5 --positions 1,8,16 --width 5.5\n"
        "  crosstalk inspect runs/mqar --where label=attention --where seed=1 --layer 1 --head all\n"
        "  python3 -c 'import numpy; print(numpy.load(\"inside/read_weights.npy\").shape)'\n",
    1,
    1,
    "needs a store, for example: crosstalk inspect runs/mine --where label=delta",
    {
        {"run", "ID", "The run; the beginning of its id is enough"},
        where_option(),
        store_option(),
        study_options()[0],
        {"sequence,n", "N", "Number of the sequence in its split (default 0)"},
        {"split", "SPLIT", "test (default), eval or train", false, {"train", "eval", "test"}},
        {"layer", "N", "Layer of a language model, from 0 (default: the first with a memory)"},
        {"head", "N|all", "Head, from 0 (default: all; of a language model 0)"},
        {"positions", "N,N", "Tokens after which states are written (default: the last)"},
        {"out,o", "DIR", "Folder to write to (default ./inside)"},
        {"figures", "on|off", "Draw figures (default on)", false, {"on", "off"}},
        {"width", "INCHES", "Width of the figures (default 3.25)"},
        {"title", "TEXT", "Title of the figures (default: label, seed, sequence)"},
        {"no-title", "", "No title"},
    },
    run_inspect,
};

}  // namespace crosstalk::program
