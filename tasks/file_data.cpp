// SPDX-License-Identifier: Apache-2.0
#include "tasks/file_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <stdexcept>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/base/text/digest.h"
#include "kernels/base/text/narrow.h"
#include "kernels/base/text/npy.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// Of sequences, of what sample writes of them (operations say nothing else than the tokens), and of examples of real numbers.
const std::vector<std::string> kFileArrays = {
    "tokens",         "query",  "position",   "target", "keys", "values",  "second_keys",
    "query_position", "answer", "operations", "x",      "y",    "asked_x", "asked_y"};

std::string path_of(const std::string& folder, const std::string& split, const std::string& array) {
  return (fs::path(folder) / fmt::format("{}_{}.npy", split, array)).string();
}

/// What `crosstalk sample --out FOLDER/SPLIT` writes, in place of the four files.
std::string sampled(const std::string& folder, const std::string& split, const std::string& array) {
  return (fs::path(folder) / split / (array + ".npy")).string();
}
bool is_sampled(const std::string& folder, const std::string& split) {
  std::error_code ignored;
  return fs::exists(sampled(folder, split, "keys"), ignored);
}

/// Whether the split is of real numbers, and where its array lies.
bool is_real(const std::string& folder, const std::string& split) {
  std::error_code ignored;
  return fs::exists(sampled(folder, split, "x"), ignored) || fs::exists(path_of(folder, split, "x"), ignored);
}
std::string real_path(const std::string& folder, const std::string& split, const std::string& array) {
  std::error_code ignored;
  return fs::exists(sampled(folder, split, "x"), ignored) ? sampled(folder, split, array)
                                                          : path_of(folder, split, array);
}

NpyArray<std::int64_t> read_array(const std::string& path, std::size_t rank, const char* shape) {
  NpyArray<std::int64_t> array;
  try {
    array = read_npy_integers(path);
  } catch (const std::runtime_error& error) {
    refuse_files("{}; task file needs whole numbers of shape {} there ('crosstalk describe file')",
                 error.what(), shape);
  }
  if (array.shape.size() != rank)
    refuse_files("{}: has the shape {}; it must be {}", path, shape_text(array.shape), shape);
  for (const std::int64_t size : array.shape)
    if (size < 1 || size > static_cast<std::int64_t>(max_option_size))
      refuse_files("{}: has the shape {}; each size of {} must lie in 1 .. {:.0f}", path,
                   shape_text(array.shape), shape, max_option_size);
  return array;
}

/// Where element `at` stands: "[3, 0, 1]".
std::string place(const std::vector<std::int64_t>& shape, std::size_t at) {
  std::vector<std::int64_t> index(shape.size());
  auto rest = static_cast<std::int64_t>(at);
  for (std::size_t i = shape.size(); i-- > 0; rest /= shape[i]) index[i] = rest % shape[i];
  return shape_text(index);
}

void check_range(const std::string& path, const NpyArray<std::int64_t>& array, std::size_t at,
                 const char* what, std::int64_t low, std::int64_t high) {
  if (array.data[at] < low || array.data[at] > high)
    refuse_files("{}: holds {} at {}; {} must lie in {} .. {}", path, array.data[at], place(array.shape, at),
                 what, low, high);
}

/// Refuses what -1 and -100 become in an unsigned array. Of tokens the first channel, the key, is always there.
void check_sign(const std::string& path, const NpyArray<std::int64_t>& array) {
  const std::string type = npy_layout(path).type;
  if (type.at(1) != 'u') return;
  const std::size_t C = array.shape.size() == 3 ? static_cast<std::size_t>(array.shape[2]) : 1;
  for (std::size_t i = 0; i < array.data.size(); ++i)
    if ((C == 1 || i % C != channel_key) && is_wrapped(type[2] - '0', array.data[i]))
      refuse_files("{}: {}", path, wrapped_text(type[2] - '0', array.data[i], place(array.shape, i)));
}

/// Real numbers as whole multiples of kNumberUnit. Outputs [N,T] and [N,T,1] are the same.
struct RealArray {
  std::string path;
  std::vector<std::int64_t> shape;
  std::vector<std::int32_t> data;
};

/// Refuses a column whose numbers are so small that whole multiples of kNumberUnit have not three digits of them.
void check_digits(const RealArray& array, const std::vector<double>& numbers) {
  const auto columns = static_cast<std::size_t>(array.shape[2]);
  for (std::size_t c = 0; c < columns; ++c) {
    double squares = 0, errors = 0;
    for (std::size_t i = c; i < numbers.size(); i += columns) {
      const double error = numbers[i] - kNumberUnit * array.data[i];
      squares += numbers[i] * numbers[i], errors += error * error;
    }
    if (errors > 1e-6 * squares)
      refuse_files(
          "{}: numbers of column {} have a root mean square of {:.3g}, and are kept as whole multiples of "
          "2^-20 (1e-6), which loses their digits; multiply the column by a constant",
          array.path, c, std::sqrt(squares / static_cast<double>(numbers.size() / columns)));
  }
}

