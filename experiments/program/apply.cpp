// crosstalk apply: one memory, forward and backward, on tensors from files.
// SPDX-License-Identifier: Apache-2.0
#include "models/apply_model.h"
#include "models/documents.h"
#include "models/rules/rule_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "experiments/common/command.h"
#include "experiments/common/devices.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/study/study.h"
#include "experiments/study/toml_reader.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/base/text/npy.h"
#include "results/printable.h"
#include "results/store/files.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;
using Array = NpyArray<double>;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

const Memory& named(const std::string& name) {
  if (const Memory* kind = find_memory(name)) return *kind;
  throw UsageError(
      fmt::format("apply: unknown memory '{}'; {}", name, suggestion(name, names_of(all_memories()), "'")));
}

/// float64 or float32, as double; nothing if there is no such file.
std::optional<Array> read_array(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status itself = fs::symlink_status(path, ignored);
  if (!fs::exists(itself)) return std::nullopt;
  if (fs::is_symlink(itself) && !fs::exists(path, ignored))
    throw UsageError(fmt::format("apply: {} is a symbolic link that leads nowhere", path.string()));
  if (!fs::is_regular_file(path, ignored))
    throw UsageError(fmt::format("apply: {} is not a file", path.string()));
  Array array;
  try {
    const std::string bytes = read_file(FileSystem::real(), path);
    if (npy_type(bytes, path.string()) == "<f4") {
      const NpyArray<float> single = npy_array<float>(bytes, path.string());
      array.shape = single.shape;
      array.data.assign(single.data.begin(), single.data.end());
    } else {
      array = npy_array<double>(bytes, path.string());
    }
  } catch (const std::runtime_error& other) {
    throw UsageError(
        fmt::format("apply: {}; inputs are little-endian float64 or float32 in C order", other.what()));
  }
  for (std::size_t i = 0; i < array.data.size(); ++i) {
    const bool none = array.data[i] == -INFINITY && path.stem().string().rfind("log_decay", 0) == 0;
    if (!std::isfinite(array.data[i]) && !none)
      throw UsageError(fmt::format("apply: {} holds {} at element {}; all must be finite", path.string(),
                                   array.data[i], i));
  }
  return array;
}

struct Inputs {
  ApplySizes sizes;
  std::map<std::string, Array> arrays;
  std::vector<std::string> present;
  std::optional<Array> cotangent;
  std::optional<Documents> documents;  ///< where the sequences hold several
};

std::vector<std::int64_t> wide(const std::vector<int>& dims) { return {dims.begin(), dims.end()}; }

void expect_shape(const fs::path& path, const Array& array, const std::vector<std::int64_t>& dims,
                  const std::string& letters) {
  if (array.shape != dims)
    throw UsageError(fmt::format("apply: {} has shape {}; expected {} = {}", path.string(),
                                 shape_text(array.shape), letters, shape_text(dims)));
}

/// A decay that grows would be taken without a word, and forms would differ by how far they get.
void expect_range(const fs::path& path, const std::string& name, const Array& array) {
  const bool logarithm = name.rfind("log_decay", 0) == 0, sign = name == "signed_decay";
  if (!logarithm && !sign) return;
  for (std::size_t i = 0; i < array.data.size(); ++i) {
    const double x = array.data[i];
    if (logarithm ? x <= 0 : std::abs(x) <= 1) continue;
    throw UsageError(fmt::format(
        "apply: {} holds {} at element {}; {}", path.string(), x, i,
        logarithm
            ? "a decay is given by its logarithm, which is 0 or negative (alpha = e^log_decay, at most 1)"
            : "a decay with a sign lies between -1 and 1"));
  }
}

/// "a.npy, b.npy and 3 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kSome = 4;
  if (names.size() <= kSome) return join(names, ", ", " and ");
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kSome, ", "),
                     names.size() - kSome);
}

