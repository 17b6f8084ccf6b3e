// Options of the layers of authors (Memory::published), for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "models/mixers/language_options.h"
#include "models/testing/language.h"

namespace crosstalk::checks {

inline constexpr std::int64_t kLayerWidth = 64;

/// The options of the layer at width 64 with 2 heads, as resolve_run makes them.
inline Options published_options(const Memory& kind, const Settings& more = {}) {
  Options options;
  options.set("memory.name", kind.name);
  options.set("model.name", "language");
  options.set("model.width", kLayerWidth);
  options.set("model.layers", 1);
  options.set("model.heads", 2);
  options.set("model.layer", "published");
  for (const auto& [key, value] : kind.published.set) options.set(key, value);
  for (const auto& [key, value] : more) options.set(key, value);
  fill_defaults(options, "model", model_options());
  fill_defaults(options, "memory", kind.options);
  publish(options, kind, {});
  resolve_model(options, language_shape().vocabulary());
  return resolved(kind, options);
}

}  // namespace crosstalk::checks