RealArray read_real(const std::string& path, const char* shape, bool outputs) {
  RealArray array{path, {}, {}};
  std::vector<double> numbers;
  try {
    const std::string type = npy_layout(path).type;
    const auto take = [&](const auto& file) {
      array.shape = file.shape;
      numbers.assign(file.data.begin(), file.data.end());
    };
    if (type == "<f8")
      take(read_npy<double>(path));
    else if (type == "<f4")
      take(read_npy<float>(path));
    else if (type.find('f') != type.npos)
      throw std::runtime_error(
          fmt::format("{}: holds elements of type '{}'; save array.astype('float32')", path, type));
    else
      take(read_npy_integers(path));
  } catch (const std::runtime_error& error) {
    refuse_files("{}; task file needs real numbers of shape {} there ('crosstalk describe file')",
                 error.what(), shape);
  }
  const std::vector<std::int64_t> found = array.shape;
  if (outputs && array.shape.size() == 2) array.shape.push_back(1);
  if (array.shape.size() != 3 || (outputs && array.shape[2] != 1))
    refuse_files("{}: has the shape {}; it must be {}", path, shape_text(found), shape);
  for (const std::int64_t size : array.shape)
    if (size < 1 || size > static_cast<std::int64_t>(max_option_size))
      refuse_files("{}: has the shape {}; each size of {} must lie in 1 .. {:.0f}", path, shape_text(found),
                   shape, max_option_size);
  constexpr double kMost = 2047;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!(std::abs(numbers[i]) <= kMost))
      refuse_files(
          "{}: holds {} at {}; real numbers are kept as whole multiples of 2^-20 and must lie in -{:.0f} .. {:.0f}: divide all by a constant",
          path, numbers[i], place(found, i), kMost, kMost);
    array.data.push_back(static_cast<std::int32_t>(std::floor(numbers[i] / kNumberUnit + 0.5)));
  }
  check_digits(array, numbers);
  return array;
}

/// tokens [N,T,C] of the channels of a sample.
NpyArray<std::int64_t> read_channels(const std::string& folder, const std::string& split) {
  const std::string path = sampled(folder, split, "keys");
  std::vector<NpyArray<std::int64_t>> channels;
  std::error_code ignored;
  for (const char* name : {"keys", "values", "second_keys"}) {
    const std::string channel = sampled(folder, split, name);
    if (channels.size() == 2 && !fs::exists(channel, ignored)) continue;
    channels.push_back(read_array(channel, 2, "[N,T]"));
    if (channels.size() > 1) check_sign(channel, channels.back());
    if (channels.back().shape != channels.front().shape)
      refuse_files("{}: has the shape {}; it must be that of {}, {}", channel,
                   shape_text(channels.back().shape), path, shape_text(channels.front().shape));
  }
  NpyArray<std::int64_t> tokens{channels[0].shape, {}};
  tokens.shape.push_back(std::ssize(channels));
  for (std::size_t i = 0; i < channels[0].data.size(); ++i)
    for (const auto& channel : channels) tokens.data.push_back(channel.data[i]);
  return tokens;
}

/// Where the tokens of a split lie, for messages.
std::string tokens_path(const std::string& folder, const std::string& split) {
  return is_real(folder, split)      ? real_path(folder, split, "x")
         : is_sampled(folder, split) ? sampled(folder, split, "keys")
                                     : path_of(folder, split, "tokens");
}

}  // namespace