/// Arrays of a folder, by file name, that `known` does not name.
std::vector<std::string> arrays_beside(const fs::path& folder, const std::vector<std::string>& known) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const fs::path path = at->path();
    if (path.extension() == ".npy" && std::ranges::find(known, path.stem().string()) == known.end())
      names.push_back(printable_line(path.filename().string()));
  }
  std::ranges::sort(names);
  return names;
}

/// Names of files beside inputs; a law may call an input of its own so.
const std::vector<std::string> kResets = {"reset", "cu_seqlens"};

/// What stands in the files goes into the equation, but for files of other names: says which.
void warn_of_surplus(const Memory& kind, const fs::path& folder, Console& console) {
  std::vector<std::string> inputs = {"d_o"};
  for (const ApplyInput& input : apply_inputs(kind, {})) inputs.push_back(input.name);
  std::vector<std::string> known = inputs;
  known.insert(known.end(), kResets.begin(), kResets.end());
  const std::vector<std::string> surplus = arrays_beside(folder, known);
  if (!surplus.empty())
    print_warning(console, fmt::format("{} does not read {} in {}; its inputs are {}", kind.name,
                                       some_of(surplus), folder.string(), join(inputs, ", ", " and ")));
}

/// What reset.npy or cu_seqlens.npy says of a folder's sequences.
std::optional<Documents> read_documents(const Memory& kind, const Inputs& inputs, const fs::path& folder) {
  const int B = inputs.sizes.B, T = inputs.sizes.T;
  std::optional<std::vector<std::int64_t>> reset;
  for (const std::string& name : kResets) {
    const fs::path path = folder / (name + ".npy");
    std::error_code ignored;
    if (inputs.arrays.count(name) != 0 || !fs::exists(path, ignored)) continue;
    if (reset)
      throw UsageError(
          fmt::format("apply: {} and reset.npy both say where documents begin; keep one", path.string()));
    try {
      const NpyArray<std::int64_t> array = read_npy_integers(path.string());
      const bool added = name == "cu_seqlens";
      if (added ? array.shape.size() != 1 : array.shape != std::vector<std::int64_t>{B, T})
        throw std::invalid_argument(
            fmt::format("has shape {}; expected {}", shape_text(array.shape),
                        added ? "[N + 1], N documents" : fmt::format("[B,T] = [{},{}]", B, T)));
      reset = added ? reset_of(array.data, B, T) : array.data;
      static_cast<void>(documents_of(*reset, B, T, false));
    } catch (const std::exception& error) {
      throw UsageError(fmt::format("apply: {}: {}", path.string(), error.what()));
    }
  }
  if (!reset) return {};
  bool starts = false;
  for (const ApplyInput& input : apply_inputs(kind, inputs.sizes))
    starts = starts || (part_of(input.shape, input.optional) == InputPart::start &&
                        inputs.arrays.count(input.name) != 0);
  return documents_of(*reset, B, T, starts);
}

