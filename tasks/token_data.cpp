// SPDX-License-Identifier: Apache-2.0
#include "tasks/token_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#define XXH_VECTOR 0  // scalar: g++ 12 warns about the library's own AVX-512 headers
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>

#include "kernels/base/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/base/narrow.h"
#include "kernels/base/npy.h"
#include "tasks/fused_task.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr const char* split_names[] = {"train", "eval", "test"};  // by Split
constexpr std::int64_t largest_id = static_cast<std::int64_t>(max_option_size) - 1;
constexpr std::size_t most_segments = 64;

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  throw OptionError("task.folder", fmt::format(message, std::forward<Arguments>(arguments)...));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// The file that holds one of `names` of a split, SPLIT_NAME.npy or SPLIT/NAME.npy; empty if there is none.
std::string find(const std::string& folder, int split, std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const char* name : names)
    for (const char* between : {"_", "/"}) {
      const std::string path =
          (fs::path(folder) / fmt::format("{}{}{}.npy", split_names[split], between, name)).string();
      if (fs::exists(path, ignored)) return path;
    }
  return "";
}

std::unique_ptr<MappedIntegers> map(const std::string& path, std::size_t rank, const char* shape) {
  std::unique_ptr<MappedIntegers> array;
  try {
    array = std::make_unique<MappedIntegers>(path);
  } catch (const std::runtime_error& error) {
    refuse("{}; task tokens needs whole numbers of shape {} there ('crosstalk describe tokens')",
           error.what(), shape);
  }
  if (array->shape().size() != rank)
    refuse("{}: has the shape {}; it must be {}", path, shape_text(array->shape()), shape);
  for (const std::int64_t size : array->shape())
    if (size < 1 || size > std::int64_t{1} << 31)
      refuse("{}: has the shape {}; each size of {} must lie in 1 .. {}", path, shape_text(array->shape()),
             shape, std::int64_t{1} << 31);
  return array;
}

/// Device and inode, size and time of each file: as long as they stay, so does what was read.
std::vector<std::int64_t> signature(const std::string& folder) {
  std::vector<std::int64_t> numbers;
  for (int split = 0; split < 3; ++split)
    for (const char* name :
         {"inputs", "tokens", "labels", "targets", "target", "positions", "position", "segment"}) {
      const std::string path = find(folder, split, {name});
      struct stat s = {};
      if (path.empty() || ::stat(path.c_str(), &s) != 0) {
        numbers.push_back(-1);
        continue;
      }
      for (const auto number :
           {static_cast<std::int64_t>(s.st_dev), static_cast<std::int64_t>(s.st_ino),
            static_cast<std::int64_t>(s.st_size), static_cast<std::int64_t>(s.st_mtim.tv_sec),
            static_cast<std::int64_t>(s.st_mtim.tv_nsec)})
        numbers.push_back(number);
    }
  return numbers;
}

}  // namespace

MappedIntegers::MappedIntegers(const std::string& path) : path_(path) {
  const NpyLayout layout = npy_layout(path);
  const std::string& type = layout.type;
  const bool whole =
      type.size() == 3 && (type[1] == 'i' || type[1] == 'u') && (type[0] == '<' || type[0] == '|');
  const int width = whole ? type[2] - '0' : 0;
  if (width != 1 && width != 2 && width != 4 && width != 8)
    throw std::runtime_error(fmt::format(
        "{}: holds elements of type '{}', not whole numbers; save array.astype('int64')", path, type));
  std::int64_t count = 1;
  for (const std::int64_t size : layout.shape) count *= size;
  if (layout.bytes != count * width)
    throw std::runtime_error(
        fmt::format("{}: holds {} bytes of data where its shape says {}", path, layout.bytes, count * width));
  shape_ = layout.shape;
  bytes_ = static_cast<std::size_t>(layout.bytes);
  numbers_ = {nullptr, width, type[1] == 'i'};
  if (bytes_ == 0) return;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw std::runtime_error(fmt::format("{}: cannot be read ({})", path, std::strerror(errno)));
  mapped_ = static_cast<std::size_t>(layout.offset) + bytes_;
  base_ = ::mmap(nullptr, mapped_, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  ::close(file);
  if (base_ == MAP_FAILED) {
    base_ = nullptr;
    throw std::runtime_error(
        fmt::format("{}: cannot be mapped into memory ({})", path, std::strerror(error)));
  }
  const char* data = static_cast<const char*>(base_) + layout.offset;
  if (layout.offset % width != 0) {  // NumPy aligns them; others may not
    copy_.resize((bytes_ + 7) / 8);
    std::memcpy(copy_.data(), data, bytes_);
    data = reinterpret_cast<const char*>(copy_.data());
  }
  numbers_.at = data;
}

MappedIntegers::~MappedIntegers() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
}