FileData::Part FileData::read_examples(const std::string& folder, const std::string& split) {
  const auto read = [&](const char* name, const char* shape, bool outputs) {
    return read_real(real_path(folder, split, name), shape, outputs);
  };
  const RealArray x = read("x", "[N,T,n] (N sequences of T examples of n inputs each)", false),
                  y = read("y", "[N,T]", true), asked_x = read("asked_x", "[N,Q,n]", false),
                  asked_y = read("asked_y", "[N,Q]", true);
  const auto fits = [&](const RealArray& array, std::int64_t second, std::int64_t third,
                        const RealArray& to) {
    if (array.shape != std::vector{x.shape[0], second, third})
      refuse_files("{}: has the shape {}; beside {}, {}, it must be {}", array.path, shape_text(array.shape),
                   to.path, shape_text(to.shape), shape_text({x.shape[0], second, third}));
  };
  Part part;
  part.N = x.shape[0], part.T = x.shape[1], part.Q = asked_x.shape[1];
  const std::int64_t n = x.shape[2];
  part.C = 2 * (n + 1);
  fits(y, part.T, 1, x);
  fits(asked_x, part.Q, n, x);
  fits(asked_y, part.Q, 1, asked_x);
  if (part.Q > part.T)
    refuse_files(
        "{}: asks {} inputs after {} examples; what is asked stands beside what is shown, so at most {} can be",
        asked_x.path, part.Q, part.T, part.T);
  const auto put = [&](const RealArray& array, std::int64_t row, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      part.tokens.push_back(array.data[static_cast<std::size_t>(row * count + i)]);
  };
  for (std::int64_t row = 0; row < part.N; ++row)
    for (std::int64_t t = 0; t < part.T; ++t) {
      put(x, row * part.T + t, n);
      put(y, row * part.T + t, 1);
      if (t < part.Q) {
        put(asked_x, row * part.Q + t, n);
        put(asked_y, row * part.Q + t, 1);
        part.query.push_back(static_cast<std::int32_t>(t));
        part.position.push_back(static_cast<std::int32_t>(part.T));
        part.target.push_back(0);
      } else {
        part.tokens.insert(part.tokens.end(), static_cast<std::size_t>(n + 1), 0);
      }
    }
  return part;
}

FileData::Part FileData::read_part(const std::string& folder, const std::string& split) {
  std::error_code ignored;
  std::string found;
  for (const std::string& path : {path_of(folder, split, "tokens"), sampled(folder, split, "keys"),
                                  path_of(folder, split, "x"), sampled(folder, split, "x")}) {
    if (!fs::exists(path, ignored)) continue;
    if (!found.empty())
      refuse_files("{} and {} say the same of {}; keep those of one data set, and move the others away",
                   found, path, split);
    found = path;
  }
  if (found.empty())
    refuse_files("{0}: holds no {1}_tokens.npy, {1}_x.npy, {1}/keys.npy or {1}/x.npy; {2}", folder, split,
                 remedy_for(folder).value_or(fmt::format(
                     "task file needs the sequences of {} there ('crosstalk describe file')", split)));
  if (is_real(folder, split)) return read_examples(folder, split);
  const bool sample = is_sampled(folder, split);
  const auto path = [&](const std::string& array) {
    if (!sample) return path_of(folder, split, array);
    return sampled(folder, split,
                   array == "tokens"     ? "keys"
                   : array == "position" ? "query_position"
                   : array == "target"   ? "answer"
                                         : array);
  };
  const NpyArray<std::int64_t> tokens =
      sample
          ? read_channels(folder, split)
          : read_array(
                path("tokens"), 3,
                "[N,T,C] (N sequences of T tokens of C numbers each: key and value, or key, value and second key)");
  const char* of_queries = "[N,Q] (N sequences of Q queries each)";
  const NpyArray<std::int64_t> query = read_array(path("query"), 2, of_queries),
                               position = read_array(path("position"), 2, of_queries),
                               target = read_array(path("target"), 2, of_queries);
  Part part;
  part.N = tokens.shape[0], part.T = tokens.shape[1], part.C = tokens.shape[2], part.Q = query.shape[1];
  if (part.C != 2 && part.C != 3)
    refuse_files(
        "{}: has the shape {}; a token is [key, value] or [key, value, second key], so the last size must be 2 or 3",
        path("tokens"), shape_text(tokens.shape));
  if (query.shape[0] != part.N)
    refuse_files("{}: has the shape {}; there are {} sequences in {}, so it must be [{}, Q]", path("query"),
                 shape_text(query.shape), part.N, path("tokens"), part.N);
  for (const auto& [name, array] : {std::pair{"position", &position}, {"target", &target}})
    if (array->shape != query.shape)
      refuse_files("{}: has the shape {}; it must be that of {}, {}", path(name), shape_text(array->shape),
                   path("query"), shape_text(query.shape));

  if (!sample) check_sign(path("tokens"), tokens);
  check_sign(path("target"), target);
  part.tokens.resize(tokens.data.size());
  for (std::size_t i = 0; i < tokens.data.size(); ++i) {
    const bool key = i % static_cast<std::size_t>(part.C) == channel_key;
    check_range(path("tokens"), tokens, i, key ? "a key" : "a value or a second key (-1: none)", key ? 0 : -1,
                largest_id);
    part.tokens[i] = static_cast<std::int32_t>(tokens.data[i]);
  }
  // Queries by position, unused slots last: whatever order the files have.
  const auto Q = static_cast<std::size_t>(part.Q);
  std::vector<std::size_t> order(Q);
  for (std::size_t row = 0; row < static_cast<std::size_t>(part.N); ++row) {
    const std::size_t first = row * Q;
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(target.data[a] < 0, position.data[a]) <
             std::pair(target.data[b] < 0, position.data[b]);
    });
    if (target.data[order[0]] < 0)
      refuse_files("{}: sequence {} asks nothing, all its targets are -1; give each at least one",
                   path("target"), row);
    for (const std::size_t i : order) {
      check_range(path("target"), target, i, "a value (-1: unused slot)", -1, largest_id);
      const bool used = target.data[i] >= 0;
      if (used) {
        check_range(path("query"), query, i, "a key", 0, largest_id);
        check_range(path("position"), position, i, "the number of tokens that a read sees", 1, part.T);
      }
      part.query.push_back(used ? static_cast<std::int32_t>(query.data[i]) : 0);
      part.position.push_back(used ? static_cast<std::int32_t>(position.data[i]) : 0);
      part.target.push_back(static_cast<std::int32_t>(target.data[i]));
    }
  }
  return part;
}

