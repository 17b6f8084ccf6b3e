// SPDX-License-Identifier: Apache-2.0
#include "tasks/text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/text/digest.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlock = std::int64_t{1} << 19;  // ids that are read at once
constexpr std::int64_t kMostIds = (std::int64_t{1} << 32) - 1;
constexpr const char* kKinds =
    "bytes (.txt, or any other ending), 16-bit ids (.bin), or an array of ids (.npy)";

/// Files of `folder` that hold text: one, or train and eval (val), or these and test.
std::vector<std::string> paths_in(const std::string& folder) {
  std::map<std::string, std::vector<std::string>> by_stem;
  std::vector<std::string> all;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const fs::path& path = at->path();
    if (!at->is_regular_file(ignored) || path.filename().string().starts_with('.')) continue;
    all.push_back(path.string());
    const std::string stem = path.stem() == "val" ? "eval" : path.stem().string();
    by_stem[stem].push_back(path.string());
  }
  std::sort(all.begin(), all.end());
  std::vector<std::string> parts;
  for (const char* split : split_names) {
    const auto found = by_stem.find(split);
    if (found == by_stem.end()) continue;
    std::sort(found->second.begin(), found->second.end());
    if (found->second.size() > 1)
      refuse_files("{} and {} say the same of {}; keep one, and move the other away", found->second[0],
                   found->second[1], split);
    parts.push_back(found->second[0]);
  }
  if (by_stem.contains("train") && by_stem.contains("eval")) return parts;
  if (!parts.empty())
    refuse_files(
        "{}: holds {}, and no {}; give train, eval and test (val is eval; without test it is the second half of eval), or one file alone, which is cut",
        folder, parts[0], by_stem.contains("train") ? "eval" : "train");
  if (all.empty())
    refuse_files(
        "{}: holds no file; task text needs one file there, which is cut into train, eval and test, or a file for each: {}",
        folder, kKinds);
  if (all.size() > 1)
    refuse_files(
        "{}: holds {} and {}; which of them is the text? Keep one file there, or name them train, eval and test",
        folder, all[0], all[1]);
  return all;
}

NpyLayout layout_of(const std::string& path) {
  if (path.ends_with(".npy")) return npy_layout(path);
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path, error));
  if (error) throw std::runtime_error(fmt::format("{}: cannot be read ({})", path, error.message()));
  if (!path.ends_with(".bin")) return {"|u1", {bytes}, 0, bytes};
  if (bytes % 2 != 0)
    throw std::runtime_error(
        fmt::format("{}: holds {} bytes, an odd number; a .bin is read as ids of 16 bits", path, bytes));
  return {"<u2", {bytes / 2}, 0, bytes};
}

std::unique_ptr<IntegerFile> opened(const std::string& path, std::size_t& room) {
  std::unique_ptr<IntegerFile> file;
  try {
    file = std::make_unique<IntegerFile>(path, layout_of(path), room);
  } catch (const std::runtime_error& error) {
    refuse_files("{}; task text reads {}", error.what(), kKinds);
  }
  if (file->shape().size() != 1)
    refuse_files("{}: has the shape {}; it must be [N], the ids of the text in a row: save array.reshape(-1)",
                 path, shape_text(file->shape()));
  if (file->count() > kMostIds)
    refuse_files("{}: holds {} ids; at most {} are read: give a part of it", path, file->count(), kMostIds);
  return file;
}

}  // namespace

TextData::TextData(const std::string& folder, std::size_t most_held) : GivenFiles(folder, paths_in(folder)) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (const std::string& path : paths_) {
    files_.push_back(opened(path, most_held));
    is_bytes_ = is_bytes_ && files_.back()->numbers().bytes == 1;
    scan(*files_.back(), &state);
  }
  if (is_bytes_) tokens_ = 256;
  end_reading();
  content_ = digest_text(XXH3_128bits_digest(&state));
}

void TextData::scan(const IntegerFile& file, void* hash) {
  auto* state = static_cast<XXH3_state_t*>(hash);
  std::vector<std::int64_t> room;
  const int width = file.numbers().bytes;
  const std::array<std::int64_t, 2> head = {file.count(), width};
  XXH3_128bits_update(state, head.data(), sizeof head);
  for (std::int64_t first = 0; first < file.count(); first += kBlock) {
    const std::int64_t n = std::min(kBlock, file.count() - first);
    const TokenNumbers ids = file.read(first, n, room);
    XXH3_128bits_update(state, ids.at, static_cast<std::size_t>(n * width));
    if (width == 1 && !ids.is_signed) continue;
    std::int64_t least = 0, most = 0;
    for (std::int64_t i = 0; i < n; ++i) least = std::min(least, ids[i]), most = std::max(most, ids[i]);
    if (least < 0 || most > largest_id)
      for (std::int64_t i = 0; i < n; ++i)
        if (ids[i] < 0 || ids[i] > largest_id)
          refuse_files("{}: holds {} at [{}]; an id must lie in 0 .. {}", file.path(), ids[i], first + i,
                       largest_id);
    tokens_ = std::max(tokens_, static_cast<int>(most) + 1);
  }
}

