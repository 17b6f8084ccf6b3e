// What must hold of the readers of claims for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "results/store/claim_files.h"

namespace crosstalk {

/// Aborts where a reader breaks its promise: it never throws, and no name leads out of the folder. `bytes` are a worker's
/// file, and a name.
inline void check_claim_readers(std::string_view bytes) {
  const std::string name(bytes);
  const std::filesystem::path folder = "store/claims", file = folder / name;
  if (is_worker_name(name) &&
      (file.parent_path() != folder || file.lexically_normal() != file || file.filename() != name))
    std::abort();
  if (process_of(name).size() > name.size()) std::abort();
  if (const auto worker = worker_of_text(bytes, "w");
      worker && (worker->name != "w" || !worker->activity.is_object()))
    std::abort();
}

}  // namespace crosstalk
