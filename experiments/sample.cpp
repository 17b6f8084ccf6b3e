// SPDX-License-Identifier: Apache-2.0
#include "experiments/sample.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "kernels/base/npy.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr const char* first_line = "Sample of a Crosstalk task";

[[noreturn]] void refuse(const std::string& directory, const std::string& why) {
  throw std::runtime_error(fmt::format("cannot write the sample to {}: {}", directory, why));
}

void check_writable(const std::string& directory, const fs::path& existing) {
  if (access(existing.c_str(), W_OK | X_OK) != 0)
    refuse(directory, fmt::format("{} may not be written ({})", existing.string(), std::strerror(errno)));
}

/// Refuses what would fail or destroy something of others; creates nothing.
void check_directory(const std::string& directory) {
  if (directory.empty()) throw std::runtime_error("cannot write the sample: the directory's name is empty");
  std::error_code error;
  const fs::path path = fs::absolute(directory).lexically_normal();
  const fs::path target = path.has_filename() ? path : path.parent_path();  // "out/" is "out"
  const fs::file_status status = fs::status(target, error);
  if (fs::exists(status)) {
    if (!fs::is_directory(status)) refuse(directory, "it exists and is not a directory; name another");
    check_writable(directory, target);
    const fs::path readme = target / "README.txt";
    if (fs::exists(readme, error)) {
      std::ifstream file(readme);
      std::string line;
      std::getline(file, line);
      if (line != first_line)
        refuse(directory, "it holds a README.txt that is not a sample's; name an empty or a new directory");
    }
    return;
  }
  const fs::path parent = target.parent_path();
  if (!fs::is_directory(parent, error))
    refuse(directory, fmt::format("{} is no directory; make it first", parent.string()));
  check_writable(directory, parent);
}

/// Files of a sample: written into a folder beside their places, put in place together, or not at all.
class NewFiles {
 public:
  explicit NewFiles(const std::string& directory)
      : directory_(directory), folder_(directory), fresh_(folder_ / fmt::format(".new-{}", ::getpid())) {
    std::error_code error;
    made_ = fs::create_directory(folder_, error);
    if (!fs::is_directory(folder_)) refuse(directory_, error.message());
    fs::create_directory(fresh_, error);
    if (error) {
      remove();
      fail(error.message());
    }
  }
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  ~NewFiles() { remove(); }

  std::string path(const char* name) const { return (fresh_ / name).string(); }
  [[noreturn]] void fail(const std::string& why) const {
    throw SampleWriteError(fmt::format("cannot write the sample to {}: {}", directory_, why));
  }
  void put_in_place() {
    std::error_code error;
    fs::remove(folder_ / "second_keys.npy", error);  // of a sample that lay here before
    for (const fs::directory_entry& file : fs::directory_iterator(fresh_)) {
      fs::rename(file.path(), folder_ / file.path().filename(), error);
      if (error) fail(error.message());
    }
    fs::remove(fresh_, error);
    in_place_ = true;
  }

 private:
  void remove() const {
    std::error_code ignored;
    fs::remove_all(fresh_, ignored);
    if (made_ && !in_place_) fs::remove(folder_, ignored);
  }

  std::string directory_;
  fs::path folder_, fresh_;
  bool made_ = false;
  bool in_place_ = false;
};

