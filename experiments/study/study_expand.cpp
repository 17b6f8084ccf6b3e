// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/study_expand.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "experiments/study/study_idle.h"
#include "kernels/base/error.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();

constexpr std::size_t kTerms = 20;  // of a product that is spelled out

std::int64_t times(std::int64_t a, std::int64_t b) { return b != 0 && a > kMany / b ? kMany : a * b; }
std::int64_t plus(std::int64_t a, std::int64_t b) { return a > kMany - b ? kMany : a + b; }
std::string count_text(std::int64_t count) {
  return count == kMany ? "more than 10^18" : fmt::format("{}", count);
}

std::int64_t block_count(const Block& block, std::int64_t seeds) {
  std::int64_t count = seeds;
  for (const Axis& axis : block.axes) count = times(count, axis.count());
  return count;
}

/// "3 memories x 30 associations x 5 seeds"; axes of one value say nothing, but for memories and seeds.
std::string block_text(const Block& block, std::int64_t seeds) {
  std::string text;
  for (const Axis& axis : block.axes) {
    const bool memory = axis.columns.size() == 1 && axis.columns[0].key == "memory";
    if (axis.count() == 1 && !memory) continue;
    std::string name;
    for (const AxisValues& column : axis.columns) {
      if (!name.empty()) name += '+';
      name += column.key.substr(column.key.find('.') + 1);
    }
    if (memory) name = axis.count() == 1 ? "memory" : "memories";
    text += fmt::format("{} {} x ", count_text(axis.count()), name);
  }
  return text + fmt::format("{} {}", count_text(seeds), seeds == 1 ? "seed" : "seeds");
}

bool same_value(const OptionValue& a, const OptionValue& b) {
  if (a == b) return true;
  const auto *x = std::get_if<std::int64_t>(&a), *y = std::get_if<std::int64_t>(&b);
  const auto *u = std::get_if<double>(&a), *v = std::get_if<double>(&b);
  return (x && v && static_cast<double>(*x) == *v) || (u && y && *u == static_cast<double>(*y));
}

using Settings = std::map<std::string, Setting>;

class Expander {
 public:
  Expander(const Schema& schema, const Blame& blame, const StudyFile& file, Study& study)
      : schema_(schema), blame_(blame), file_(file), study_(study), idle_(schema, blame) {
    for (std::int64_t i = 0; i < file.seeds.count(); ++i) {
      seeds_.push_back(std::get<std::int64_t>(file.seeds.value(i).value));
    }
  }

  void block(const Block& block) {
    std::vector<std::int64_t> index(block.axes.size(), 0);
    while (true) {
      combination(block, index);
      std::size_t axis = index.size();  // the last axis of the file turns fastest
      while (axis > 0 && ++index[axis - 1] == block.axes[axis - 1].count()) index[--axis] = 0;
      if (axis == 0) return;
    }
  }

  /// Refuses options that no combination has used, and skips that left out none.
  void settle() const {
    idle_.settle();
    if (!blame_.sets.empty()) return;  // which may have taken away what they leave out
    for (const Block& block : file_.blocks)
      for (const Skip& skip : block.skips)
        if (matched_.count(&skip) == 0)
          blame_.refuse(
              {skip.at, -1},
              "no combination of this [[grid]] is as this [[grid.skip]] says, so it leaves out nothing; give it "
              "values that the grid has, or take it away");
  }

  std::int64_t skipped = 0, duplicates = 0;
  std::int64_t shared = 0;     ///< named again, by another label
  std::set<std::string> bare;  ///< added by every_memory, without a layer of their authors

 private:
  void combination(const Block& block, const std::vector<std::int64_t>& index) {
    Settings grid;
    const MemoryTable* memory = nullptr;
    for (std::size_t a = 0; a < index.size(); ++a) {
      for (const AxisValues& column : block.axes[a].columns) {
        Setting setting = column.value(index[a]);
        if (column.key == "memory") {
          memory = file_.find_memory(std::get<std::string>(setting.value));
        } else {
          grid.insert_or_assign(column.key, std::move(setting));
        }
      }
    }
    Settings settings = std::move(grid);  // insert() keeps what is there: first come, first served
    settings.insert(memory->settings.begin(), memory->settings.end());
    settings.insert(file_.base.begin(), file_.base.end());
    if (memory->added && schema_.find_memory(memory->name)->no_layer) stand_bare(settings, *memory);
    bool left_out = false;
    for (const Skip& skip : block.skips)
      if (matches(skip, settings, *memory)) left_out = true, matched_.insert(&skip);
    if (left_out) {
      skipped += static_cast<std::int64_t>(seeds_.size());
      return;
    }
    Run run;
    try {
      run = idle_.resolve(settings, *memory);
    } catch (const OptionError& error) {
      const Origin at = origin(error.key, settings, *memory, block);
      if (error.key != "memory.law") blame_.fail(at, error.what());
      return blame_.refuse(at, error.what());
    }
    run.label = memory->label;
    if (!seeds_matter(run.config, settings, block)) return;
    for (const char* key : {"seed", "data_seed", "init_seed"}) run.config.set(key, std::int64_t{0});
    std::string text = canonical_text(schema_, run.config);
    for (const std::int64_t seed : seeds_) add(run, seed, settings, text);
  }