bool TextData::is_held() const {
  return std::all_of(files_.begin(), files_.end(), [](const auto& file) { return file->is_held(); });
}
bool TextData::is_broken() const {
  try {
    if (paths_in(folder()) != paths_) return true;  // another file came, or one went
  } catch (const OptionError&) {
    return true;
  }
  return std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file->is_broken(); });
}
std::string TextData::content_now() const { return TextData(folder(), 0).content(); }

TextSpec TextData::spec(std::int32_t length, double eval_share, double test_share) const {
  TextSpec spec;
  spec.length = length;
  const auto put = [&](Split split, std::int64_t first, std::int64_t end) {
    const auto s = static_cast<std::size_t>(split);
    if (end - first <= length)
      throw OptionError(
          "task.length",
          fmt::format(
              "task.length = {}: {} has {} tokens in {}; a window and the token behind it take {}: give shorter "
              "windows, or more text",
              length, split_names[s], std::max<std::int64_t>(0, end - first), file_of(s).path(),
              std::int64_t{length} + 1));
    spec.part[s] = {file_of(s).numbers(), first, static_cast<std::uint32_t>(end - first)};
  };
  if (!is_one_file()) {
    const std::int64_t eval = files_[1]->count(), half = files_.size() == 2 ? eval / 2 : eval;
    put(Split::train, 0, files_[0]->count());
    put(Split::eval, 0, half);
    if (files_.size() == 2)
      put(Split::test, half, eval);
    else
      put(Split::test, 0, files_[2]->count());
    return spec;
  }
  const std::int64_t all = files_[0]->count();
  const auto share = [&](double part) {
    return static_cast<std::int64_t>(std::llround(part * static_cast<double>(all)));
  };
  const std::int64_t test = all - share(test_share), eval = test - share(eval_share);
  put(Split::train, 0, eval);
  put(Split::eval, eval, test);
  put(Split::test, test, all);
  return spec;
}

TokenNumbers TextData::read(Split split, std::int64_t first, std::int64_t n) const {
  thread_local std::vector<std::int32_t> room;
  room.resize(static_cast<std::size_t>(n));
  file_of(static_cast<std::size_t>(split)).read_narrow(first, n, 4, 0, tokens_ - 1, room.data());
  return {room.data(), 4, true};
}

TextData::Unigrams TextData::unigrams(const TextSpec& spec) const {
  const TextPart& part = spec.part[0];
  const std::int64_t all = std::min<std::int64_t>(part.count, std::int64_t{1} << 22);
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = unigrams_.try_emplace(all);
  if (!fresh) return entry->second;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(tokens_));
  for (std::int64_t first = 0; first < all; first += kBlock) {
    const std::int64_t n = std::min(kBlock, all - first);
    const TokenNumbers ids = read(Split::train, part.first + first, n);
    for (std::int64_t i = 0; i < n; ++i) ++counts[static_cast<std::size_t>(ids[i])];
  }
  for (const std::int64_t count : counts)
    if (count > 0) {
      const double share = static_cast<double>(count) / static_cast<double>(all);
      entry->second.entropy -= share * std::log(share);
    }
  entry->second.most_common =
      static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  return entry->second;
}

void TextData::upload() const {
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = on_device_.try_emplace(cuda_current_device());
  if (!fresh) return;
  try {
    const int width = width_for(tokens_ - 1);
    std::vector<std::int32_t> block(static_cast<std::size_t>(kBlock));
    for (const auto& file : files_) {
      Buffer& there =
          entry->second.emplace_back(Device::cuda, static_cast<std::size_t>(file->count() * width));
      for (std::int64_t first = 0; first < file->count(); first += kBlock) {
        const std::int64_t n = std::min(kBlock, file->count() - first);
        file->read_narrow(first, n, width, 0, tokens_ - 1, block.data());
        there.copy_from_host(block.data(), static_cast<std::size_t>(n * width),
                             static_cast<std::size_t>(first * width));
      }
    }
  } catch (...) {
    on_device_.erase(entry);
    throw;
  }
}

TextSpec TextData::uploaded(TextSpec spec) const {
  const std::lock_guard lock(mutex_);
  const auto entry = on_device_.find(cuda_current_device());
  if (entry == on_device_.end())
    throw std::logic_error("[tasks] files were drawn on a device that lacks them");
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t f = 0; f < files_.size(); ++f)
      if (files_[f].get() == &file_of(s))
        spec.part[s].ids = {entry->second[f].data(), width_for(tokens_ - 1), true};
  return spec;
}

}  // namespace crosstalk
