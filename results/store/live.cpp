// SPDX-License-Identifier: Apache-2.0
#include "results/store/live.h"

#include <fcntl.h>

#include <cmath>
#include <vector>

#include "results/json_bounds.h"
#include "results/store/process_identity.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = std::size_t{256} << 20;  // of a file

std::vector<fs::path> files_in(const fs::path& store) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(store / "live", error); !error && at != fs::directory_iterator();
       at.increment(error))
    if (at->path().extension() == ".jsonl") files.push_back(at->path());
  return files;
}

/// The lines of a file whose process lives, or may live elsewhere; `dead` is told of others. What is no object is left out.
template <class Line, class Dead>
void read_lines(const fs::path& path, const Line& line, const Dead& dead) {
  std::string text;
  try {
    text = read_file(FileSystem::real(), path, kLongest);
  } catch (const StoreError&) {  // it is gone, or nobody's
    return;
  }
  bool first = true;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string_view bytes = std::string_view(text).substr(at, end - at);
    const nlohmann::json json = nests_deeply(bytes) ? nullptr : nlohmann::json::parse(bytes, nullptr, false);
    if (!json.is_object()) return;
    if (first) {
      const auto process = json.contains("process") ? process_identity(json["process"]) : std::nullopt;
      if (!process) return;
      if (pulse_of(*process, this_process()) == Pulse::dead) return dead();
      first = false;
      continue;
    }
    line(json);
  }
}

}  // namespace

LiveWriter::~LiveWriter() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove(path_, ignored);
  fs::remove(path_.parent_path(), ignored);  // where it is empty
}

void LiveWriter::add(const std::string& id, const LiveRun& run, double now) {
  const auto [last, is_new] = written_.try_emplace(id, now);
  if (failed_ || (!is_new && now - last->second < 1)) return;
  last->second = now;
  FileSystem& system = FileSystem::real();
  std::string text;
  if (path_.empty()) {
    std::error_code ignored;
    for (const fs::path& path : files_in(store_))
      read_lines(
          path, [](const nlohmann::json&) {}, [&] { fs::remove(path, ignored); });
    fs::create_directory(store_ / "live", ignored);  // not where the store was moved or deleted
    path_ = store_ / "live" / (process_name() + ".jsonl");
    file_ = open_file(system, path_, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
    text = nlohmann::json{{"process", to_json(this_process())}}.dump() + "\n";
  }
  nlohmann::json line = {{"id", id}, {"label", run.label}, {"seed", run.seed}, {"max_steps", run.max_steps}};
  for (const auto& [name, series] : run.curves) {
    line["step"] = series.x.back();
    line[name] = series.y.back();
  }
  text += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  failed_ = !file_.is_open() || write_all(system, file_, text) != 0;
}

std::map<std::string, LiveRun> live_runs(const fs::path& store) {
  std::map<std::string, LiveRun> runs;
  for (const fs::path& path : files_in(store))
    read_lines(
        path,
        [&](const nlohmann::json& line) {
          const auto id = line.find("id"), label = line.find("label");
          const double step = said(line, "step", std::nan(""));
          if (id == line.end() || !id->is_string() || label == line.end() || !label->is_string() ||
              std::isnan(step))
            return;
          LiveRun& run = runs[id->get<std::string>()];
          run.label = label->get<std::string>();
          const double seed = said(line, "seed", std::nan("")), most = said(line, "max_steps", std::nan(""));
          if (std::abs(seed) < 9e15) run.seed = static_cast<std::int64_t>(seed);
          if (std::abs(most) < 9e15) run.max_steps = static_cast<std::int64_t>(most);
          for (const char* name : {"eval_loss", "eval_accuracy", "train_loss"}) {
            const double value = said(line, name, std::nan(""));
            if (std::isnan(value)) continue;
            run.curves[name].x.push_back(step);
            run.curves[name].y.push_back(value);
          }
        },
        [] {});
  return runs;
}

}  // namespace crosstalk
