// Final weights of runs, beside the shards: STORE/weights/ID.npz. Named by the run, so that stores are merged
// and copied file by file.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace crosstalk {

/// Throws StoreError for an id that is a path.
std::filesystem::path weights_path(const std::filesystem::path& store, const std::string& id);

/// Puts the weights of run `id` in place: all or nothing (temporary file, fsync, rename). The id is written into the archive too,
/// as its comment. Throws StoreError.
void save_weights(const std::filesystem::path& store, const std::string& id, std::string_view npz);

/// The runs whose final weights the store holds; those on the way are called "ID@STEP".
std::set<std::string> kept_weights(const std::filesystem::path& store);

/// The bytes of a .npz file. Throws StoreError.
std::string read_weights(const std::filesystem::path& file);

}  // namespace crosstalk
