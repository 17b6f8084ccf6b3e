// A memory on random tensors, in every form, beside its oracle where it has one.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/random.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"
#include "models/apply_model.h"
#include "models/testing/sequence.h"
#include "models/testing/variants.h"

namespace crosstalk::checks {

/// A memory with options, and which of the optional inputs are given.
struct ApplyCase {
  std::string memory, name;
  ApplySizes sizes;
  std::map<std::string, OptionValue> given;
  std::vector<std::string> present;
  const Memory& of() const { return memory_named(memory); }
  Options options() const { return apply_options(of(), sizes, given); }
};

/// Tells whether an input is what a state is before the first token: s0, h0, w1_0.
inline bool is_start(const Memory& kind, const std::string& input) {
  return std::any_of(kind.states.begin(), kind.states.end(),
                     [&](const std::string& state) { return start_name(state) == input; });
}

/// A memory's own words of an input; null of q, k, v and s0.
inline const MemoryInput* declared_input(const std::string& memory, const std::string& input) {
  for (const MemoryInput& one : find_memory(memory)->inputs)
    if (one.name == input) return &one;
  return nullptr;
}

/// Every own option of a memory in turn, with all optional inputs and with none.
inline std::vector<ApplyCase> apply_cases(const std::string& memory, const ApplySizes& sizes) {
  const Memory& kind = *find_memory(memory);
  std::vector<std::string> optional;
  for (const ApplyInput& input : apply_inputs(kind, sizes))
    if (input.optional && !is_start(kind, input.name)) optional.push_back(input.name);
  std::vector<ApplyCase> cases = {{memory, "defaults", sizes, {}, {}}};
  if (!optional.empty()) cases.push_back({memory, "optional inputs", sizes, {}, optional});
  for (const OptionSpec& spec : kind.options) {
    for (const OptionValue& value : settings_of(spec)) {
      if (spec.name == "form" || spec.name == "feature_map" || spec.name == "favor_variant" ||
          spec.name == "favor_redraw" || spec.name == "beta_max" || value == spec.default_value)
        continue;
      cases.push_back({memory, spec.name + "=" + to_text(value), sizes, {{spec.name, value}}, optional});
      // Whole numbers add up to 0 now and then, and nothing divides by that.
      if (value == OptionValue("round")) cases.back().given["digits"] = 4;
    }
  }
  std::vector<ApplyCase> valid;
  for (ApplyCase& one : cases) {
    try {
      one.sizes = with_letters(kind, one.sizes, one.given);
      one.options();
      ApplyModel<double>(kind, one.options(), one.sizes, one.present, Device::cpu, true);
      valid.push_back(one);
    } catch (const OptionError&) {  // what has no meaning is refused; resolve_test.cpp looks at that
    }
  }
  return valid;
}

/// Forms that a memory can be asked for.
inline std::vector<std::string> forms_of(const ApplyCase& one) {
  if (!one.options().has("memory.form")) return {""};
  std::vector<std::string> forms;
  for (const std::string& form : form_names()) {
    ApplyCase asked = one;
    asked.given["form"] = form;
    try {
      ApplyModel<double>(one.of(), asked.options(), one.sizes, one.present, Device::cpu, true);
      forms.push_back(form);
    } catch (const OptionError&) {
    }
  }
  return forms;
}

/// Numbers for every input, in ranges where the equations make sense.
using ApplyData = std::map<std::string, Vector>;
inline ApplyData apply_data(const ApplyCase& one, std::uint64_t seed) {
  ApplyData data;
  std::uint32_t stream = 0;
  for (const ApplyInput& input : apply_inputs(one.of(), one.sizes)) {
    RandomStream random(seed, RandomDomain::initialisation, stream++);
    std::int64_t n = 1;
    for (const int d : input.dims) n *= d;
    Vector& x = data[input.name];
    const MemoryInput* declared = declared_input(one.memory, input.name);
    for (std::int64_t i = 0; i < n; ++i) {
      const double u = random.uniform(), z = normal_from_uniform(random.uniform());
      if (declared != nullptr && declared->range.given()) {
        const Range& range = declared->range;
        x.push_back(range.rare && i % 17 == 5 ? *range.rare : range.low + (range.high - range.low) * u);
      } else {
        x.push_back(input.name == "k" ? 0.5 * z : z);  // keys are short
      }
    }
    if (declared != nullptr && declared->unit) {
      const auto columns = static_cast<std::size_t>(input.dims.back());
      for (std::size_t row = 0; row < x.size(); row += columns) {
        double square = 0;
        for (std::size_t c = row; c < row + columns; ++c) square += x[c] * x[c];
        for (std::size_t c = row; c < row + columns; ++c) x[c] /= std::sqrt(square);
      }
    }
  }
  const Options options = one.options();
  const auto is = [&](const char* key, const char* value) {
    return options.has(key) && options.get_string(key) == value;
  };
  if (is("memory.key_norm", "sum") || is("memory.read_norm", "attention")) {
    for (const char* name :
         {"q", "k"}) {  // as a positive feature map gives them: sums that divide do not vanish
      for (double& e : data[name]) e = std::abs(e) + 0.1;
    }
  }
  RandomStream random(seed, RandomDomain::initialisation, 999);
  for (int i = 0; i < one.sizes.B * one.sizes.T * one.sizes.H * one.sizes.V; ++i)
    data["d_o"].push_back(normal_from_uniform(random.uniform()));
  return data;
}

template <class Real>
void put(const Tensor<Real>& t, const Vector& x, Device device = Device::cpu) {
  upload(device, t, 0, x);
}
template <class Real>
Vector copy(const Tensor<Real>& t, Device device = Device::cpu) {
  const auto x = download(device, t, 0);
  return Vector(x.begin(), x.end());
}

/// The gradient of a state at the end, where data has "d_ends", of which every state takes the first numbers.
inline Vector end_cotangent(const ApplyData& data, std::int64_t size) {
  const Vector& all = data.at("d_ends");
  Vector given;
  for (std::int64_t i = 0; i < size; ++i) given.push_back(all[static_cast<std::size_t>(i) % all.size()]);
  return given;
}

/// o, states, and gradients d_NAME, of sum(o * d_o) and, where data has "d_ends", of the states at the end too.
using ApplyResult = std::map<std::string, Vector>;
template <class Real>
ApplyResult apply(const ApplyCase& one, const std::string& form, const ApplyData& data,
                  Device device = Device::cpu, Precision products = Precision::full) {
  ApplyCase asked = one;
  if (!form.empty()) asked.given["form"] = form;
  const bool ends = data.count("d_ends") != 0;
  ApplyModel<Real> model(one.of(), asked.options(), one.sizes, one.present, device, true, products, true,
                         ends);
  ApplyResult result;
  for (const ApplyInput& input : apply_inputs(one.of(), one.sizes)) {
    if (input.optional && std::count(one.present.begin(), one.present.end(), input.name) == 0) continue;
    put(model.input(input.name), data.at(input.name), device);
  }
  put(model.cotangent(), data.at("d_o"), device);
  for (const auto& [name, state] : model.states())
    if (model.has_end_cotangent(name))
      put(model.end_cotangent(name), end_cotangent(data, state->value.size()), device);
  std::optional<CudaStream> stream;
  Exec exec;
  exec.device = device;
  if (device == Device::cuda) exec.stream = stream.emplace().get();
  model.graph().forward(exec);
  model.graph().backward(exec);
  if (stream) stream->synchronise();
  if (device == Device::cpu) model.graph().check_guards();
  result["o"] = copy(model.output(), device);
  for (const auto& [name, state] : model.states()) result["state_" + name] = copy(state->value, device);
  for (const ApplyInput& input : apply_inputs(one.of(), one.sizes)) {
    if (input.optional && std::count(one.present.begin(), one.present.end(), input.name) == 0) continue;
    if (model.differentiated(input.name))
      result["d_" + input.name] = copy(model.gradient(input.name), device);
  }
  return result;
}

/// What pieces of a sequence that end at `ends` read, each from the states that the one before has left, and the states of the last.
template <class Real>
ApplyResult apply_in_pieces(const ApplyCase& all, const std::string& form, const ApplyData& data,
                            const std::vector<int>& ends, Device device = Device::cpu) {
  ApplyResult part;
  Vector o;
  for (int from = 0; const int to : ends) {
    ApplyCase piece = all;
    piece.sizes.T = to - from;
    ApplyData rows = data;
    const auto cut_out = [&](const std::string& name) {
      const Vector& x = data.at(name);
      const auto n = std::ssize(x) / all.sizes.T;
      rows[name] = Vector(x.begin() + from * n, x.begin() + to * n);
    };
    for (const ApplyInput& input : apply_inputs(all.of(), all.sizes))
      if (input.shape.find('T') != std::string::npos) cut_out(input.name);
    cut_out("d_o");
    for (const std::string& state : all.of().states) {
      if (part.count("state_" + state) == 0) continue;
      piece.present.push_back(start_name(state));
      rows[start_name(state)] = part.at("state_" + state);
    }
    part = apply<Real>(piece, form, rows, device);
    o.insert(o.end(), part.at("o").begin(), part.at("o").end());
    from = to;
  }
  part["o"] = o;
  return part;
}

/// Rows of an input by its name, q, k and v among them.
inline Matrix& rows_of(Sequence& s, const std::string& name) {
  return name == "q" ? s.q : name == "k" ? s.k : name == "v" ? s.v : s.in[name];
}
/// Head h of sequence b.
inline Sequence sequence_of(const ApplyCase& one, const Options& options, const ApplyData& data, int b,
                            int h) {
  const ApplySizes& s = one.sizes;
  Sequence sequence{.T = s.T, .K = s.K, .V = s.V, .options = options};
  for (const ApplyInput& input : apply_inputs(one.of(), s)) {
    if (input.optional && std::count(one.present.begin(), one.present.end(), input.name) == 0) continue;
    const Vector& x = data.at(input.name);
    Matrix& rows = rows_of(sequence, input.name);
    const auto row = [&](std::int64_t at, int n) {
      rows.emplace_back(x.begin() + static_cast<std::ptrdiff_t>(at),
                        x.begin() + static_cast<std::ptrdiff_t>(at + n));
    };
    if (input.name == "s0") {
      for (int v = 0; v < s.V; ++v) row(((std::int64_t{b} * s.H + h) * s.V + v) * s.K, s.K);
    } else if (input.shape.find('T') == std::string::npos) {  // one row: [H], [H,V,K], [B,H,K,K]
      int n = 1;
      for (const int d : input.dims) n *= d;
      const int item = input.shape[1] == 'H' ? h : input.shape[1] == 'B' ? b * s.H + h : 0;
      n /= input.shape[1] == 'H' ? s.H : input.shape[1] == 'B' ? s.B * s.H : 1;
      row(std::int64_t{item} * n, n);
    } else {
      const bool wide = input.shape.back() == ']' && input.shape[input.shape.size() - 2] != 'H';
      const bool per_write = input.shape.find('N') != std::string::npos;
      const int n = wide ? input.dims.back() : 1, M = s.T * (per_write ? s.N : 1);
      for (int t = 0; t < M; ++t) row(((std::int64_t{b} * M + t) * s.H + h) * n, n);
    }
  }
  return sequence;
}

/// The oracle's read of every head of every sequence, as o lies, or where a memory has none that of its last form; `last`: what the
/// oracle says of the last one.
inline Vector oracle_read(const ApplyCase& one, const ApplyData& data, Witness* last = nullptr,
                          const Oracle& oracle = {}) {
  if (!oracle && find_oracle(one.memory) == nullptr)
    return apply<double>(one, forms_of(one).back(), data).at("o");
  const ApplySizes& s = one.sizes;
  const Options options = one.options();
  Vector o(static_cast<std::size_t>(s.B * s.T * s.H * s.V));
  for (int b = 0; b < s.B; ++b)
    for (int h = 0; h < s.H; ++h) {
      Sequence sequence = sequence_of(one, options, data, b, h);
      if (last != nullptr && b == s.B - 1 && h == s.H - 1) sequence.witness = last;
      if (options.has("memory.key_norm") && options.get_string("memory.key_norm") != "none") {
        const bool l2 = options.get_string("memory.key_norm") == "l2";
        for (Matrix* rows : {&sequence.q, &sequence.k})
          for (Vector& row : *rows) {
            double sum = 0;
            for (const double e : row) sum += l2 ? e * e : e;
            row = scaled(1 / (l2 ? std::sqrt(sum) : sum), row);
          }
      }
      const Matrix read = oracle ? oracle(sequence) : find_oracle(one.memory)(sequence);
      for (int t = 0; t < s.T; ++t)
        for (int v = 0; v < s.V; ++v)
          o[static_cast<std::size_t>(((b * s.T + t) * s.H + h) * s.V + v)] =
              read[static_cast<std::size_t>(t)][static_cast<std::size_t>(v)];
    }
  return o;
}

}  // namespace crosstalk::checks