/// Sizes from q, k and v, then every input against its shape.
Inputs read_inputs(const Memory& kind, const std::map<std::string, OptionValue>& given,
                   const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw UsageError(fmt::format("apply: --in {} is not a folder", folder.string()));
  Inputs inputs;
  const auto file = [&](const std::string& name) { return folder / (name + ".npy"); };
  const auto expected = [&](const std::string& name) {
    for (const ApplyInput& input : apply_inputs(kind, inputs.sizes))
      if (input.name == name) return input.shape;
    return std::string();
  };
  const auto needed = [&](const std::string& name) {
    auto array = read_array(file(name));
    if (!array)
      throw UsageError(fmt::format("apply: {} is missing; {} needs {} of shape {}", file(name).string(),
                                   kind.name, name, expected(name)));
    return *array;
  };
  const auto size = [&](const std::string& name, const Array& array, std::size_t rank) {
    if (array.shape.size() != rank)
      throw UsageError(fmt::format("apply: {} has shape {}; expected {}", file(name).string(),
                                   shape_text(array.shape), expected(name)));
    for (const std::int64_t n : array.shape) {
      if (n < 1 || n > 1 << 28)
        throw UsageError(fmt::format("apply: {} has shape {}; every size must be at least 1",
                                     file(name).string(), shape_text(array.shape)));
    }
  };
  const Array v = needed("v"), q = kind.own_queries ? needed("q") : v;
  const std::size_t rank_v = expected("v").find('N') == std::string::npos ? 4 : 5;
  size("v", v, rank_v);
  if (kind.own_queries) size("q", q, 4);
  const auto at = [](const Array& array, std::size_t i) { return static_cast<int>(array.shape[i]); };
  inputs.sizes = {.B = at(q, 0),
                  .T = at(q, 1),
                  .H = at(q, 2),
                  .K = at(q, 3),
                  .V = at(v, rank_v - 1),
                  .N = rank_v == 5 ? at(v, 2) : 1};
  inputs.sizes = with_letters(kind, inputs.sizes, given);
  for (const ApplyInput& input : apply_inputs(kind, inputs.sizes)) {
    auto array = read_array(file(input.name));
    if (!array && !input.optional) array = needed(input.name);
    if (!array) continue;
    expect_shape(file(input.name), *array, wide(input.dims), input.shape);
    expect_range(file(input.name), input.name, *array);
    if (input.optional) inputs.present.push_back(input.name);
    inputs.arrays[input.name] = std::move(*array);
  }
  const ApplySizes& s = inputs.sizes;
  inputs.cotangent = read_array(file("d_o"));
  if (inputs.cotangent) expect_shape(file("d_o"), *inputs.cotangent, {s.B, s.T, s.H, s.V}, "[B,T,H,V]");
  inputs.documents = read_documents(kind, inputs, folder);
  return inputs;
}

std::map<std::string, OptionValue> settings_of(const Memory& kind, const Arguments& arguments) {
  std::vector<OptionSpec> specs = kind.options;
  const std::vector<OptionSpec> extra = apply_extra_options(kind);
  specs.insert(specs.end(), extra.begin(), extra.end());
  const std::vector<std::string> names = names_of(specs);
  std::map<std::string, OptionValue> given;
  for (const std::string& set : arguments.all("set")) {
    const auto equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("apply: --set {}: needs OPTION=VALUE, for example scale=0.125", set));
    std::string name = set.substr(0, equals);
    const std::string text = set.substr(equals + 1);
    if (name == "model.layer")
      throw UsageError(fmt::format(
          "apply: --set {}: model.layer belongs to the language model: apply holds the bare recurrence; leave it out",
          set));
    if (name.rfind("memory.", 0) == 0) name = name.substr(7);
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) {
      const std::string near = nearest_name(name, names);
      throw UsageError(fmt::format("apply: --set {}: {} has no option {}; {}", set, kind.name, name,
                                   near.empty() ? "its options are " + join(names, ", ", " and ")
                                                : fmt::format("did you mean {}?", near)));
    }
    try {
      const OptionValue value = check_option(specs[static_cast<std::size_t>(at - names.begin())], "memory",
                                             parse_toml_scalar(text).value_or(text));
      const auto [known, is_new] = given.emplace(name, value);
      if (!is_new && known->second != value)
        throw UsageError(
            fmt::format("apply: --set {}: {} is {} already, by another --set; keep one of the two", set, name,
                        to_text(known->second)));
    } catch (const OptionError& error) {
      throw UsageError(fmt::format("apply: --set {}: {}", set, error.what()));
    }
  }
  return given;
}

template <class Real>
Array array_of(const Tensor<Real>& tensor, std::vector<std::int64_t> shape, Device device) {
  std::vector<Real> host(static_cast<std::size_t>(tensor.size()));
  copy_to_host(device, host.data(), tensor.at(0), host.size() * sizeof(Real));
  return {std::move(shape), {host.begin(), host.end()}};
}

