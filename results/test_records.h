// Records and folders for the tests of results/.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "results/store/record.h"

namespace crosstalk::testing {

/// A finished run; `n` tells records apart.
inline Record make_record(int n) {
  Record record;
  record.id = "ct-" + std::string(28, '0') + std::to_string(1000 + n);
  record.study = "study";
  record.label = "linear";
  record.seed = n % 5;
  record.config = {{"task.name", "recall"}, {"task.associations", 20 + n}, {"train.learning_rate", 1e-3}};
  record.d_dot = 64;
  record.state_size = 4096;
  record.steps = 100 * n;
  record.eval_loss = 0.1 / (n + 1);
  record.best_eval_loss = 0.1 / (n + 2);
  record.eval_accuracy = 0.5;
  record.metrics = {{"chance", 0.05}};
  record.curves["eval_loss"] = {{100, 200}, {0.3, 0.1 / (n + 1)}};
  record.provenance = {{"host", "here"}};
  return record;
}

/// The object of a record's line, without its checksum: seal() makes the line of it.
inline std::string unsealed(const std::string& line) { return line.substr(0, line.rfind(",\"crc\"")) + "}"; }

/// A fresh folder, removed at the end. Its name has a space and an umlaut: every test meets them.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    // In memory where that is possible: these tests sync thousands of files, which a busy disk turns into
    // minutes.
    std::filesystem::path base = "/dev/shm";
    if (::access(base.c_str(), W_OK | X_OK) != 0) base = std::filesystem::temp_directory_path();
    std::string name = (base / "crosstalk täst XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder: " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The path of a store that is not there yet, in a folder of its own.
struct TemporaryStore : private TemporaryFolder, std::filesystem::path {
  TemporaryStore() : std::filesystem::path(TemporaryFolder::path() / "s") {}
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spill(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace crosstalk::testing
