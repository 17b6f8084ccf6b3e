// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/sample.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "kernels/base/text/npy.h"
#include "tasks/given_files.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// All that a sample may consist of, besides README.txt.
constexpr const char* all_files[] = {
    "keys.npy",    "values.npy", "operations.npy", "second_keys.npy", "query.npy", "query_position.npy",
    "answer.npy",  "tokens.npy", "positions.npy",  "targets.npy",     "x.npy",     "y.npy",
    "asked_x.npy", "asked_y.npy"};

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
    std::string line, listed;  // the names of an earlier sample's files
    if (fs::exists(readme, error)) {
      std::ifstream file(readme);
      std::getline(file, line);
      if (line != first_line)
        refuse(directory, "it holds a README.txt that is not a sample's; name an empty or a new directory");
      while (std::getline(file, line)) listed += '\n' + line;
    }
    for (const char* name : all_files)
      if (fs::exists(target / name, error) && listed.find(fmt::format("\n{} ", name)) == std::string::npos)
        refuse(directory,
               fmt::format("it holds a {} that is no sample's; name an empty or a new directory", name));
    return;
  }
  fs::path parent = target.parent_path();
  while (!fs::exists(fs::symlink_status(parent, error)) && parent != parent.parent_path())
    parent = parent.parent_path();  // what is missing above it is made
  if (!fs::is_directory(parent, error)) refuse(directory, fmt::format("{} is no directory", parent.string()));
  check_writable(directory, parent);
}

/// Files of a sample: written into a folder beside their places, put in place together, or not at all.
class NewFiles {
 public:
  explicit NewFiles(const std::string& directory)
      : directory_(directory), folder_(directory), fresh_(folder_ / fmt::format(".new-{}", ::getpid())) {
    std::error_code error;
    const fs::path path = fs::absolute(folder_).lexically_normal();
    for (fs::path above = path; !fs::exists(above, error); above = above.parent_path())
      made_.push_back(above);
    fs::create_directories(path, error);
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
    for (const char* name : all_files)  // of a sample that lay here before
      if (!fs::exists(fresh_ / name)) fs::remove(folder_ / name, error);
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
    if (in_place_) return;
    for (const fs::path& folder : made_) fs::remove(folder, ignored);  // the inmost first
  }

  std::string directory_;
  fs::path folder_, fresh_;
  std::vector<fs::path> made_;
  bool in_place_ = false;
};

/// One sequence.
struct SampleRow {
  std::vector<std::int32_t> tokens, role, query, position, target;
};

template <class Part>
NpyArray<std::int64_t> array_of(const std::vector<SampleRow>& rows, std::int64_t width, Part part) {
  NpyArray<std::int64_t> array{{std::ssize(rows), width}, {}};
  for (const SampleRow& row : rows) {
    const std::vector<std::int32_t>& numbers = std::invoke(part, row);
    array.data.insert(array.data.end(), numbers.begin(), numbers.end());
  }
  return array;
}

/// A file of a sample: [N,L] or [N,Q] whole numbers, or of real numbers [N,L,n] or [N,Q,n], and what they are.
struct SampleFile {
  std::string name;
  NpyArray<std::int64_t> array;
  std::string meaning;
  NpyArray<double> real = {};
  const std::vector<std::int64_t>& shape() const { return real.shape.empty() ? array.shape : real.shape; }
  void write(const std::string& path) const {
    if (real.shape.empty()) {
      write_npy(path, array);
    } else {
      write_npy(path, real);
    }
  }
};

/// Files for tokens of real numbers.
std::vector<SampleFile> example_files(const std::vector<SampleRow>& rows, const SequenceShape& shape, int n) {
  const auto part = [&](const char* name, int tokens, int first, int count, const std::string& meaning) {
    NpyArray<double> array{{std::ssize(rows), tokens, count}, {}};
    for (const SampleRow& row : rows)
      for (int t = 0; t < tokens; ++t)
        for (int c = first; c < first + count; ++c)
          array.data.push_back(kNumberUnit * row.tokens[static_cast<std::size_t>(t * shape.C + c)]);
    return SampleFile{name, {}, meaning, std::move(array)};
  };
  return {part("x.npy", shape.T, 0, n, "inputs of the examples that are shown, in order"),
          part("y.npy", shape.T, n, 1, "their outputs, with noise"),
          part("asked_x.npy", shape.Q, n + 1, n, "inputs that are asked, all after the last example"),
          part("asked_y.npy", shape.Q, 2 * n + 1, 1, "the output that is right for each, without noise")};
}

/// Files for tokens of channels.
std::vector<SampleFile> fused_files(const std::vector<SampleRow>& rows, const SequenceShape& shape,
                                    const Vocabulary& vocabulary) {
  const auto channel = [&](int c) {
    return [&, c](const SampleRow& row) {
      std::vector<std::int32_t> one;
      for (int t = 0; t < shape.T; ++t) one.push_back(row.tokens[static_cast<std::size_t>(t * shape.C + c)]);
      return one;
    };
  };
  std::vector<SampleFile> files = {
      {"keys.npy", array_of(rows, shape.T, channel(channel_key)),
       fmt::format("key of each token, 0 .. {}; of a swap, the first key", vocabulary.keys - 1)},
      {"values.npy", array_of(rows, shape.T, channel(channel_value)),
       fmt::format("value written with it, 0 .. {}; -1 if the token writes none", vocabulary.values - 1)},
      {"operations.npy", array_of(rows, shape.T, &SampleRow::role),
       fmt::format(
           "what each token does: {} pad, {} write the value under the key,\n"
           "                    {} swap the values of key and second key, {} identity (nothing changes)",
           static_cast<int>(Role::pad), static_cast<int>(Role::write), static_cast<int>(Role::swap),
           static_cast<int>(Role::identity))}};
  if (shape.C > channel_second_key)
    files.push_back({"second_keys.npy", array_of(rows, shape.T, channel(channel_second_key)),
                     "second key of a swap or identity; -1 for a write"});
  files.push_back(
      {"query.npy", array_of(rows, shape.Q, &SampleRow::query), "key asked; 0 in an unused slot"});
  files.push_back(
      {"query_position.npy", array_of(rows, shape.Q, &SampleRow::position),
       fmt::format("number of leading tokens that the read sees ({} = the whole sequence)", shape.T)});
  files.push_back({"answer.npy", array_of(rows, shape.Q, &SampleRow::target),
                   "value id that is right; -1 marks an unused slot"});
  return files;
}

