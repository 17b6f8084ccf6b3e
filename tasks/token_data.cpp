// SPDX-License-Identifier: Apache-2.0
#include "tasks/token_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <unordered_set>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/base/text/digest.h"
#include "kernels/base/text/narrow.h"
#include "kernels/base/text/npy.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_segments = 64;
constexpr std::int64_t most_numbers = std::int64_t{1}
                                      << 32;  // of an array, which are all looked at: half a minute

const std::vector<std::string> kArrays = {"inputs",    "tokens",   "labels",  "targets", "target",
                                          "positions", "position", "segment", "document"};

/// The file that holds one of `names` of a split, SPLIT_NAME.npy or SPLIT/NAME.npy; empty if there is none.
std::string find(const std::string& folder, int split, std::initializer_list<const char*> names) {
  std::error_code ignored;
  std::string found;
  for (const char* name : names)
    for (const char* between : {"_", "/"}) {
      const std::string path =
          (fs::path(folder) / fmt::format("{}{}{}.npy", split_names[split], between, name)).string();
      if (!fs::exists(path, ignored)) continue;
      if (!found.empty())
        refuse_files("{} and {} say the same of {}; keep those of one data set, and move the others away",
                     found, path, split_names[split]);
      found = path;
    }
  return found;
}

std::unique_ptr<IntegerFile> opened(const std::string& path, std::size_t rank, const char* shape,
                                    std::size_t& room) {
  std::unique_ptr<IntegerFile> array;
  try {
    array = std::make_unique<IntegerFile>(path, room);
  } catch (const std::runtime_error& error) {
    refuse_files("{}; task tokens needs whole numbers of shape {} there ('crosstalk describe tokens')",
                 error.what(), shape);
  }
  if (array->shape().size() != rank)
    refuse_files("{}: has the shape {}; it must be {}", path, shape_text(array->shape()), shape);
  for (const std::int64_t size : array->shape())
    if (size < 1 || size > std::int64_t{1} << 31)
      refuse_files("{}: has the shape {}; each size of {} must lie in 1 .. {}", path,
                   shape_text(array->shape()), shape, std::int64_t{1} << 31);
  if (array->count() > most_numbers)
    refuse_files("{}: holds {} numbers; at most {} are read: give fewer sequences", path, array->count(),
                 most_numbers);
  return array;
}

}  // namespace

IntegerFile::IntegerFile(const std::string& path, std::size_t& room)
    : IntegerFile(path, npy_layout(path), room) {}

IntegerFile::IntegerFile(const std::string& path, const NpyLayout& layout, std::size_t& room) : path_(path) {
  const std::string& type = layout.type;
  const bool whole =
      type.size() == 3 && (type[1] == 'i' || type[1] == 'u') && (type[0] == '<' || type[0] == '|');
  const int width = whole ? type[2] - '0' : 0;
  if (width != 1 && width != 2 && width != 4 && width != 8)
    throw std::runtime_error(fmt::format(
        "{}: holds elements of type '{}', not whole numbers; save array.astype('int64')", path, type));
  count_ = 1;
  for (const std::int64_t size : layout.shape) count_ *= size;
  if (layout.bytes != count_ * width)
    throw std::runtime_error(fmt::format("{}: holds {} bytes of data where its shape says {}", path,
                                         layout.bytes, count_ * width));
  shape_ = layout.shape;
  offset_ = layout.offset;
  numbers_ = {nullptr, width, type[1] == 'i'};
  const auto bytes = static_cast<std::size_t>(layout.bytes);
  if (layout.fortran && bytes > TokenData::kHeld)
    throw std::runtime_error(
        fmt::format("{}: is in Fortran order, which is read of at most 1 GiB, and holds {:.1f}; save "
                    "numpy.ascontiguousarray(array)",
                    path, static_cast<double>(bytes) / static_cast<double>(TokenData::kHeld)));
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) throw std::runtime_error(fmt::format("{}: cannot be read ({})", path, std::strerror(errno)));
  if (bytes > room && !layout.fortran) return;
  numbers_ = read(0, count_, held_);
  if (layout.fortran) {
    std::vector<std::int64_t> ordered(held_.size());
    put_in_c_order(shape_, static_cast<std::size_t>(width), reinterpret_cast<const char*>(held_.data()),
                   reinterpret_cast<char*>(ordered.data()));
    held_ = std::move(ordered);
    numbers_.at = held_.data();
  }
  ::close(std::exchange(file_, -1));
  if (broken_) throw std::runtime_error(fmt::format("{}: cannot be read to its end", path));
  room -= std::min(room, bytes);
}

