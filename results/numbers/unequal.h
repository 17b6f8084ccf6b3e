// What labels differ in besides what a study sweeps: task, training, options of memory and layer, defaults included, which a
// comparison of them compares too.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "results/numbers/select.h"

namespace crosstalk {

/// Gathers the resolved values of options by label.
class UnequalOptions {
 public:
  /// An option of a label at one of its runs; keys other than task.*, train.*, memory.* and model.*, and such as name the
  /// memory (its
  /// file), follow from others or change no result (memory.form), are passed over.
  void add(const std::string& label, const std::string& key, const std::string& value);
  void add(const Record& record);

  /// "feature_map: silu (DeltaNet), identity (KDA); key_norm: ..." of the first `most` keys, and how many more there are; ""
  /// where labels differ in none; of laws, how many. A key of several values within a label is swept, and passed over, and so are `swept`;
  /// one that a single label has is its own. `name`: of a label.
  std::string text(const std::function<std::string(const std::string& label)>& name, std::size_t most,
                   const std::vector<std::string>& swept = {}) const;

 private:
  std::map<std::string, std::map<std::string, std::set<std::string>>> values_;  ///< by key and label
  std::map<std::string, bool> labels_;                                          ///< whether PyTorch's
  std::map<std::string, std::vector<Configuration::Entry>> last_;               ///< the label's record before
};

/// "Labels differ in feature_map: silu (DeltaNet), identity (KDA)." of records; "" where they do not.
std::string unequal_text(const RecordList& records,
                         const std::function<std::string(const std::string& label)>& name, std::size_t most,
                         const std::vector<std::string>& swept = {});

}  // namespace crosstalk