/// Files for single tokens.
std::vector<SampleFile> token_files(const std::vector<SampleRow>& rows, const SequenceShape& shape,
                                    const Vocabulary& vocabulary) {
  const auto places = [](const SampleRow& row) {  // from 0, -1 where unused
    std::vector<std::int32_t> from_zero = row.position;
    for (std::int32_t& place : from_zero) --place;
    return from_zero;
  };
  return {{"tokens.npy", array_of(rows, shape.T, &SampleRow::tokens),
           fmt::format("token ids, 0 .. {}", vocabulary.tokens - 1)},
          {"positions.npy", array_of(rows, shape.Q, places),
           fmt::format("token at which an answer is due, 0 .. {}; -1 in an unused slot", shape.T - 1)},
          {"targets.npy", array_of(rows, shape.Q, &SampleRow::target),
           fmt::format("the answer, 0 .. {}; -1 in an unused slot", vocabulary.values - 1)}};
}

std::string readme_text(const SampleRequest& request, const SequenceShape& shape,
                        const std::vector<SampleFile>& files) {
  const int N = request.count;
  std::string text = fmt::format(
      "{}\n\n"
      "task.name = \"{}\"\n",
      first_line, request.task_name);
  for (const auto& [key, value] : request.options.values())
    if (key != "task.name") text += fmt::format("{} = {}\n", key, to_text(value));
  text += fmt::format(
      "data seed: {}\nsplit: {}\nsequences: 0 .. {}\n\n"
      "All files are {} in C order; numpy.load(\"{}\") reads one. Row i of each is sequence i.\n"
      "{}N = {} sequences, L = {} tokens, Q = {} query slots.\n\n",
      request.seed, split_name(request.split), N - 1, files.front().real.shape.empty() ? "int64" : "float64",
      files.front().name, files.front().real.shape.empty() ? "-1 means absent. " : "", N, shape.T, shape.Q);
  for (const SampleFile& file : files)
    text += fmt::format("{:<19} [{}]  {}\n", file.name, fmt::join(file.shape(), ", "), file.meaning);
  return text;
}

}  // namespace

const char* split_name(Split split) {
  return split == Split::train ? "train" : split == Split::eval ? "eval" : "test";
}

std::string sample_text(const Task& task, Split split, std::uint64_t seed, int count, int max_queries) {
  std::string text;
  const auto add = [&](const Task& of, const std::string& part) {
    SequenceBuffer buffer(of, split, max_queries);
    for (int n = 0; n < count; ++n) {
      text += fmt::format("{}{} sequence {}{} (data seed {})\n", text.empty() ? "" : "\n", split_name(split),
                          n, part, seed);
      text += of.to_text(buffer.draw(seed, static_cast<std::uint64_t>(n)));
    }
  };
  const std::vector<TaskSegment> segments = task.segments(split);
  for (const TaskSegment& segment : segments) add(*segment.task, " of segment " + segment.name);
  if (segments.empty()) add(task, "");
  require_unchanged(task);
  return text;
}

void write_sample(const std::string& directory, const Task& task, const SampleRequest& request) {
  if (request.count < 1)
    throw std::runtime_error(
        fmt::format("a sample of {} sequences is none; ask for 1 or more", request.count));
  if (!task.segments(request.split).empty())
    throw std::runtime_error(
        "the sequences of a mixture have several shapes, which no one array holds; ask for one segment, by the task's own sizes");
  check_directory(directory);
  SequenceBuffer buffer(task, request.split, request.max_queries);
  const SequenceShape shape = task.shape(request.split, request.max_queries);
  std::vector<SampleRow> rows;
  for (int n = 0; n < request.count; ++n) {
    const SequenceView s = buffer.draw(request.seed, static_cast<std::uint64_t>(n));
    rows.push_back({{s.tokens, s.tokens + static_cast<std::ptrdiff_t>(shape.T) * shape.C},
                    {s.role, s.role + shape.T},
                    {s.query, s.query + shape.Q},
                    {s.query_position, s.query_position + shape.Q},
                    {s.target, s.target + shape.Q}});
  }
  require_unchanged(task);
  const Vocabulary vocabulary = task.vocabulary();
  const std::vector<SampleFile> parts = vocabulary.tokens > 0 ? token_files(rows, shape, vocabulary)
                                        : vocabulary.numbers > 0
                                            ? example_files(rows, shape, vocabulary.numbers)
                                            : fused_files(rows, shape, vocabulary);

  NewFiles files(directory);
  std::ofstream readme(files.path("README.txt"), std::ios::trunc);
  readme << readme_text(request, shape, parts);
  readme.close();
  if (!readme) files.fail(fmt::format("README.txt cannot be written ({})", std::strerror(errno)));
  try {
    for (const SampleFile& part : parts) part.write(files.path(part.name.c_str()));
  } catch (const std::runtime_error& failure) {
    files.fail(failure.what());
  }
  files.put_in_place();
}

}  // namespace crosstalk