IntegerFile::~IntegerFile() {
  if (file_ >= 0) ::close(file_);
}

TokenNumbers IntegerFile::read(std::int64_t first, std::int64_t n, std::vector<std::int64_t>& room) const {
  TokenNumbers numbers = numbers_;
  if (is_held()) {
    numbers.at = static_cast<const char*>(numbers.at) + first * numbers.bytes;
    return numbers;
  }
  const auto bytes = static_cast<std::size_t>(n * numbers.bytes);
  room.assign((bytes + 7) / 8, 0);
  auto* to = reinterpret_cast<char*>(room.data());
  numbers.at = to;
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(file_, to + done, bytes - done,
                static_cast<off_t>(offset_ + first * numbers.bytes) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      broken_ = true;
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return numbers;
}

void IntegerFile::read_narrow(std::int64_t first, std::int64_t n, int width, std::int64_t least,
                              std::int64_t most, void* to) const {
  thread_local std::vector<std::int64_t> room;
  if (!write_narrow(read(first, n, room), n, width, least, most, to)) broken_ = true;
}

void TokenData::open(Part& part, const std::string& folder, int split, std::size_t& room) {
  const std::string name = split_names[split];
  const std::string tokens = find(folder, split, {"inputs", "tokens"});
  if (tokens.empty()) {
    if (!find(folder, split, {"keys"}).empty())
      refuse_files("{}: holds keys and values, tokens of two numbers; task file reads those", folder);
    refuse_files("{0}: holds no {1}_inputs.npy, {1}_tokens.npy or {1}/tokens.npy; {2}", folder, name,
                 remedy_for(folder).value_or(fmt::format(
                     "task tokens needs the sequences of {} there ('crosstalk describe tokens')", name)));
  }
  part.tokens = opened(tokens, 2, "[N,T] (N sequences of T tokens)", room);
  part.N = part.tokens->shape()[0], part.T = part.tokens->shape()[1];
  if (part.T > largest_id)
    refuse_files("{}: sequences of {} tokens; at most {} are supported", tokens, part.T, largest_id);
  const std::string positions = find(folder, split, {"positions", "position"});
  const std::string labels = find(folder, split, {"labels", "targets", "target"});
  if (!positions.empty() && labels.ends_with("labels.npy"))
    refuse_files(
        "{}: labels stand at all tokens, and {} is there too; keep one of them, or name the labels targets.npy",
        labels, positions);
  if (labels.empty())
    refuse_files(
        "{0}: holds no {1}_labels.npy (or {1}_positions.npy and {1}_targets.npy), what is right at which token of {2}",
        folder, name, tokens);
  part.targets = opened(labels, 2,
                        positions.empty() ? "[N,T] (a label for each token, -100 or -1: none)"
                                          : "[N,Q] (N sequences of Q answers each)",
                        room);
  part.slots = part.targets->shape()[1];
  if (positions.empty()) {
    if (part.targets->shape() != part.tokens->shape())
      refuse_files("{}: has the shape {}; labels stand beside the tokens of {}, so it must be {}", labels,
                   shape_text(part.targets->shape()), tokens, shape_text(part.tokens->shape()));
  } else {
    part.positions = opened(positions, 2, "[N,Q] (N sequences of Q answers each)", room);
    if (part.targets->shape()[0] != part.N)
      refuse_files("{}: has the shape {}; there are {} sequences in {}, so it must be [{}, Q]", labels,
                   shape_text(part.targets->shape()), part.N, tokens, part.N);
    if (part.positions->shape() != part.targets->shape())
      refuse_files("{}: has the shape {}; it must be that of {}, {}", positions,
                   shape_text(part.positions->shape()), labels, shape_text(part.targets->shape()));
  }
  if (const std::string document = find(folder, split, {"document"}); !document.empty()) {
    if (part.positions)
      refuse_files(
          "{}: documents are cut out of rows that have labels at their tokens; {} is there: name the answers labels.npy, [N,T]",
          document, positions);
    part.document = opened(document, 2, "[N,T] (the number of the document of each token)", room);
    if (part.document->shape() != part.tokens->shape())
      refuse_files(
          "{}: has the shape {}; numbers of documents stand beside the tokens of {}, so it must be {}",
          document, shape_text(part.document->shape()), tokens, shape_text(part.tokens->shape()));
  }
  const std::string segment = find(folder, split, {"segment"});
  if (segment.empty() || split == 0) return;
  std::size_t all = std::numeric_limits<std::size_t>::max();
  part.segment = opened(segment, 1, "[N] (the kind of each sequence)", all);
  if (part.segment->shape()[0] != part.N)
    refuse_files("{}: has the shape {}; there are {} sequences in {}, so it must be [{}]", segment,
                 shape_text(part.segment->shape()), part.N, tokens, part.N);
  for (std::int64_t row = 0; row < part.N; ++row) {
    const std::int64_t kind = part.segment->numbers()[row];
    if (kind < 0 || kind > largest_id)
      refuse_files("{}: holds {} at [{}]; a segment must lie in 0 .. {}", segment, kind, row, largest_id);
    part.rows[kind].push_back(static_cast<std::int32_t>(row));
  }
  if (part.rows.size() > most_segments)
    refuse_files("{}: names {} segments; at most {} are supported", segment, part.rows.size(), most_segments);
}

std::vector<std::int64_t> TokenData::cut(Part& part, std::int64_t row) {
  std::vector<std::int64_t> room, lengths;
  const TokenNumbers number = part.document->read(row * part.T, part.T, room);
  std::unordered_set<std::int64_t> ended;
  for (std::int64_t t = 0; t < part.T; ++t) {
    const std::int64_t one = number[t];
    if (one < 0)
      refuse_files(
          "{}: holds {} at [{}, {}]; the number of a document is at least 0 (padding: one of its own, without labels)",
          part.document->path(), one, row, t);
    if (t > 0 && one == number[t - 1]) {
      ++lengths.back();
      continue;
    }
    if (!ended.insert(one).second)
      refuse_files("{}: holds {} at [{}, {}] again, behind another document; a document lies in one piece",
                   part.document->path(), one, row, t);
    lengths.push_back(1);
  }
  std::int64_t begin = row * part.T;
  for (const std::int64_t length : lengths) {
    part.documents.push_back({begin, length});
    begin += length;
  }
  return lengths;
}

void TokenData::scan(Part& part, void* hash) {
  auto* state = static_cast<XXH3_state_t*>(hash);
  const auto add = [&](const auto& data) {
    XXH3_128bits_update(state, data.data(), data.size() * sizeof(data[0]));
  };
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(part.T)), answers;
  std::vector<std::int64_t> rooms[3];
  TokenNumbers token, target, position;  // of `block` rows
  const std::int64_t block = std::max<std::int64_t>(1, (1 << 16) / std::max(part.T, part.slots));
  add(std::array{part.N, part.T});
  bool some_silent = false;
  std::int64_t sequences = 0;
  const auto count = [&](std::int64_t asked) {  // answers of the next sequence
    if (asked == 0 && !some_silent) {
      some_silent = true;
      part.asking.resize(static_cast<std::size_t>(sequences));
      std::iota(part.asking.begin(), part.asking.end(), 0);
    }
    if (asked > 0 && some_silent) part.asking.push_back(static_cast<std::int32_t>(sequences));
    part.Q = std::max(part.Q, asked);
    ++sequences;
  };
  for (std::int64_t row = 0; row < part.N; ++row) {
    const std::int64_t in_block = row % block;
    if (in_block == 0) {
      const std::int64_t rows = std::min(block, part.N - row);
      token = part.tokens->read(row * part.T, rows * part.T, rooms[0]);
      target = part.targets->read(row * part.slots, rows * part.slots, rooms[1]);
      if (part.positions) position = part.positions->read(row * part.slots, rows * part.slots, rooms[2]);
    }
    for (std::int64_t t = 0; t < part.T; ++t) {
      const std::int64_t id = token[in_block * part.T + t];
      if (id < 0 || id > largest_id)
        refuse_files("{}: holds {} at [{}, {}]; a token must lie in 0 .. {}", part.tokens->path(), id, row, t,
                     largest_id);
      tokens[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(id);
      tokens_ = std::max(tokens_, static_cast<int>(id) + 1);
    }
    answers.clear();
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < part.slots; ++i) {
      const std::int64_t label = target[in_block * part.slots + i];
      if (label == -1 || label == -100) continue;
      if (!target.is_signed && is_wrapped(target.bytes, label))
        refuse_files("{}: {}", part.targets->path(),
                     wrapped_text(target.bytes, label, fmt::format("[{}, {}]", row, i)));
      if (label < 0 || label > largest_id)
        refuse_files("{}: holds {} at [{}, {}]; an answer must lie in 0 .. {} (-100 or -1: none)",
                     part.targets->path(), label, row, i, largest_id);
      const std::int64_t t = part.positions ? position[in_block * part.slots + i] : i;
      if (t < 0 || t >= part.T)
        refuse_files("{}: holds {} at [{}, {}]; the token at which an answer is due must lie in 0 .. {}",
                     part.positions->path(), t, row, i, part.T - 1);
      if (t <= last)
        refuse_files("{}: holds {} at [{}, {}] after {}; positions of a sequence must rise",
                     part.positions->path(), t, row, i, last);
      last = t;
      answers.push_back(static_cast<std::int32_t>(t));
      answers.push_back(static_cast<std::int32_t>(label));
      if (label >= std::ssize(part.label_counts))
        part.label_counts.resize(static_cast<std::size_t>(label) + 1);
      ++part.label_counts[static_cast<std::size_t>(label)];
    }
    if (part.document) {
      std::int64_t end = 0;
      std::size_t i = 0;
      const std::vector<std::int64_t> lengths = cut(part, row);
      for (const std::int64_t length : lengths) {
        const std::size_t before = i;
        for (end += length; i < answers.size() && answers[i] < end;) i += 2;
        count(static_cast<std::int64_t>(i - before) / 2);
      }
      add(lengths);
    } else {
      count(std::ssize(answers) / 2);
    }
    add(tokens);
    add(std::array{std::ssize(answers)});
    add(answers);
    if (part.segment) add(std::array{part.segment->numbers()[row]});
  }
  if (!part.document) return;
  std::map<std::int64_t, std::vector<std::int32_t>> kinds;  // of documents, from those of rows
  for (std::int64_t i = 0; i < sequences && part.segment; ++i)
    kinds[part.segment->numbers()[part.documents[static_cast<std::size_t>(i)].begin / part.T]].push_back(
        static_cast<std::int32_t>(i));
  part.rows = std::move(kinds);
  part.document.reset();
  part.N = sequences;
}