void MappedIntegers::let_go() const {
  if (base_ != nullptr) ::madvise(base_, mapped_, MADV_DONTNEED);
}

void TokenData::open(Part& part, const std::string& folder, int split) {
  const std::string name = split_names[split];
  const std::string tokens = find(folder, split, {"inputs", "tokens"});
  if (tokens.empty()) {
    if (!find(folder, split, {"keys"}).empty())
      refuse("{}: holds keys and values, tokens of two numbers; task file reads those", folder);
    if (std::error_code ignored; fs::exists(fs::path(folder) / (name + ".npz"), ignored))
      refuse(
          "{0}: holds {1}.npz, an archive; task tokens reads single arrays: with z = numpy.load(\"{0}/{1}.npz\"), "
          "numpy.save(\"{0}/{1}_inputs.npy\", z[...]) and {1}_labels.npy likewise",
          folder, name);
    refuse(
        "{0}: holds no {1}_inputs.npy, {1}_tokens.npy or {1}/tokens.npy; task tokens needs the sequences of "
        "{1} there ('crosstalk describe tokens')",
        folder, name);
  }
  part.tokens = map(tokens, 2, "[N,T] (N sequences of T tokens)");
  part.N = part.tokens->shape()[0], part.T = part.tokens->shape()[1];
  if (part.T > largest_id)
    refuse("{}: sequences of {} tokens; at most {} are supported", tokens, part.T, largest_id);
  const std::string positions = find(folder, split, {"positions", "position"});
  const std::string labels = positions.empty() ? find(folder, split, {"labels", "targets", "target"})
                                               : find(folder, split, {"targets", "target"});
  if (labels.empty())
    refuse(
        "{0}: holds no {1}_labels.npy (or {1}_positions.npy and {1}_targets.npy), what is right at which "
        "token "
        "of {2}",
        folder, name, tokens);
  part.targets = map(labels, 2,
                     positions.empty() ? "[N,T] (a label for each token, -100 or -1: none)"
                                       : "[N,Q] (N sequences of Q answers each)");
  part.slots = part.targets->shape()[1];
  if (positions.empty()) {
    if (part.targets->shape() != part.tokens->shape())
      refuse("{}: has the shape {}; labels stand beside the tokens of {}, so it must be {}", labels,
             shape_text(part.targets->shape()), tokens, shape_text(part.tokens->shape()));
  } else {
    part.positions = map(positions, 2, "[N,Q] (N sequences of Q answers each)");
    if (part.targets->shape()[0] != part.N)
      refuse("{}: has the shape {}; there are {} sequences in {}, so it must be [{}, Q]", labels,
             shape_text(part.targets->shape()), part.N, tokens, part.N);
    if (part.positions->shape() != part.targets->shape())
      refuse("{}: has the shape {}; it must be that of {}, {}", positions,
             shape_text(part.positions->shape()), labels, shape_text(part.targets->shape()));
  }
  const std::string segment = find(folder, split, {"segment"});
  if (segment.empty() || split == 0) return;
  part.segment = map(segment, 1, "[N] (the kind of each sequence)");
  if (part.segment->shape()[0] != part.N)
    refuse("{}: has the shape {}; there are {} sequences in {}, so it must be [{}]", segment,
           shape_text(part.segment->shape()), part.N, tokens, part.N);
  for (std::int64_t row = 0; row < part.N; ++row) {
    const std::int64_t kind = part.segment->numbers()[row];
    if (kind < 0 || kind > largest_id)
      refuse("{}: holds {} at [{}]; a segment must lie in 0 .. {}", segment, kind, row, largest_id);
    part.rows[kind].push_back(static_cast<std::int32_t>(row));
  }
  if (part.rows.size() > most_segments)
    refuse("{}: names {} segments; at most {} are supported", segment, part.rows.size(), most_segments);
}

