// SPDX-License-Identifier: Apache-2.0
#include "results/checkpoint.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "results/crc32c.h"
#include "results/files.h"
#include "results/store.h"

namespace crosstalk {
namespace {

std::filesystem::path file_of(const std::filesystem::path& store, const std::string& id) {
  return store / "checkpoints" / (id + ".state");
}

}  // namespace

void save_checkpoint(const std::filesystem::path& store, const std::string& id, const std::string& state) {
  FileSystem& system = FileSystem::real();
  make_folders(system, store / "checkpoints");
  write_whole(system, file_of(store, id), fmt::format("{:08x}\n", crc32c(state)) + state);
}

std::string load_checkpoint(const std::filesystem::path& store, const std::string& id) {
  std::ifstream file(file_of(store, id), std::ios::binary);
  std::string checksum;
  if (!file || !std::getline(file, checksum)) return "";
  std::string state{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return checksum == fmt::format("{:08x}", crc32c(state)) ? state : "";
}

void drop_checkpoint(const std::filesystem::path& store, const std::string& id) {
  std::error_code ignored;
  std::filesystem::remove(file_of(store, id), ignored);
}

}  // namespace crosstalk