void TokenData::leave_out_silent_rows(Part& part) {
  if (part.Q == 0)
    refuse_files("{}: asks nothing, all its labels are below 0; give at least one sequence a label",
                 part.targets->path());
  if (!part.documents.empty()) {
    part.T = 0;
    for (const TokenDocument& one : part.documents) {
      const auto number = static_cast<std::int32_t>(&one - part.documents.data());
      if (part.asking.empty() || std::binary_search(part.asking.begin(), part.asking.end(), number))
        part.T = std::max(part.T, one.length);
    }
  }
  if (part.asking.empty()) return;
  unused_.push_back(fmt::format("{} of the {} {} of {} have no label and are left out",
                                part.N - std::ssize(part.asking), part.N,
                                part.documents.empty() ? "sequences" : "documents", part.tokens->path()));
  for (auto& [kind, rows] : part.rows)
    std::erase_if(rows, [&](std::int32_t row) {
      return !std::binary_search(part.asking.begin(), part.asking.end(), row);
    });
  std::erase_if(part.rows, [](const auto& kind) { return kind.second.empty(); });
}

TokenData::TokenData(const std::string& folder, std::size_t most_held)
    : GivenFiles(folder, arrays_in(folder, kArrays)) {
  refuse_others(folder, kArrays, false);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  std::vector<std::int64_t> seen;
  for (int split = 0; split < 3; ++split) {
    Part& part = parts_[static_cast<std::size_t>(split)];
    open(part, folder, split, most_held);
    scan(part, &state);
    leave_out_silent_rows(part);
    if (part.label_counts.size() > seen.size()) seen.resize(part.label_counts.size());
    for (std::size_t label = 0; label < part.label_counts.size(); ++label)
      seen[label] += part.label_counts[label];
  }
  refuse_others(folder, kArrays, true);
  labels_ = static_cast<int>(seen.size());
  different_labels_ = static_cast<int>(std::count_if(seen.begin(), seen.end(), [](auto n) { return n > 0; }));
  const std::vector<std::int64_t>& counts = parts_[0].label_counts;
  most_common_label_ = static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  for (const auto& [kind, rows] : parts_[1].rows) segments_.push_back(kind);
  for (const int other : {1, 2})
    for (const auto& [kind, rows] : parts_[static_cast<std::size_t>(other)].rows)
      if (parts_[static_cast<std::size_t>(3 - other)].rows.count(kind) == 0)
        refuse_files("{}: segment {} is in {} and not in {}; both need every segment", folder, kind,
                     split_names[other], split_names[3 - other]);
  const auto all = files();
  is_held_ = std::all_of(all.begin(), all.end(), [](const IntegerFile* file) { return file->is_held(); });
  end_reading();
  content_ = digest_text(XXH3_128bits_digest(&state));
}

