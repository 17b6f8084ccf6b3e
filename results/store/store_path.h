// Whether a path is a store, can become one, or cannot.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>

#include "results/store/file_system.h"

namespace crosstalk {

/// Version of the store's layout, "format" in store.json.
inline constexpr int store_format = 1;

/// What store.json says. `damaged`: it is there but cannot be understood.
enum class StoreMark { missing, damaged, good };

/// Looks at store.json. Throws StorePathError where a newer program wrote it.
StoreMark read_mark(FileSystem& system, const std::filesystem::path& store);

/// The same of its text; `path` is for the message.
StoreMark mark_of(const std::string& text, const std::string& path);

/// The text of store.json.
const char* mark_text();

}  // namespace crosstalk