FileData::FileData(const std::string& folder) : GivenFiles(folder, arrays_in(folder, kFileArrays)) {
  refuse_others(folder, kFileArrays, false);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const auto hash = [&](const auto& data) {
    XXH3_128bits_update(&state, data.data(), data.size() * sizeof(data[0]));
  };
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    Part& part = parts_[s] = read_part(folder, split_names[s]);
    if (s == 0) channels_ = static_cast<int>(part.C);
    if (part.C != channels_)
      refuse_files("{}: its tokens have {} numbers, those of {} have {}; all splits need the same",
                   tokens_path(folder, split_names[s]), part.C, tokens_path(folder, split_names[0]),
                   channels_);
    for (std::size_t i = 0; numbers() == 0 && i < part.tokens.size(); ++i) {
      int& size = i % static_cast<std::size_t>(part.C) == channel_value ? values_ : keys_;
      size = std::max(size, part.tokens[i] + 1);
    }
    for (std::size_t i = 0; numbers() == 0 && i < part.query.size(); ++i)
      keys_ = std::max(keys_, part.query[i] + 1);
    for (const std::int32_t value : part.target) values_ = std::max(values_, value + 1);
    hash(std::array{part.N, part.T, part.C, part.Q});
    for (const auto* data : {&part.tokens, &part.query, &part.position, &part.target}) hash(*data);
    spec_.part[s] = {part.tokens.data(),
                     part.query.data(),
                     part.position.data(),
                     part.target.data(),
                     narrow<std::uint32_t>(part.N, "task.folder: sequences of a file"),
                     narrow<std::int32_t>(part.T, "task.folder: tokens of a sequence"),
                     narrow<std::int32_t>(part.Q, "task.folder: queries of a sequence")};
  }
  refuse_others(folder, kFileArrays, true);
  end_reading();
  content_ = digest_text(XXH3_128bits_digest(&state));
}

const FileSpec& FileData::upload() const {
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = on_device_.try_emplace(cuda_current_device());
  OnDevice& there = entry->second;
  if (!fresh) return there.spec;
  try {
    std::size_t bytes = 0;
    for (const Part& part : parts_)
      for (const auto* data : {&part.tokens, &part.query, &part.position, &part.target})
        bytes += data->size() * sizeof(std::int32_t);
    there.buffer = Buffer(Device::cuda, bytes);
    std::size_t offset = 0;
    const auto put = [&](const std::vector<std::int32_t>& data) {
      const auto* at =
          reinterpret_cast<const std::int32_t*>(static_cast<const char*>(there.buffer.data()) + offset);
      there.buffer.copy_from_host(data.data(), data.size() * sizeof(std::int32_t), offset);
      offset += data.size() * sizeof(std::int32_t);
      return at;
    };
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      FilePart& part = there.spec.part[s] = spec_.part[s];
      part.tokens = put(parts_[s].tokens);
      part.query = put(parts_[s].query);
      part.position = put(parts_[s].position);
      part.target = put(parts_[s].target);
    }
  } catch (...) {
    on_device_.erase(entry);
    throw;
  }
  return there.spec;
}

const FileSpec& FileData::uploaded() const {
  const std::lock_guard lock(mutex_);
  const auto entry = on_device_.find(cuda_current_device());
  if (entry == on_device_.end())
    throw std::logic_error("[tasks] files were drawn on a device that lacks them");
  return entry->second.spec;
}

}  // namespace crosstalk