std::vector<const IntegerFile*> TokenData::files() const {
  std::vector<const IntegerFile*> all;
  for (const Part& part : parts_)
    for (const auto* file : {&part.tokens, &part.targets, &part.positions})
      if (*file) all.push_back(file->get());
  return all;
}

bool TokenData::is_broken() const {
  const auto all = files();
  return std::any_of(all.begin(), all.end(), [](const IntegerFile* file) { return file->is_broken(); });
}

std::string TokenData::content_now() const { return TokenData(folder(), 0).content(); }

TokensSpec TokenData::spec(int segment) const {
  const auto all = files();
  return spec(segment, [&](const void* key) -> TokenNumbers {
    for (const IntegerFile* file : all)
      if (file == key) return file->numbers();
    return {key};
  });
}

TokensSpec TokenData::spec(int segment, const std::function<TokenNumbers(const void* key)>& place) const {
  TokensSpec spec;
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    const Part& part = parts_[s];
    TokensPart& out = spec.part[s];
    out.tokens = place(part.tokens.get());
    out.targets = place(part.targets.get());
    if (part.positions) out.positions = place(part.positions.get());
    const std::vector<std::int32_t>* rows = part.asking.empty() ? nullptr : &part.asking;
    if (segment >= 0 && s > 0) rows = &part.rows.at(segments_.at(static_cast<std::size_t>(segment)));
    if (rows) out.rows = static_cast<const std::int32_t*>(place(rows->data()).at);
    if (!part.documents.empty())
      out.documents = static_cast<const TokenDocument*>(place(part.documents.data()).at);
    out.N = narrow<std::uint32_t>(rows ? std::ssize(*rows) : part.N, "task.folder: sequences of a file");
    out.T = narrow<std::int32_t>(part.T, "task.folder: tokens of a sequence");
    out.slots = narrow<std::int32_t>(part.slots, "task.folder: answers of a sequence");
    out.Q = narrow<std::int32_t>(part.Q, "task.folder: answers of a sequence");
  }
  return spec;
}

