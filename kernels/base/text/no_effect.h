// An option that was set and changes nothing: one training would count as several. Whoever reads a study finds by it that a default,
// written out, has no effect either.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/error.h"
#include "kernels/base/text/options.h"

namespace crosstalk {

struct NoEffect : OptionError {
  using OptionError::OptionError;
  /// "train.x has no effect WHY; INSTEAD, or leave train.x out"
  NoEffect(const std::string& key_, const std::string& why, const std::string& instead)
      : OptionError(key_, key_ + " has no effect " + why + "; " + instead + ", or leave " + key_ + " out") {}
};

/// Whether an option of `specs` stands at its default, or is not there.
inline bool is_default(const Options& options, const std::string& prefix,
                       const std::vector<OptionSpec>& specs, const std::string& name) {
  const std::string key = prefix + "." + name;
  if (!options.has(key)) return true;
  for (const OptionSpec& spec : specs)
    if (spec.name == name) return options.at(key) == spec.default_value;
  return true;
}

/// Refuses an option away from its default.
inline void refuse_without_effect(const Options& options, const std::string& prefix,
                                  const std::vector<OptionSpec>& specs, const std::string& name,
                                  const std::string& why, const std::string& instead) {
  if (!is_default(options, prefix, specs, name)) throw NoEffect(prefix + "." + name, why, instead);
}

}  // namespace crosstalk