template <class Real>
void fill(const Tensor<Real>& tensor, const Array& array, Device device) {
  std::vector<Real> host(array.data.begin(), array.data.end());
  // A decay of 0 is the least whole number whose exponential is 0: forms subtract such numbers.
  std::replace(host.begin(), host.end(), static_cast<Real>(-INFINITY), Real(sizeof(Real) == 4 ? -105 : -746));
  if (device == Device::cuda) {
    cuda_copy_to_device(tensor.at(0), host.data(), host.size() * sizeof(Real));
  } else {
    std::copy(host.begin(), host.end(), tensor.at(0));
  }
}

/// o, state_NAME, and d_NAME of every input where there is a d_o.
template <class Real>
std::map<std::string, Array> compute(const Memory& kind, const Options& options, const Inputs& inputs,
                                     Device device, Precision products) {
  const bool train = inputs.cotangent.has_value();
  ApplyModel<Real> model(kind, options, inputs.sizes, inputs.present, device, train, products);
  for (const auto& [name, array] : inputs.arrays) fill(model.input(name), array, device);
  if (train) fill(model.cotangent(), *inputs.cotangent, device);
  std::optional<CudaStream> stream;
  Exec exec;
  exec.device = device;
  if (device == Device::cuda) exec.stream = stream.emplace().get();
  model.graph().forward(exec);
  if (train) model.graph().backward(exec);
  if (stream) stream->synchronise();
  const ApplySizes& s = inputs.sizes;
  std::map<std::string, Array> results;
  results["o"] = array_of(model.output(), {s.B, s.T, s.H, s.V}, device);
  for (const auto& [name, state] : model.states()) {
    const Tensor<Real>& t = state->value;
    const std::vector<int> dims(t.dims, t.dims + t.rank);
    results["state_" + name] = array_of(t, wide(state_dims(kind, s, name, dims)), device);
  }
  for (const auto& [name, array] : inputs.arrays) {
    if (!train) continue;
    if (model.differentiated(name)) {
      results["d_" + name] = array_of(model.gradient(name), array.shape, device);
    } else {
      results["d_" + name] = {array.shape,
                              std::vector<double>(array.data.size(), 0)};  // o does not depend on it
    }
  }
  return results;
}

/// compute() of each document by itself, those of one length together: inputs are cut, results put where the documents stand.
template <class Real>
std::map<std::string, Array> compute_documents(const Memory& kind, const Options& options,
                                               const Inputs& inputs, Device device, Precision products) {
  const Documents& documents = *inputs.documents;
  std::map<std::string, InputPart> parts = {{"o", InputPart::tokens}};
  std::map<std::string, Array> results;
  for (const ApplyInput& input : apply_inputs(kind, inputs.sizes))
    parts["d_" + input.name] = part_of(input.shape, input.optional);
  for (const auto& [name, array] : inputs.arrays)
    if (inputs.cotangent) results["d_" + name] = {array.shape, std::vector<double>(array.data.size(), 0)};
  std::int64_t before = 0;
  for (const DocumentGroup& group : documents.groups) {
    const auto n = static_cast<std::int64_t>(group.first.size());
    const auto cut = [&](const Array& all, InputPart part) {
      const std::int64_t rows = part == InputPart::tokens ? documents.T : 1,
                         taken = rows > 1 ? group.length : 1;
      const auto row = std::ssize(all.data) / (documents.B * rows);
      Array some{all.shape, {}};
      some.shape[0] = n;
      if (part == InputPart::tokens) some.shape[1] = group.length;
      for (const std::int64_t first : group.first) {
        const auto from = all.data.begin() + (part == InputPart::tokens ? first : first / documents.T) * row;
        some.data.insert(some.data.end(), from, from + taken * row);
      }
      return some;
    };
    Inputs one{inputs.sizes, {}, {}, {}, {}};
    one.sizes.B = static_cast<int>(n), one.sizes.T = group.length;
    for (const auto& [name, array] : inputs.arrays) {
      const InputPart part = parts.at("d_" + name);
      if (part == InputPart::start && !group.goes_on) continue;
      one.arrays[name] = part == InputPart::shared ? array : cut(array, part);
      if (std::count(inputs.present.begin(), inputs.present.end(), name) > 0) one.present.push_back(name);
    }
    if (inputs.cotangent) one.cotangent = cut(*inputs.cotangent, InputPart::tokens);
    for (const auto& [name, array] : compute<Real>(kind, options, one, device, products)) {
      const bool state = parts.count(name) == 0;
      const InputPart part = state ? InputPart::start : parts.at(name);
      Array& all = results[name];
      if (all.data.empty()) {
        all.shape = array.shape;
        all.shape[0] = documents.B;
        if (part == InputPart::tokens) all.shape[1] = documents.T;
        all.data.resize(array.data.size() / static_cast<std::size_t>(n * (state ? 1 : group.length)) *
                        static_cast<std::size_t>(documents.B * (state ? 1 : documents.T)));
      }
      if (part == InputPart::shared) {
        std::transform(all.data.begin(), all.data.end(), array.data.begin(), all.data.begin(), std::plus<>());
        continue;
      }
      const std::int64_t size = std::ssize(array.data) / n;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t first = group.first[static_cast<std::size_t>(i)], b = first / documents.T;
        if (state && documents.last[static_cast<std::size_t>(b)] != before + i) continue;
        const auto from = array.data.begin() + i * size;
        const auto to =
            all.data.begin() + (part == InputPart::tokens ? first * (size / group.length) : b * size);
        if (part == InputPart::each) {
          std::transform(from, from + size, to, to, std::plus<>());
        } else {
          std::copy(from, from + size, to);
        }
      }
    }
    before += n;
  }
  return results;
}