void TokenData::scan(Part& part, void* hash) {
  auto* state = static_cast<XXH3_state_t*>(hash);
  const auto add = [&](const auto& data) {
    XXH3_128bits_update(state, data.data(), data.size() * sizeof(data[0]));
  };
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(part.T)), answers;
  const TokenNumbers &token = part.tokens->numbers(), &target = part.targets->numbers();
  add(std::array{part.N, part.T});
  bool some_silent = false;
  for (std::int64_t row = 0; row < part.N; ++row) {
    for (std::int64_t t = 0; t < part.T; ++t) {
      const std::int64_t id = token[row * part.T + t];
      if (id < 0 || id > largest_id)
        refuse("{}: holds {} at [{}, {}]; a token must lie in 0 .. {}", part.tokens->path(), id, row, t,
               largest_id);
      tokens[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(id);
      tokens_ = std::max(tokens_, static_cast<int>(id) + 1);
    }
    answers.clear();
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < part.slots; ++i) {
      const std::int64_t label = target[row * part.slots + i];
      if (label == -1 || label == -100) continue;
      if (label < 0 || label > largest_id)
        refuse("{}: holds {} at [{}, {}]; an answer must lie in 0 .. {} (-100 or -1: none)",
               part.targets->path(), label, row, i, largest_id);
      const std::int64_t t = part.positions ? part.positions->numbers()[row * part.slots + i] : i;
      if (t < 0 || t >= part.T)
        refuse("{}: holds {} at [{}, {}]; the token at which an answer is due must lie in 0 .. {}",
               part.positions->path(), t, row, i, part.T - 1);
      if (t <= last)
        refuse("{}: holds {} at [{}, {}] after {}; positions of a sequence must rise", part.positions->path(),
               t, row, i, last);
      last = t;
      answers.push_back(static_cast<std::int32_t>(t));
      answers.push_back(static_cast<std::int32_t>(label));
      if (label >= std::ssize(part.label_counts))
        part.label_counts.resize(static_cast<std::size_t>(label) + 1);
      ++part.label_counts[static_cast<std::size_t>(label)];
    }
    if (answers.empty() && !some_silent) {
      some_silent = true;
      part.asking.resize(static_cast<std::size_t>(row));
      std::iota(part.asking.begin(), part.asking.end(), 0);
    }
    if (!answers.empty() && some_silent) part.asking.push_back(static_cast<std::int32_t>(row));
    part.Q = std::max<std::int64_t>(part.Q, std::ssize(answers) / 2);
    add(tokens);
    add(std::array{std::ssize(answers)});
    add(answers);
    if (part.segment) add(std::array{part.segment->numbers()[row]});
    if (row % 65536 == 65535 || row + 1 == part.N)
      for (const auto* array : {&part.tokens, &part.targets, &part.positions})
        if (*array) (*array)->let_go();
  }
}

void TokenData::leave_out_silent_rows(Part& part) {
  if (part.Q == 0)
    refuse("{}: asks nothing, all its labels are below 0; give at least one sequence a label",
           part.targets->path());
  if (part.asking.empty()) return;
  for (auto& [kind, rows] : part.rows)
    std::erase_if(rows, [&](std::int32_t row) {
      return !std::binary_search(part.asking.begin(), part.asking.end(), row);
    });
  std::erase_if(part.rows, [](const auto& kind) { return kind.second.empty(); });
}

TokenData::TokenData(const std::string& folder) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  std::vector<std::int64_t> seen;
  for (int split = 0; split < 3; ++split) {
    Part& part = parts_[static_cast<std::size_t>(split)];
    open(part, folder, split);
    scan(part, &state);
    leave_out_silent_rows(part);
    if (part.label_counts.size() > seen.size()) seen.resize(part.label_counts.size());
    for (std::size_t label = 0; label < part.label_counts.size(); ++label)
      seen[label] += part.label_counts[label];
  }
  labels_ = static_cast<int>(seen.size());
  different_labels_ = static_cast<int>(std::count_if(seen.begin(), seen.end(), [](auto n) { return n > 0; }));
  const std::vector<std::int64_t>& counts = parts_[0].label_counts;
  most_common_label_ = static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  for (const auto& [kind, rows] : parts_[1].rows) segments_.push_back(kind);
  for (const int other : {1, 2})
    for (const auto& [kind, rows] : parts_[static_cast<std::size_t>(other)].rows)
      if (parts_[static_cast<std::size_t>(3 - other)].rows.count(kind) == 0)
        refuse("{}: segment {} is in {} and not in {}; both need every segment", folder, kind,
               split_names[other], split_names[3 - other]);
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(&state));
  for (const unsigned char byte : digest.digest) content_ += fmt::format("{:02x}", byte);
}

std::shared_ptr<const TokenData> TokenData::of(const std::string& folder) {
  struct Entry {
    std::vector<std::int64_t> signature;
    std::shared_ptr<const TokenData> data;
  };
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, Entry>;  // never freed: the device may be gone by then
  const std::lock_guard lock(mutex);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    refuse(
        "task.folder = \"{}\": {} is no folder; it must hold train_inputs.npy and train_labels.npy and the "
        "same "
        "for eval and test, or what 'crosstalk sample --out' writes ('crosstalk describe tokens')",
        folder, fs::absolute(folder, ignored).string());
  Entry& entry = known[folder];
  std::vector<std::int64_t> now = signature(folder);
  if (!entry.data || entry.signature != now) {
    entry.data = std::make_shared<const TokenData>(folder);
    entry.signature = std::move(now);
  }
  return entry.data;
}