std::string readme_text(const SampleRequest& request, const SequenceShape& shape,
                        const Vocabulary& vocabulary) {
  const int N = request.count, L = shape.T, Q = shape.Q;
  std::string text = fmt::format(
      "{}\n\n"
      "task.name = \"{}\"\n",
      first_line, request.task_name);
  for (const auto& [key, value] : request.options.values())
    if (key != "task.name") text += fmt::format("{} = {}\n", key, to_text(value));
  text += fmt::format(
      "data seed: {}\nsplit: {}\nsequences: 0 .. {}\n\n"
      "All files are int64 in C order; numpy.load(\"keys.npy\") reads one. Row i of each is sequence i.\n"
      "-1 means absent. N = {} sequences, L = {} tokens, Q = {} query slots.\n\n"
      "keys.npy            [{}, {}]  key of each token, 0 .. {}; of a swap, the first key\n"
      "values.npy          [{}, {}]  value written with it, 0 .. {}; -1 if the token writes none\n"
      "operations.npy      [{}, {}]  what each token does: {} pad, {} write the value under the key,\n"
      "                    {} swap the values of key and second key, {} identity (nothing changes)\n",
      request.seed, split_name(request.split), N - 1, N, L, Q, N, L, vocabulary.keys - 1, N, L,
      vocabulary.values - 1, N, L, static_cast<int>(Role::pad), static_cast<int>(Role::write),
      static_cast<int>(Role::swap), static_cast<int>(Role::identity));
  if (shape.C > channel_second_key)
    text +=
        fmt::format("second_keys.npy     [{}, {}]  second key of a swap or identity; -1 for a write\n", N, L);
  text += fmt::format(
      "query.npy           [{}, {}]  key asked; 0 in an unused slot\n"
      "query_position.npy  [{}, {}]  number of leading tokens that the read sees ({} = the whole sequence)\n"
      "answer.npy          [{}, {}]  value id that is right; -1 marks an unused slot\n",
      N, Q, N, Q, L, N, Q);
  return text;
}

}  // namespace

const char* split_name(Split split) {
  return split == Split::train ? "train" : split == Split::eval ? "eval" : "test";
}

std::string sample_text(const Task& task, Split split, std::uint64_t seed, int count, int max_queries) {
  SequenceBuffer buffer(task, split, max_queries);
  std::string text;
  for (int n = 0; n < count; ++n) {
    text += fmt::format("{}{} sequence {} (data seed {})\n", n > 0 ? "\n" : "", split_name(split), n, seed);
    text += task.to_text(buffer.draw(seed, static_cast<std::uint64_t>(n)));
  }
  return text;
}

void write_sample(const std::string& directory, const Task& task, const SampleRequest& request) {
  if (request.count < 1)
    throw std::runtime_error(
        fmt::format("a sample of {} sequences is none; ask for 1 or more", request.count));
  check_directory(directory);
  SequenceBuffer buffer(task, request.split, request.max_queries);
  const SequenceShape shape = task.shape(request.split, request.max_queries);
  const bool second_key = shape.C > channel_second_key;
  const std::int64_t N = request.count;
  NpyArray<std::int64_t> keys{{N, shape.T}, {}}, values = keys, operations = keys, second_keys = keys;
  NpyArray<std::int64_t> query{{N, shape.Q}, {}}, query_position = query, answer = query;
  for (int n = 0; n < request.count; ++n) {
    const SequenceView s = buffer.draw(request.seed, static_cast<std::uint64_t>(n));
    for (int t = 0; t < shape.T; ++t) {
      const std::int32_t* token = s.tokens + static_cast<std::int64_t>(t) * shape.C;
      keys.data.push_back(token[channel_key]);
      values.data.push_back(token[channel_value]);
      operations.data.push_back(s.role[t]);
      if (second_key) second_keys.data.push_back(token[channel_second_key]);
    }
    query.data.insert(query.data.end(), s.query, s.query + shape.Q);
    query_position.data.insert(query_position.data.end(), s.query_position, s.query_position + shape.Q);
    answer.data.insert(answer.data.end(), s.target, s.target + shape.Q);
  }

  NewFiles files(directory);
  std::ofstream readme(files.path("README.txt"), std::ios::trunc);
  readme << readme_text(request, shape, task.vocabulary());
  readme.close();
  if (!readme) files.fail(fmt::format("README.txt cannot be written ({})", std::strerror(errno)));
  try {
    write_npy(files.path("keys.npy"), keys);
    write_npy(files.path("values.npy"), values);
    write_npy(files.path("operations.npy"), operations);
    if (second_key) write_npy(files.path("second_keys.npy"), second_keys);
    write_npy(files.path("query.npy"), query);
    write_npy(files.path("query_position.npy"), query_position);
    write_npy(files.path("answer.npy"), answer);
  } catch (const std::runtime_error& failure) {
    files.fail(failure.what());
  }
  files.put_in_place();
}

}  // namespace crosstalk
