// crosstalk export: results as tables.
// SPDX-License-Identifier: Apache-2.0
#include "results/export.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/endings.h"
#include "experiments/program/row_stream.h"
#include "experiments/sharing/signals.h"
#include "results/asked.h"
#include "results/store/files.h"
#include "results/store/live.h"
#include "results/store/store.h"
#include "results/tensorboard.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

ExportFormat format_of(const Arguments& arguments) {
  const std::string format =
      format_of(arguments, {{".csv", "csv"}, {".jsonl", "jsonl"}, {".ndjson", "jsonl"}}, "csv",
                "exports are CSV (.csv) or JSON lines (.jsonl), not {}; name one of these, or say --format");
  return format == "csv" ? ExportFormat::csv : ExportFormat::jsonl;
}

/// A name of a folder.
std::string folder_name(const std::string& label) {
  std::string name = label.substr(0, 100);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string("._-").find(c) == std::string::npos)
      c = '_';
  return name.empty() || name.front() == '.' ? "_" + name : name;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Writes the curves of all runs of a store as TensorBoard reads them, and those of the runs that train as they grow, until
/// everything that was asked of the store is recorded or a signal comes.
int follow(const Arguments& arguments, Console& console) {
  for (const char* other : {"format", "curves", "provenance", "where"})
    if (arguments.has(other))
      throw UsageError(fmt::format("export: --follow and --{} exclude each other", other));
  if (!arguments.has("out") || arguments.positional.size() != 1)
    throw UsageError(
        "export: --follow tensorboard takes one store or study, and --out FOLDER for 'tensorboard --logdir FOLDER'");
  const fs::path store = find_target(arguments.positional[0], arguments).store, out = arguments.get("out");
  std::error_code error;
  if (fs::exists(out, error) && !fs::is_directory(out, error))
    throw UsageError(fmt::format("--out {}: is a file; event files want a folder", out.string()));
  catch_stop_signals();
  std::map<std::string, EventFile> files;
  const auto add = [&](const std::string& id, const std::string& label, std::int64_t seed,
                       const std::map<std::string, Series>& curves) {
    const double now = seconds_since_1970();
    auto file = files.find(id);
    if (file == files.end())
      file = files
                 .try_emplace(
                     id, out / folder_name(label) / fmt::format("seed_{}_{}", seed, id.substr(0, 11)), now)
                 .first;
    file->second.add(curves, now);
  };
  std::set<std::string> recorded;
  for (;;) {
    const std::map<std::string, LiveRun> training =
        live_runs(store);  // before the records: none falls between the two
    const StoreHeads heads = read_heads(store);
    RecordReader reader(heads);
    for (const auto& [id, head] : heads.contents.records) {
      if (!recorded.insert(id).second) continue;
      const Record record = reader.record(id);
      add(id, record.label, record.seed, record.curves);
      files.erase(id);  // closes it
    }
    for (const auto& [id, run] : training)
      if (recorded.count(id) == 0) add(id, run.label, run.seed, run.curves);
    const std::vector<Asked> asked = read_asked(store);
    std::set<std::string> studies;  // of each its latest version, which comes first
    const bool missing = std::ranges::any_of(asked, [&](const Asked& version) {
      return studies.insert(version.study).second &&
             std::ranges::any_of(version.labels, [&](const AskedLabel& label) {
               return std::ranges::any_of(label.runs,
                                          [&](const std::string& id) { return recorded.count(id) == 0; });
             });
    });
    for (int i = 0; missing && i < 20 && !stop_flag(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (!missing || stop_flag()) break;
  }
  console.out << out.string() << "\n";
  return exit_done;
}

int run_export(const Arguments& arguments, Console& console) {
  if (arguments.has("follow")) return follow(arguments, console);
  const ExportFormat format = format_of(arguments);
  if (arguments.has("curves") && arguments.has("provenance"))
    throw UsageError("export: --curves and --provenance exclude each other; curves have no such columns");
  RowStream rows(arguments.positional, arguments, console);
  if (rows.empty())
    print_note(console, fmt::format("no records in {}", places_of(arguments.positional, arguments)));
  const bool provenance = arguments.has("provenance");
  const auto write = [&](std::ostream& out) {
    if (arguments.has("curves"))
      stream_curves(out, rows.source(RowStream::Part::all), format);
    else
      stream_runs(
          out, rows.source(provenance ? RowStream::Part::results_and_provenance : RowStream::Part::results),
          format, provenance);
  };
  if (!arguments.has("out")) {
    write(console.out);
    return exit_done;
  }
  const fs::path path = arguments.get("out");
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  // Pipes and devices are written as they are; a file appears whole or not at all.
  const bool plain = !fs::exists(there) || fs::is_regular_file(there);
  const fs::path target = plain ? fs::path(fmt::format("{}.{}.tmp", path.string(), ::getpid())) : path;
  if (plain) fs::remove(target, error);  // of a process that was killed
  File file = open_file(FileSystem::real(), target, O_WRONLY | (plain ? O_CREAT | O_EXCL : 0));
  int reason = file.is_open() ? 0 : errno;
  if (reason != 0 && reason != ENOSPC && reason != EDQUOT && reason != EIO)
    throw UsageError(fmt::format("--out {}: cannot be written: {}", path.string(), reason_of(reason)));
  if (reason == 0) {
    DescriptorBuffer buffer(file.number());
    std::ostream out(&buffer);
    try {
      write(out);
    } catch (...) {
      if (plain) fs::remove(target, error);
      throw;
    }
    out.flush();
    reason = buffer.error();
    // Some file systems tell only then that there is no room.
    if (reason == 0 && plain && FileSystem::real().fsync(file.number()) != 0) reason = errno;
  }
  file.close();
  const fs::path place = fs::is_symlink(path, error) ? fs::canonical(path, error) : path;
  if (reason == 0 && plain && FileSystem::real().rename(target.string(), place.string()) != 0) reason = errno;
  if (reason == 0) {
    if (plain) console.out << path.string() << "\n";  // what a pipe's reader gets is the export alone
    return exit_done;
  }
  if (plain) fs::remove(target, error);
  throw StoreError(fmt::format("{}: could not be written whole{}: {}", path.string(),
                               plain ? ", and is as it was" : "", reason_of(reason)));
}

}  // namespace

extern const Command export_command = {
    "export",
    "write results as CSV or JSON lines",
    "STORE|STUDY.toml|RUNS.csv... [--where KEY=VALUE]... [--format csv|jsonl] [--out FILE] [OPTIONS]",
    "Writes one row a run, sorted by id: id, study, label, status, seed, every key of the configuration\n"
    "by its dotted name, d_dot, state_size, steps, losses, accuracy, the task's baselines. These columns\n"
    "are equal wherever and whenever a study is run, so that exports can be compared byte by byte;\n"
    "--provenance adds host, device, times and commit. A damaged store gives its good rows and says on\n"
    "stderr what was left out.\n"
    "\n"
    "A study exports the runs that it asks for, under its labels (a run that two labels name has a row\n"
    "under each). A store exports all of its runs, with a column study_version if they belong to\n"
    "several versions of a study.\n\n"
    "--follow tensorboard writes an event file a run, LABEL/seed_N_ID, and goes on until all that was asked of the store\n"
    "is recorded: of runs that train a point a second at most, of records all points that come after those.\n\n"
    "Examples:\n"
    "  crosstalk export runs/quickstart > runs.csv\n"
    "  crosstalk export runs/quickstart --curves --out curves.csv\n"
    "  crosstalk export runs/quickstart --follow tensorboard --out events\n"
    "  crosstalk export runs/a runs/b --where label='dpfp*' --where task.associations=40,60\n"
    "  crosstalk export runs/quickstart --format jsonl | jq -r '[.label, .eval_loss] | @tsv'\n"
    "  python3 -c 'import pandas; print(pandas.read_csv(\"runs.csv\").groupby(\"label\").eval_loss.median())'\n",
    1,
    -1,
    "needs a store, for example: crosstalk export runs/quickstart",
    {
        choice_of("format", "FORMAT", "csv or jsonl (default: as FILE ends, else csv)", {"csv", "jsonl"}),
        {"out,o", "FILE", "Write there instead of stdout, and print the path"},
        choice_of(
            "follow", "WHAT",
            "tensorboard: write event files of all learning curves into the folder --out, also while runs train",
            {"tensorboard"}),
        {"curves", "", "Learning curves instead: id, step, metric, value"},
        {"provenance", "", "Add where, when and by what each run was made"},
        where_option(),
        store_option(),
        study_options()[0],
    },
    run_export,
};

}  // namespace crosstalk::program