TokensPart TokenData::row_of(Split split, std::int64_t row) const {
  thread_local std::vector<std::int32_t> rooms[3];
  const Part& part = parts_.at(static_cast<std::size_t>(split));
  const auto read = [&](const IntegerFile& file, std::int64_t n, std::int64_t least, std::int64_t most,
                        std::vector<std::int32_t>& room) -> TokenNumbers {
    room.assign(static_cast<std::size_t>(n), static_cast<std::int32_t>(least));  // behind a document
    const TokenDocument one =
        part.documents.empty() ? TokenDocument{row * n, n} : part.documents[static_cast<std::size_t>(row)];
    file.read_narrow(one.begin, one.length, 4, least, most, room.data());
    return {room.data(), 4, true};
  };
  TokensPart one;
  one.tokens = read(*part.tokens, part.T, 0, tokens_ - 1, rooms[0]);
  const std::int64_t slots = part.documents.empty() ? part.slots : part.T;
  one.targets = read(*part.targets, slots, -1, labels_ - 1, rooms[1]);
  if (part.positions) one.positions = read(*part.positions, slots, 0, part.T - 1, rooms[2]);
  one.N = 1;
  one.T = static_cast<std::int32_t>(part.T), one.slots = static_cast<std::int32_t>(slots);
  return one;
}