TokensSpec TokenData::spec(int segment) const {
  TokensSpec spec;
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    const Part& part = parts_[s];
    TokensPart& out = spec.part[s];
    out.tokens = part.tokens->numbers();
    out.targets = part.targets->numbers();
    if (part.positions) out.positions = part.positions->numbers();
    std::int64_t N = part.N;
    if (!part.asking.empty()) out.rows = part.asking.data(), N = std::ssize(part.asking);
    if (segment >= 0 && s > 0) {
      const auto& rows = part.rows.at(segments_.at(static_cast<std::size_t>(segment)));
      out.rows = rows.data();
      N = std::ssize(rows);
    }
    out.N = narrow<std::uint32_t>(N, "task.folder: sequences of a file");
    out.T = narrow<std::int32_t>(part.T, "task.folder: tokens of a sequence");
    out.slots = narrow<std::int32_t>(part.slots, "task.folder: answers of a sequence");
    out.Q = narrow<std::int32_t>(part.Q, "task.folder: answers of a sequence");
  }
  return spec;
}

int width_for(std::int64_t largest) {
  return largest <= std::numeric_limits<std::int8_t>::max()    ? 1
         : largest <= std::numeric_limits<std::int16_t>::max() ? 2
                                                               : 4;
}

void write_narrow(const TokenNumbers& numbers, std::int64_t first, std::int64_t count, int width, void* to) {
  const auto write = [&](auto* at) {
    using Number = std::remove_pointer_t<decltype(at)>;
    for (std::int64_t i = 0; i < count; ++i)
      at[i] = static_cast<Number>(std::max<std::int64_t>(numbers[first + i], -1));
  };
  if (width == 1) return write(static_cast<std::int8_t*>(to));
  if (width == 2) return write(static_cast<std::int16_t*>(to));
  write(static_cast<std::int32_t*>(to));
}

std::vector<TokenData::Piece> TokenData::pieces() const {
  std::vector<Piece> all;
  const auto add = [&](const std::unique_ptr<MappedIntegers>& array, std::int64_t largest) {
    if (!array) return;
    const TokenNumbers& numbers = array->numbers();
    const std::int64_t count = static_cast<std::int64_t>(array->bytes()) / numbers.bytes;
    const int width = width_for(largest);
    all.push_back({numbers.at, static_cast<std::size_t>(count * width), numbers, count, width});
  };
  const auto add_rows = [&](const std::vector<std::int32_t>& rows) {
    all.push_back({rows.data(), rows.size() * sizeof(rows[0]), {}, 0, 0});
  };
  for (const Part& part : parts_) {
    add(part.tokens, tokens_ - 1);
    add(part.targets, labels_ - 1);
    add(part.positions, part.T - 1);
    for (const auto& [kind, rows] : part.rows) add_rows(rows);
    if (!part.asking.empty()) add_rows(part.asking);
  }
  return all;
}

void TokenData::upload() const {
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = on_device_.try_emplace(cuda_current_device());
  if (!fresh) return;
  try {
    const auto aligned = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
    const std::vector<Piece> all = pieces();
    std::size_t bytes = 0, offset = 0;
    for (const Piece& piece : all) bytes += aligned(piece.bytes);
    OnDevice& there = entry->second;
    there.buffer = Buffer(Device::cuda, bytes);
    std::vector<std::int32_t> block(std::size_t{1} << 20);  // of a file, which need not fit into memory
    for (const Piece& piece : all) {
      if (piece.count == 0) there.buffer.copy_from_host(piece.at, piece.bytes, offset);
      for (std::int64_t i = 0; i < piece.count; i += std::ssize(block)) {
        const std::int64_t count = std::min<std::int64_t>(std::ssize(block), piece.count - i);
        write_narrow(piece.numbers, i, count, piece.width, block.data());
        there.buffer.copy_from_host(block.data(), static_cast<std::size_t>(count * piece.width),
                                    offset + static_cast<std::size_t>(i * piece.width));
      }
      there.places[piece.at] = {static_cast<const char*>(there.buffer.data()) + offset, piece.width, true};
      offset += aligned(piece.bytes);
    }
    for (const Part& part : parts_)
      for (const auto* array : {&part.tokens, &part.targets, &part.positions})
        if (*array) (*array)->let_go();
  } catch (...) {
    on_device_.erase(entry);
    throw;
  }
}

TokensSpec TokenData::uploaded(int segment) const {
  TokensSpec spec = this->spec(segment);
  const std::lock_guard lock(mutex_);
  const auto entry = on_device_.find(cuda_current_device());
  if (entry == on_device_.end())
    throw std::logic_error("[tasks] files were drawn on a device that lacks them");
  const auto& places = entry->second.places;
  for (TokensPart& part : spec.part) {
    for (TokenNumbers* numbers : {&part.tokens, &part.targets, &part.positions})
      if (numbers->at) *numbers = places.at(numbers->at);
    if (part.rows) part.rows = static_cast<const std::int32_t*>(places.at(part.rows).at);
  }
  return spec;
}

}  // namespace crosstalk