  /// Whether something is drawn by the seeds; refuses several of them, or an axis of one, where nothing is. Dropout and
  /// random features are drawn by data_seed, as training sequences and their order are.
  bool seeds_matter(const Options& config, const Settings& settings, const Block& block) const {
    static constexpr const char *warm = "training starts from the weights of train.init_from",
                                *in_file_order = "task.order = \"file\" draws nothing";
    const auto says = [&](const char* key, const char* text) {
      return config.has(key) && config.get_string(key) == text;
    };
    const auto drops = [&](const char* key) { return config.has(key) && config.get_double(key) > 0; };
    const bool noise =
        drops("model.dropout") || drops("model.embed_dropout") || drops("model.weight_dropout") ||
        (config.has("memory.feature_map") && config.get_string("memory.feature_map").starts_with("favor")) ||
        (config.has("model.stack") && config.get_string("model.stack").find("favor") != std::string::npos);
    const bool given = config.has("train.init_digest") && !config.get_string("train.init_digest").empty();
    const auto fixed = settings.find("data_seed");
    const bool in_order = says("task.order", "file") && !noise;
    for (const Axis& axis : block.axes)
      for (const AxisValues& column : axis.columns) {
        const bool idle = (column.key == "init_seed" && given) || (column.key == "data_seed" && in_order);
        if (axis.count() < 2 || !idle) continue;
        blame_.refuse(
            column.from,
            fmt::format("{0}, so {1} values of {2} would be {1} times the same training; take one",
                        column.key == "init_seed" ? warm : in_file_order, axis.count(), column.key));
        return false;
      }
    if (seeds_.size() < 2) return true;
    const bool same_data = fixed != settings.end() || in_order,
               same_start = settings.count("init_seed") != 0 || given;
    if (!same_data || !same_start) return true;
    std::string why, instead;
    if (fixed != settings.end() && !given) {
      why = "data_seed and init_seed are both fixed", instead = "leave one of them out";
    } else {
      why = fmt::format("{}, and {}", given ? warm : "init_seed is fixed",
                        in_order ? in_file_order : "data_seed is fixed");
      instead = in_order ? "set task.order = \"shuffled\"" : "leave data_seed out";
    }
    blame_.refuse(fixed != settings.end() ? fixed->second.from : file_.seeds.from,
                  fmt::format("{}, so {} seeds would be {} times the same training; {}, or give one seed",
                              why, seeds_.size(), seeds_.size(), instead));
    return false;
  }

  /// A memory that no table names joins without model.layer = "published" where its authors have no layer.
  void stand_bare(Settings& settings, const MemoryTable& memory) {
    const auto layer = settings.find("model.layer");
    if (layer == settings.end() || layer->second.value != OptionValue{std::string("published")}) return;
    layer->second.value = std::string("bare");
    bare.insert(memory.label);
  }

  /// `text`: the canonical one of the combination; its seeds become those of this run.
  void add(Run run, std::int64_t seed, const Settings& settings, std::string& text) {
    const auto or_seed = [&](const char* key) {
      const auto it = settings.find(key);
      return it == settings.end() ? seed : std::get<std::int64_t>(it->second.value);
    };
    run.seed = seed;
    const auto set = [&](const char* key, std::int64_t value) {
      run.config.set(key, value), replace_seed(text, key, value);
    };
    set("seed", seed), set("data_seed", or_seed("data_seed")), set("init_seed", or_seed("init_seed"));
    run.id = id_of_text(text);
    const auto [known, is_new] = known_.emplace(run.id, study_.runs.size());
    idle_.named(run.id, is_new);
    if (is_new) {
      run.labels = {run.label};
      study_.runs.push_back(std::move(run));
      return;
    }
    Run& first = study_.runs[known->second];
    keep_both(first, run);
    if (run.label != first.label && shared_.emplace(known->second, run.label).second) {
      first.labels.push_back(run.label);
      ++shared;
    } else {
      ++duplicates;
    }
  }

