// crosstalk status: what a store holds. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "experiments/program/exit_codes.h"
#include "experiments/program/stores.h"
#include "experiments/program/text.h"
#include "results/printable.h"

namespace crosstalk::program {
namespace {

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

/// By label: in the study's order where there is one, else as the records come.
Counts count(const Target& target, const StoreContents& contents) {
  Counter counter;
  Counts& counts = counter.counts;
  if (target.study) {
    for (const Run& run : target.study->runs)
      for (const std::string& label : run.labels) counter.add(label, state_of(run, contents));
  } else {
    for (const auto& [key, record] : all_rows(contents.records, read_asked(target.store)).rows)
      counter.add(record.label, to_text(record.status));
    std::sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return counts;
}

/// Records that the study does not ask for (any more).
std::int64_t count_others(const Target& target, const StoreContents& contents) {
  if (!target.study) return 0;
  std::set<std::string> ids;
  for (const Run& run : target.study->runs) ids.insert(run.id);
  return std::count_if(contents.records.begin(), contents.records.end(),
                       [&](const auto& entry) { return ids.count(entry.first) == 0; });
}

std::string finished_at(const Record& record) {
  return record.provenance.is_object() ? record.provenance.value("finished", std::string()) : std::string();
}

const Record* last_record(const StoreContents& contents) {
  const Record* last = nullptr;
  for (const auto& [id, record] : contents.records)
    if (last == nullptr || finished_at(record) > finished_at(*last)) last = &record;
  return last;
}

nlohmann::ordered_json to_json(const StateCounts& n) {
  return {{"done", n.done}, {"diverged", n.diverged}, {"failed", n.failed}, {"missing", n.missing}};
}

int run_status(const Arguments& arguments, Console& console) {
  const std::string& name = arguments.positional.at(0);
  Target target = find_target(name, arguments);
  if (arguments.has("out")) target.store = arguments.get("out");
  const StoreContents contents =
      target.study ? load_store(target.store, console) : load_target(target, name, console);
  const Counts counts = count(target, contents);
  const std::int64_t others = count_others(target, contents);
  StateCounts total;  // a run under two labels counts once
  if (target.study) {
    for (const Run& run : target.study->runs) total.add(state_of(run, contents));
  } else {
    for (const auto& [id, record] : contents.records) total.add(to_text(record.status));
  }
  const Record* last = last_record(contents);

  if (arguments.has("json")) {
    nlohmann::ordered_json json = {{"store", target.store.string()}};
    if (target.study) json["study"] = target.study->name;
    json["count"] = total.total();
    json["states"] = to_json(total);
    json["labels"] = nlohmann::ordered_json::object();
    // Labels are unique; json[label] would look through all of them each time.
    auto& labels = json["labels"].get_ref<nlohmann::ordered_json::object_t&>();
    for (const auto& [label, n] : counts) labels.push_back({label, to_json(n)});
    json["others"] = others;
    json["bad_lines"] = contents.bad_lines;
    json["torn_tails"] = contents.torn_tails;
    json["duplicates"] = contents.duplicates;
    json["conflicts"] = contents.conflicts;
    json["last"] = nullptr;
    if (last != nullptr)
      json["last"] = {{"id", last->id},
                      {"label", last->label},
                      {"status", to_text(last->status)},
                      {"eval_loss", last->eval_loss},
                      {"finished", finished_at(*last)}};
    console.out << dump(json);
    return exit_done;
  }

  std::vector<std::vector<std::string>> cells = {{"label", "runs", "done", "diverged", "failed"}};
  if (target.study) cells[0].push_back("missing");
  const auto row = [&](const std::string& label, const StateCounts& n) {
    cells.push_back({label, fmt::format("{}", n.total()), fmt::format("{}", n.done),
                     fmt::format("{}", n.diverged), fmt::format("{}", n.failed)});
    if (target.study) cells.back().push_back(fmt::format("{}", n.missing));
  };
  for (const auto& [label, n] : counts) row(label, n);
  if (counts.size() != 1) row("total", total);
  console.out << "store: " << target.store.string() << "\n\n" << table(cells) << "\n";
  if (others > 0)
    console.out << fmt::format("{} more in the store that this study does not ask for\n",
                               plural(others, "run"));
  if (contents.bad_lines > 0 || contents.torn_tails > 0)
    console.out << fmt::format("left out: {}, {} (the next run trains them again)\n",
                               plural(static_cast<std::int64_t>(contents.bad_lines), "damaged line"),
                               plural(static_cast<std::int64_t>(contents.torn_tails), "torn last line"));
  if (last != nullptr)
    console.out << fmt::format("last: {} {} ({}), eval loss {:.6g}, {}\n", printable_line(finished_at(*last)),
                               printable_line(last->label), printable_line(last->id), last->eval_loss,
                               to_text(last->status));
  return exit_done;
}

}  // namespace

extern const Command status_command;
const Command status_command = {
    "status",
    "count what is done, failed and missing",
    "STUDY.toml|STORE [--out STORE] [--json]",
    "Of a study: how many runs of each label are done, diverged, failed and missing in its store.\n"
    "Of a store: what it holds. Reads only, also while a run is writing.\n\n"
    "Examples:\n"
    "  crosstalk status experiments/quickstart.toml\n"
    "  crosstalk status runs/quickstart --json | jq .states\n",
    1,
    1,
    "needs a study file or a store, for example: crosstalk status runs/quickstart",
    [] {
      std::vector<CommandOption> options = study_options();
      options.push_back({"out,o", "STORE", "The study's store (default ./runs/<study>)", false, {}});
      options.push_back({"json", "", "Print JSON: store, count, states, labels, last", false, {}});
      return options;
    }(),
    run_status,
};

}  // namespace crosstalk::program
