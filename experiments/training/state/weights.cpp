// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/state/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/base/text/digest.h"
#include "kernels/base/text/file_stamps.h"
#include "kernels/base/text/npy.h"
#include "kernels/base/text/npz.h"
#include "models/model.h"
#include "results/store/store.h"
#include "results/store/weights.h"
#include "tasks/task.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFrom = "train.init_from";
constexpr const char* kDigest = "train.init_digest";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

template <class Real>
std::vector<std::int64_t> shape_of(const Tensor<Real>& tensor) {
  return {tensor.dims, tensor.dims + tensor.rank};
}

template <class Real>
std::string member(const WeightArray& array) {
  return npy_bytes(NpyArray<Real>{array.shape, {array.data.begin(), array.data.end()}}, array.name);
}

template <class Real>
WeightArray array_from(const std::string& name, const std::string& bytes, const std::string& path) {
  NpyArray<Real> array = npy_array<Real>(bytes, fmt::format("{}: {}", path, name));
  return {name, std::move(array.shape), {array.data.begin(), array.data.end()}};
}

/// The run of a store that a beginning of its id names, or the only one.
std::string run_in(const fs::path& store, const std::string& begin) {
  std::vector<std::string> found;
  const std::set<std::string> kept = kept_weights(store);
  for (const std::string& id : kept)
    if (id.rfind(begin, 0) == 0) found.push_back(id);
  if (found.size() == 1) return found[0];
  const std::string where = fs::absolute(store).lexically_normal().string();
  if (kept.empty())
    throw std::runtime_error(
        fmt::format("{} keeps no weights; train its runs with train.keep_weights = true", where));
  if (found.empty())
    throw std::runtime_error(
        fmt::format("{} keeps no weights of a run {}; it keeps those of {}{}", where, begin, *kept.begin(),
                    kept.size() > 1 ? fmt::format(" and {} more", kept.size() - 1) : ""));
  throw std::runtime_error(begin.empty() ? fmt::format("{} keeps the weights of {} runs; say which: {}:{}",
                                                       where, kept.size(), store.string(), found[0])
                                         : fmt::format("{} runs of {} begin with {}; give more of the id",
                                                       found.size(), where, begin));
}

/// The file, and the run whose weights it must hold; "" for any.
std::pair<fs::path, std::string> weights_file(const std::string& from) {
  std::error_code ignored;
  if (fs::is_regular_file(from, ignored)) return {from, ""};
  const std::size_t colon = from.rfind(':');
  const bool whole = fs::is_directory(from, ignored);
  const fs::path store = whole || colon == std::string::npos ? from : from.substr(0, colon);
  if (!fs::exists(store / "store.json", ignored))
    throw std::runtime_error(fmt::format("{} is neither a .npz file nor a store",
                                         fs::absolute(store).lexically_normal().string()));
  std::string run = whole || colon == std::string::npos ? "" : from.substr(colon + 1);
  if (run.find('@') == run.npos) run = run_in(store, run);  // those on the way: by their whole name
  return {weights_path(store, run), run};
}

/// Files are read once, as long as they stay as they are.
class Cache {
 public:
  std::shared_ptr<const Weights> get(const fs::path& file) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[file.string()];
    if (!entry.weights || !entry.stamps.changed().empty()) {
      FileStamps now({file.string()});
      entry = {std::move(now),
               std::make_shared<Weights>(weights_from_npz(read_weights(file), file.string()))};
    }
    return entry.weights;
  }

 private:
  struct Entry {
    FileStamps stamps;
    std::shared_ptr<const Weights> weights;
  };
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

/// The model that resolved options describe, or why these weights are not its.
std::string misfit_of(const Weights& weights, const Options& options) {
  const Vocabulary v = find_task(options.get_string("task.name"))->make(options)->vocabulary();
  const auto model = make_model<float>(options, v, Device::cpu, 1);
  return misfit(weights, model->parameters());
}

}  // namespace

template <class Real>
Weights weights_of(const ParameterBlock<Real>& block, Device device, int r) {
  Weights weights;
  weights.is_double = sizeof(Real) == sizeof(double);
  for (int i = 0; i < block.count(); ++i) {
    const Tensor<Real> tensor = block.value(i);
    std::vector<Real> host(static_cast<std::size_t>(tensor.size()));
    copy_to_host(device, host.data(), tensor.at(r), host.size() * sizeof(Real));
    weights.arrays.push_back({block.name(i), shape_of(tensor), {host.begin(), host.end()}});
  }
  return weights;
}

template <class Real>
void load_weights(const Weights& weights, ParameterBlock<Real>& block, Device device, int r) {
  if (const std::string why = misfit(weights, block); !why.empty()) throw std::runtime_error(why);
  std::map<std::string, const WeightArray*> by_name;
  for (const WeightArray& array : weights.arrays) by_name[array.name] = &array;
  for (int i = 0; i < block.count(); ++i) {
    const std::vector<double>& data = by_name.at(block.name(i))->data;
    const std::vector<Real> host(data.begin(), data.end());
    Real* target = block.value(i).at(r);
    if (device == Device::cuda) {
      cuda_copy_to_device(target, host.data(), host.size() * sizeof(Real));
    } else {
      std::copy(host.begin(), host.end(), target);
    }
  }
}

