// Options that a study gives and that change nothing. Where some combinations use one, the others stand at its default, so that one
// training has one id; one that no combination uses, or that alone tells two combinations apart, is refused.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "experiments/study/study.h"
#include "experiments/study/study_file.h"

namespace crosstalk {

class IdleOptions {
 public:
  using Settings = std::map<std::string, Setting>;

  IdleOptions(const Schema& schema, const Blame& blame) : schema_(schema), blame_(blame) {}

  /// One combination, with the options that have no effect at their defaults.
  Run resolve(const Settings& settings, const MemoryTable& memory);
  /// The combination resolved last has this id: refuses an option that alone tells it from the first that has.
  void named(const std::string& id, bool is_first);
  /// Refuses what no combination has used. What --set leaves of a study may use less than all of it.
  void settle() const;

 private:
  using Place = std::tuple<std::string, int, int, int>;  ///< key, --set, line, column
  struct Idle {
    OptionValue value;
    Origin from;
    std::string why;
  };
  static Place place(const std::string& key, const Origin& from) {
    return {key, from.set, from.at.line, from.at.column};
  }
  Run resolved(const Settings& settings, const std::string& memory);
  /// Whether another value of a default that stands there would be refused, and why.
  void try_default(const std::string& key, const OptionSpec& spec, const Settings& settings,
                   const MemoryTable& memory);

  const Schema& schema_;
  const Blame& blame_;
  std::unordered_map<std::string, Run>
      known_;  ///< resolve_model_of(), by memory and settings: rates share it
  std::set<Place> used_;
  std::map<Place, std::pair<Origin, std::string>> unused_;
  std::map<std::string, Idle> last_;  ///< away from their defaults, of the combination resolved last
  std::unordered_map<std::string, std::map<std::string, Idle>> first_;  ///< by run id, where there are some
};

}  // namespace crosstalk