/// Inputs are finite: where results are not, they have left the range of the numbers, as a recurrence that grows does.
void warn_of_overflow(const std::map<std::string, Array>& results, Console& console) {
  std::vector<std::string> names;
  for (const auto& [name, array] : results)
    if (!std::ranges::all_of(array.data, [](double x) { return std::isfinite(x); }))
      names.push_back(name + ".npy");
  if (!names.empty())
    print_warning(console, fmt::format("NaN or infinity in {}, from inputs that are finite", some_of(names)));
}

/// The memory with what its settings decide: of `rule` that of its law.
const Memory& with_settings(const Memory& kind, const std::map<std::string, OptionValue>& given) {
  Options options;
  options.set("memory.name", kind.name);
  fill_defaults(options, "memory", kind.options);
  for (const auto& [name, value] : given) options.set("memory." + name, value);
  try {
    return memory_of(options);
  } catch (const OptionError& error) {
    throw UsageError(fmt::format("apply: {}: {}", error.key, error.what()));
  }
}

/// Whole or not at all.
void write_array(const fs::path& path, const Array& array, bool is_double) {
  write_whole(FileSystem::real(), path,
              is_double ? npy_bytes(array, path.string())
                        : npy_bytes(NpyArray<float>{array.shape, {array.data.begin(), array.data.end()}},
                                    path.string()));
}

