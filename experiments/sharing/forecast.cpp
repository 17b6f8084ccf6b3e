// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "experiments/common/text.h"
#include "experiments/study/schema.h"
#include "experiments/training/pack.h"

namespace crosstalk::program {
namespace {

constexpr std::size_t most_records = 1000;  // a look at them must not take long

/// Seconds since 1970 of "2026-11-22T11:43:33Z"; NaN if it is none.
double utc_seconds(const std::string& utc) {
  std::tm parts = {};
  const char* end = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end != nullptr && *end == '\0' ? static_cast<double>(::timegm(&parts)) : std::nan("");
}

std::string text_in(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

/// Work of one process from its start to its last record.
struct Sitting {
  double begin = 0, end = 0, cost = 0;
  std::int64_t runs = 0;
};

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); }

}  // namespace

TimeForecast time_forecast(const std::vector<Run>& runs, const StoreHeads& heads) {
  double missing = 0;
  std::map<std::tuple<std::string, std::string, std::string>, Sitting> sittings;
  RecordReader reader(heads);
  std::size_t read = 0;
  for (const Run& run : runs) {
    if (heads.contents.records.count(run.id) == 0) {
      missing += estimated_work(run);
      continue;
    }
    if (read == most_records || heads.places.count(run.id) == 0) continue;
    ++read;
    const nlohmann::json provenance = reader.record(run.id).provenance;
    if (!provenance.is_object()) continue;
    const std::string started = text_in(provenance, "started");
    const double begin = utc_seconds(started), end = utc_seconds(text_in(provenance, "finished"));
    if (!(end >= begin)) continue;
    Sitting& one = sittings[{text_in(provenance, "device"), text_in(provenance, "host"), started}];
    one = {begin, std::max(one.end, end), one.cost + estimated_work(run), one.runs + 1};
  }
  if (missing == 0) return {0, "none"};
  double cost = 0, elapsed = 0;
  std::int64_t count = 0;
  std::set<std::string> places;
  for (const auto& [key, one] : sittings) {
    cost += one.cost, elapsed += one.end - one.begin, count += one.runs;
    places.insert(fmt::format("{} of {}", std::get<0>(key), std::get<1>(key)));
  }
  if (elapsed < 2)
    return {std::nullopt,
            "not known: too little of it is in the store ('crosstalk bench STUDY' measures a step)"};
  const double seconds = missing / cost * elapsed;
  return {seconds,
          fmt::format("about {} for one process, at the rate of {} on {}", duration(seconds),
                      plural(count, "earlier run"), join({places.begin(), places.end()}, ", ", " and ")),
          "", [each = elapsed / cost](const std::vector<const Run*>& some) {
            double all = 0;
            for (const Run* run : some) all += each * estimated_work(*run);
            return all;
          }};
}

double parameter_bytes(const Run& run) {
  const Options& config = run.config;
  const TaskSizes sizes = default_schema().find_task(config.get_string("task.name"))->sizes(config);
  const auto keys = static_cast<double>(sizes.vocabulary.keys),
             values = static_cast<double>(sizes.vocabulary.values),
             embedding = static_cast<double>(config.get_int("model.embedding")),
             d_key = static_cast<double>(config.get_int("model.d_key"));
  const double parameters =
      config.get_string("model.name") == "language"
          ? language_weights(config) +
                sizes.vocabulary.tokens * static_cast<double>(config.get_int("model.width"))
          : keys * embedding + (2 * embedding + values) * d_key;
  return 4 * parameters * (config.get_string("train.precision") == "fp64" ? 8 : 4);
}

std::string memory_shortage(const std::vector<const Run*>& runs, std::uint64_t available) {
  const Run* largest = nullptr;
  double most = 0;
  std::int64_t too_large = 0;
  for (const Run* run : runs) {
    const double bytes = parameter_bytes(*run);
    too_large += bytes > static_cast<double>(available);
    if (bytes > most) most = bytes, largest = run;
  }
  if (too_large == 0) return "";
  return fmt::format(
      "{} cannot be trained here: the parameters of {} (seed {}) need {} at least, there are {}; a smaller "
      "task.keys, task.values or model.embedding needs less",
      plural(too_large, "run"), largest->label, largest->seed, gigabytes(most),
      gigabytes(static_cast<double>(available)));
}

std::uint64_t available_memory() {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::ifstream machine("/proc/meminfo");
  for (std::string key, unit; machine >> key;) {
    std::uint64_t number = 0;
    if (!(machine >> number)) break;
    std::getline(machine, unit);
    if (key == "MemAvailable:") least = std::min(least, number * 1024);
  }
  std::uint64_t limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit)
    least = std::min(least, limit);  // "max": no number
  return least;
}

}  // namespace crosstalk::program
