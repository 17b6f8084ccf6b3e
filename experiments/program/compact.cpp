// crosstalk compact: one shard instead of many.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/compact.h"

#include <fmt/format.h>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

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

}  // namespace

extern const Command compact_command = {
    "compact",
    "merge the shards of a store into one file",
    "STORE",
    "A store has a file for each process that trained into it. This merges those whose processes are\n"
    "gone: of each run the record that counts, as it is. Exports do not change. It may be killed at\n"
    "any moment, and workers may train at the same time.\n\n"
    "Examples:\n"
    "  crosstalk compact runs/quickstart\n",
    1,
    1,
    "needs a store, for example: crosstalk compact runs/quickstart",
    {},
    run_compact,
};

}  // namespace crosstalk::program