  /// Compares what the study says, else the default, before anything is resolved: a combination may be
  /// skipped because it cannot be resolved.
  bool matches(const Skip& skip, const Settings& settings, const MemoryTable& memory) const {
    const auto task = settings.find("task.name");
    const std::string task_name = task == settings.end() ? "" : std::get<std::string>(task->second.value);
    for (const auto& [key, any] : skip.conditions) {
      const OptionSpec* spec = find_option(schema_, task_name, memory.name, key);
      const auto it = settings.find(key);
      OptionValue value;
      if (key == "memory") {
        value = memory.label;
      } else if (it != settings.end() && (spec || key == "task.name" || key.find('.') == std::string::npos)) {
        value = it->second.value;
      } else if (spec) {
        value = spec->default_value;
      } else {
        return false;
      }
      if (std::ranges::none_of(any, [&](const Setting& s) { return same_value(s.value, value); })) {
        return false;
      }
    }
    return true;
  }

  /// Where the key that makes no sense was set; failing that, where what it belongs to was chosen.
  Origin origin(const std::string& key, const Settings& settings, const MemoryTable& memory,
                const Block& block) const {
    if (const auto it = settings.find(key); it != settings.end()) return it->second.from;
    if (key.compare(0, 7, "memory.") == 0) return {memory.name_at, -1};
    if (key.compare(0, 5, "task.") == 0) {
      if (const auto it = settings.find("task.name"); it != settings.end()) return it->second.from;
    }
    return {block.at, -1};
  }

  const Schema& schema_;
  const Blame& blame_;
  const StudyFile& file_;
  Study& study_;
  IdleOptions idle_;
  std::vector<std::int64_t> seeds_;
  std::set<const Skip*> matched_;                         ///< those that left out something
  std::unordered_map<std::string, std::size_t> known_;    ///< id -> place in study_.runs
  std::set<std::pair<std::size_t, std::string>> shared_;  ///< that place, and a label beside its first
};

}  // namespace

void expand(const Schema& schema, const Blame& blame, const StudyFile& file, std::int64_t max_runs,
            Study& study) {
  const std::int64_t seeds = file.seeds.count();
  std::int64_t total = 0;
  std::string text;
  std::size_t terms = 0;
  const Block* largest = &file.blocks.front();
  for (const Block& block : file.blocks) {
    total = plus(total, block_count(block, seeds));
    if (block_count(block, seeds) > block_count(*largest, seeds)) largest = &block;
    if (++terms > kTerms) continue;
    const std::string term = block_text(block, seeds);
    text += (text.empty() ? "" : " + ") + (file.blocks.size() > 1 ? fmt::format("({})", term) : term);
  }
  if (terms > kTerms) text += fmt::format(" + ... ({} blocks in all)", terms);
  if (total > max_runs) {
    blame.fail(
        largest->at,
        fmt::format("{} = {} runs are more than {}; make the study smaller or allow more with --max-runs",
                    text, count_text(total), max_runs));
  }
  Expander expander(schema, blame, file, study);
  for (const Block& block : file.blocks) expander.block(block);
  expander.settle();
  blame.settle();
  if (study.runs.empty())
    blame.fail(file.blocks.front().at, "[[grid.skip]] leaves out every run of the study");
  if (expander.skipped > 0) text += fmt::format(" - {} skipped", expander.skipped);
  if (expander.duplicates > 0) text += fmt::format(" - {} duplicate", expander.duplicates);
  if (expander.shared > 0) text += fmt::format(" - {} shared by labels", expander.shared);
  std::string unused;
  std::set<std::string> used;
  for (const Run& run : study.runs) used.insert(run.labels.begin(), run.labels.end());
  for (const MemoryTable& memory : file.memories)
    if (used.count(memory.label) != 0)
      study.labels.push_back({memory.label, memory.title});
    else if (blame.sets.empty() && !memory.added)
      unused += fmt::format("; [memories.{}] has no run", memory.label);
  if (!expander.bare.empty())
    study.bare =
        fmt::format("; bare, for their authors' layer is not known: {}", fmt::join(expander.bare, ", "));
  study.product = fmt::format("{} = {} {}{}{}", text, study.runs.size(),
                              study.runs.size() == 1 ? "run" : "runs", study.bare, unused);
}

}  // namespace crosstalk