int run_apply(const Arguments& arguments, Console& console) {
  const Memory& registered = named(arguments.positional.at(0));
  if (!arguments.has("in") || !arguments.has("out"))
    throw UsageError("apply: needs --in DIR with q.npy, k.npy, v.npy and the memory's gates, and --out DIR");
  std::map<std::string, OptionValue> given = settings_of(registered, arguments);
  const Memory& kind = with_settings(registered, given);
  const std::string form = arguments.get("form", "automatic"), precision = arguments.get("precision", "fp64");
  TrainingOptions chosen;
  if (const std::string why = choose_device(arguments.get("device", "cpu"), chosen); !why.empty())
    print_note(console, why);
  if (chosen.device == Device::cuda) cuda_set_device(chosen.cuda_device);
  std::map<std::string, Array> results;
  try {
    const Inputs inputs = read_inputs(kind, given, arguments.get("in"));
    warn_of_surplus(kind, arguments.get("in"), console);
    if (form != "automatic") {
      const std::vector<std::string> forms = apply_forms(kind, given, inputs.sizes);
      if (std::ranges::find(forms, form) == forms.end())
        throw UsageError(
            fmt::format("apply: --form {}: {} has {}", form, kind.name, join(forms, ", ", " and ")));
      if (forms.size() > 1) given["form"] = form;
    }
    const Options options = apply_options(kind, inputs.sizes, given);
    const Precision products = precision == "tf32"   ? Precision::tf32
                               : precision == "bf16" ? Precision::bf16
                                                     : Precision::full;
    const auto of = [&]<class Real>(Real, Precision rounded) {
      return inputs.documents ? compute_documents<Real>(kind, options, inputs, chosen.device, rounded)
                              : compute<Real>(kind, options, inputs, chosen.device, rounded);
    };
    results = precision == "fp64" ? of(double{}, Precision::full) : of(float{}, products);
  } catch (const OptionError& error) {
    throw UsageError(fmt::format("apply: {}: {}", error.key, error.what()));
  }
  const fs::path out = arguments.get("out");
  std::error_code problem;
  fs::create_directories(out, problem);
  if (problem) throw UsageError(fmt::format("apply: --out {}: {}", out.string(), problem.message()));
  std::vector<std::string> replaced, written;
  for (const auto& [name, array] : results) {
    written.push_back(name);
    if (fs::exists(out / (name + ".npy"), problem)) replaced.push_back(name + ".npy");
  }
  if (::access(out.c_str(), W_OK | X_OK) != 0)
    throw UsageError(fmt::format("apply: --out {}: {}", out.string(), std::strerror(errno)));
  for (const auto& [name, array] : results) {
    const fs::path path = out / (name + ".npy");
    write_array(path, array, precision == "fp64");
    console.out << path.string() << "\n";
  }
  warn_of_overflow(results, console);
  if (!replaced.empty())
    print_warning(console, fmt::format("replaced {} in {}", some_of(replaced), out.string()));
  if (fs::equivalent(out, arguments.get("in"), problem)) return exit_done;
  if (const std::vector<std::string> old = arrays_beside(out, written); !old.empty())
    print_warning(console,
                  fmt::format("{} also holds {}, which this call did not write", out.string(), some_of(old)));
  return exit_done;
}

}  // namespace

extern const Command apply_command = {
    "apply",
    "run one memory on given tensors, forward and backward",
    "MEMORY --in DIR --out DIR [--form FORM] [--precision P] [--device D] [--set OPTION=VALUE]...",
    "Checks a memory against your own code. The files go into the equation as they are: there is no\n"
    "hidden scale, normalisation, feature map or bias, and options switch them on. Reads q.npy\n"
    "[B,T,H,K], k.npy, v.npy [B,T,H,V] and the inputs that 'crosstalk describe MEMORY' lists\n"
    "(float64 or float32, C order), optionally s0.npy [B,H,V,K] and reset.npy [B,T], 1 where a document\n"
    "begins (or cu_seqlens.npy, 0, ..., T): each is then calculated by itself. Writes o.npy and each state as\n"
    "state_NAME.npy; with d_o.npy also d_INPUT.npy, the gradients of sum(o * d_o).\n\n"
    "Examples:\n"
    "  crosstalk apply gated_delta --in tensors --out outputs\n"
    "  crosstalk apply delta --in tensors --out outputs --form chunk --precision fp32 --set key_norm=l2\n",
    1,
    1,
    "needs a memory, for example: crosstalk apply delta --in tensors --out outputs",
    {
        {"in,i", "DIR", "Folder of the inputs"},
        {"out,o", "DIR", "Folder to write results to"},
        {"form", "FORM", "automatic (default), recurrent, chunk, parallel or query", false, form_names()},
        {"precision", "P", "fp64 (default), fp32, tf32 or bf16", false, {"fp64", "fp32", "tf32", "bf16"}},
        {"device", "D", "cpu (default), cuda or cuda:N"},
        {"set", "OPTION=VALUE", "Set an option of the memory, or scale, eps, denominator", true},
    },
    run_apply,
};

}  // namespace crosstalk::program