std::string to_npz(const Weights& weights) {
  NpzMembers members;
  for (const WeightArray& array : weights.arrays)
    members.emplace_back(array.name, weights.is_double ? member<double>(array) : member<float>(array));
  return npz_bytes(members);
}

Weights weights_from_npz(const std::string& bytes, const std::string& path) {
  Weights weights;
  weights.run = npz_comment(bytes, path);
  for (const auto& [name, content] : npz_members(bytes, path)) {
    const bool is_double = npy_type(content, fmt::format("{}: {}", path, name)) != "<f4";
    weights.is_double |= is_double;
    weights.arrays.push_back(is_double ? array_from<double>(name, content, path)
                                       : array_from<float>(name, content, path));
    for (const double x : weights.arrays.back().data)
      if (!std::isfinite(x)) throw std::runtime_error(fmt::format("{}: {} holds {}", path, name, x));
  }
  return weights;
}

void check_run(const Weights& weights, const std::string& run, const std::string& path) {
  if (!run.empty() && !weights.run.empty() && weights.run != run)
    throw std::runtime_error(
        fmt::format("{} holds the weights of run {}, not of {}", path, weights.run, run));
}

std::string digest(const Weights& weights) {
  std::map<std::string, const WeightArray*> sorted;
  for (const WeightArray& array : weights.arrays) sorted[array.name] = &array;
  std::string text;
  for (const auto& [name, array] : sorted) {
    text += fmt::format("{} {}\n", name, shape_text(array->shape));
    text.append(reinterpret_cast<const char*>(array->data.data()), array->data.size() * sizeof(double));
  }
  return digest_text(XXH3_128bits(text.data(), text.size()));
}

template <class Real>
std::string misfit(const Weights& weights, const ParameterBlock<Real>& block) {
  std::map<std::string, const WeightArray*> given;
  for (const WeightArray& array : weights.arrays) given[array.name] = &array;
  std::vector<std::string> missing, shapes, unknown;
  for (int i = 0; i < block.count(); ++i) {
    const auto found = given.find(block.name(i));
    if (found == given.end()) {
      missing.push_back(block.name(i));
      continue;
    }
    if (const auto wanted = shape_of(block.value(i)); found->second->shape != wanted)
      shapes.push_back(fmt::format("{} is {}, this model's is {}", block.name(i),
                                   shape_text(found->second->shape), shape_text(wanted)));
    given.erase(found);
  }
  for (const auto& [name, array] : given) unknown.push_back(name);
  std::vector<std::string> all;
  if (!missing.empty()) all.push_back(fmt::format("lacks {}", fmt::join(missing, ", ")));
  if (!unknown.empty())
    all.push_back(fmt::format("has {}, which this model has not", fmt::join(unknown, ", ")));
  all.insert(all.end(), shapes.begin(), shapes.end());
  return fmt::format("{}", fmt::join(all, "; "));
}

std::shared_ptr<const Weights> find_weights(const std::string& from) {
  static Cache cache;
  const auto [file, run] = weights_file(from);
  auto weights = cache.get(file);
  check_run(*weights, run, file.string());
  return weights;
}

void resolve_init_from(Options& options) {
  if (!options.has(kFrom)) return;
  const std::string from = options.get_string(kFrom), given = options.get_string(kDigest);
  const auto fail = [&](const char* key, const std::string& why) {
    throw OptionError(key, fmt::format("{} = {}: {}", key, to_text(options.at(key)), why));
  };
  if (from.empty()) {
    if (!given.empty()) fail(kDigest, "belongs to train.init_from, which is not set");
    return;
  }
  if (options.has("model.init") && !options.get_string("model.init").empty())
    fail("model.init",
         "train.init_from sets all parameters, so this would start none; leave one of them out");
  std::shared_ptr<const Weights> weights;
  try {
    weights = find_weights(from);
  } catch (const std::runtime_error& error) {
    fail(kFrom, error.what());
  }
  if (const std::string why = misfit_of(*weights, options); !why.empty()) fail(kFrom, why);
  const std::string found = digest(*weights);
  if (!given.empty() && given != found)
    fail(kDigest, fmt::format("what {} names has the digest {}", from, found));
  options.set(kDigest, found);
}

std::shared_ptr<const Weights> initial_weights(const Options& config) {
  if (!config.has(kFrom) || config.get_string(kFrom).empty()) return nullptr;
  const std::string& from = config.get_string(kFrom);
  std::string why = "holds other weights";
  try {
    auto weights = find_weights(from);
    if (digest(*weights) == config.get_string(kDigest)) return weights;
  } catch (const std::runtime_error& error) {
    why = fmt::format("is other ({})", error.what());
  }
  throw FilesChanged(
      kFrom,
      fmt::format(
          "{}: {} {} than when the study was read. Bring those back, and the same command trains what is "
          "missing; other weights make runs of their own",
          kFrom, from, why));
}

#define CROSSTALK_WEIGHTS(Real)                                                   \
  template Weights weights_of(const ParameterBlock<Real>&, Device, int);          \
  template void load_weights(const Weights&, ParameterBlock<Real>&, Device, int); \
  template std::string misfit(const Weights&, const ParameterBlock<Real>&);
CROSSTALK_WEIGHTS(float)
CROSSTALK_WEIGHTS(double)

}  // namespace crosstalk
