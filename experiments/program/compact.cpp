// crosstalk compact: one shard instead of many.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/compact.h"

#include <fmt/format.h>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "results/store/store.h"

namespace crosstalk::program {
int run_compact(const Arguments& arguments, Console& console) {
  const std::filesystem::path store = arguments.positional.at(0);
  std::error_code ignored;
  if (!std::filesystem::exists(store / "store.json", ignored))
    throw StorePathError(fmt::format("'{}' is not a store: it has no store.json", store.string()));
  const Compacted done = compact_store(store);
  print_note(console,
             fmt::format("{}: {} of {}, {} dropped{}", store.string(),
                         plural(static_cast<std::int64_t>(done.records), "record"),
                         plural(static_cast<std::int64_t>(done.shards), "shard"), done.dropped,
                         done.busy > 0 ? fmt::format("; {} left alone, their writers live",
                                                     plural(static_cast<std::int64_t>(done.busy), "shard"))
                                       : ""));
  return exit_done;
}

}  // namespace crosstalk::program