int width_for(std::int64_t largest) {
  return largest <= std::numeric_limits<std::int8_t>::max()    ? 1
         : largest <= std::numeric_limits<std::int16_t>::max() ? 2
                                                               : 4;
}

bool write_narrow(const TokenNumbers& numbers, std::int64_t n, int width, std::int64_t least,
                  std::int64_t most, void* to) {
  std::int64_t largest = most;
  const auto write = [&](auto* at) {
    using Number = std::remove_pointer_t<decltype(at)>;
    for (std::int64_t i = 0; i < n; ++i) {
      largest = std::max(largest, numbers[i]);
      at[i] = static_cast<Number>(std::clamp(numbers[i], least, most));
    }
  };
  if (width == 1) {
    write(static_cast<std::int8_t*>(to));
  } else if (width == 2) {
    write(static_cast<std::int16_t*>(to));
  } else {
    write(static_cast<std::int32_t*>(to));
  }
  return largest == most;
}

std::vector<TokenData::Piece> TokenData::pieces() const {
  std::vector<Piece> all;
  const auto add = [&](const std::unique_ptr<IntegerFile>& file, std::int64_t least, std::int64_t most) {
    if (!file) return;
    const int width = width_for(most);
    all.push_back(
        {file.get(), file.get(), static_cast<std::size_t>(file->count() * width), width, least, most});
  };
  const auto add_rows = [&](const auto& rows) {
    all.push_back({rows.data(), nullptr, rows.size() * sizeof(rows[0])});
  };
  for (const Part& part : parts_) {
    add(part.tokens, 0, tokens_ - 1);
    add(part.targets, -1, labels_ - 1);
    add(part.positions, 0, part.T - 1);
    for (const auto& [kind, rows] : part.rows) add_rows(rows);
    if (!part.asking.empty()) add_rows(part.asking);
    if (!part.documents.empty()) add_rows(part.documents);
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
      if (!piece.file) there.buffer.copy_from_host(piece.key, piece.bytes, offset);
      for (std::int64_t i = 0; piece.file && i < piece.file->count(); i += std::ssize(block)) {
        const std::int64_t count = std::min<std::int64_t>(std::ssize(block), piece.file->count() - i);
        piece.file->read_narrow(i, count, piece.width, piece.least, piece.most, block.data());
        there.buffer.copy_from_host(block.data(), static_cast<std::size_t>(count * piece.width),
                                    offset + static_cast<std::size_t>(i * piece.width));
      }
      there.places[piece.key] = {static_cast<const char*>(there.buffer.data()) + offset, piece.width, true};
      offset += aligned(piece.bytes);
    }
  } catch (...) {
    on_device_.erase(entry);
    throw;
  }
}

TokensSpec TokenData::uploaded(int segment) const {
  const std::lock_guard lock(mutex_);
  const auto entry = on_device_.find(cuda_current_device());
  if (entry == on_device_.end())
    throw std::logic_error("[tasks] files were drawn on a device that lacks them");
  return spec(segment, [&](const void* key) { return entry->second.places.at(key); });
}

}  // namespace crosstalk
