// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/probe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/base/text/choice.h"
#include "kernels/base/text/narrow.h"
#include "models/apply_model.h"
#include "models/build.h"
#include "models/examples.h"
#include "models/parts/levels.h"
#include "models/parts/model_parts.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {
namespace {

// Attention that exponentiates: other kernels keep the products as they are.
bool exponentiates(const Options& options) {
  if (!memory_of(options).states.empty()) return false;
  for (const char* key : {"memory.kernel", "memory.kappa2"})
    if (options.has(key) && !options.get_string(key).starts_with("exp")) return false;
  return true;
}

double scale_of(const Options& options) {
  const double given = options.get_double("model.probe_scale");
  if (given > 0) return given;
  return exponentiates(options) ? static_cast<double>(options.get_int("model.d_key")) / 2 : 1;
}

// Rows made to have length 1 and, `apart`, to be orthogonal to those before them (twice is enough: Giraud and
// others 2005).
template <class Real>
void make_codes(std::vector<Real>& rows, int columns, bool apart) {
  const auto n = static_cast<std::size_t>(columns);
  std::vector<std::vector<double>> done;
  for (std::size_t at = 0; at < rows.size(); at += n) {
    std::vector<double> x(rows.begin() + static_cast<std::ptrdiff_t>(at),
                          rows.begin() + static_cast<std::ptrdiff_t>(at + n));
    const auto product = [&](const std::vector<double>& y) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += x[i] * y[i];
      return sum;
    };
    for (int pass = 0; apart && pass < 2; ++pass)
      for (const std::vector<double>& y : done) {
        const double along = product(y);
        for (std::size_t i = 0; i < n; ++i) x[i] -= along * y[i];
      }
    const double length = std::sqrt(product(x));
    for (double& e : x) e /= length;
    for (std::size_t i = 0; i < n; ++i) rows[at + i] = static_cast<Real>(x[i]);
    if (apart) done.push_back(std::move(x));
  }
}

// Unit rows moved apart until no two of them have a product much above Welch's bound sqrt((n - d) / (d (n - 1))), the least that n
// vectors of d numbers can all keep to (n <= d: 0): descent on the excess over 1.15 of it.
template <class Real>
void move_apart(std::vector<Real>& rows, int columns) {
  constexpr int kSteps = 100;
  const auto d = static_cast<std::size_t>(columns), n = rows.size() / d;
  if (n < 2) return;
  const double vectors = static_cast<double>(n), numbers = columns,
               least = n > d ? std::sqrt((vectors - numbers) / (numbers * (vectors - 1))) : 0,
               rate = n > d ? 0.75 * numbers / vectors : 0.5;
  std::vector<double> x(rows.begin(), rows.end()), turned(n * d), excess(n), moved(n * d);
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < d; ++k) turned[k * n + i] = x[i * d + k];
    for (std::size_t i = 0; i < n; ++i) {
      std::fill(excess.begin(), excess.end(), 0.0);
      for (std::size_t k = 0; k < d; ++k)
        for (std::size_t j = 0; j < n; ++j) excess[j] += x[i * d + k] * turned[k * n + j];
      excess[i] = 0;
      for (double& e : excess) e = std::copysign(std::max(std::abs(e) - 1.15 * least, 0.0), e);
      double* y = moved.data() + i * d;
      std::copy(x.begin() + static_cast<std::ptrdiff_t>(i * d),
                x.begin() + static_cast<std::ptrdiff_t>((i + 1) * d), y);
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < d; ++k) y[k] -= rate * excess[j] * x[j * d + k];
      double squares = 0;
      for (std::size_t k = 0; k < d; ++k) squares += y[k] * y[k];
      for (std::size_t k = 0; k < d; ++k) y[k] /= std::sqrt(squares);
    }
    x.swap(moved);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Real>(x[i]);
}

/// Codes in place of keys, queries and values; numbers in place of gates.
template <class Real>
class ProbeMixer final : public Mixer<Real> {
 public:
  using Mixer<Real>::graph, Mixer<Real>::options, Mixer<Real>::B, Mixer<Real>::T, Mixer<Real>::Q;
  using Mixer<Real>::H, Mixer<Real>::d, Mixer<Real>::K, Mixer<Real>::V, Mixer<Real>::N;

  ProbeMixer(ModelGraph<Real>& target, ParameterBlock<Real>& parameters, const Options& options_,
             const MixerSizes& sizes, const Vocabulary& vocabulary)
      : Mixer<Real>(target.graph, options_, sizes),
        target_(target),
        second_key_(vocabulary.second_key),
        parameters_(parameters),
        memory_(memory_of(options_)) {
    if (vocabulary.numbers > 0) {
      examples_.emplace(graph, target.batch, vocabulary.numbers);
      return;
    }
    key_codes_ = leaf("key_codes", {vocabulary.keys, d}, Init::normal(1));
    value_codes_ = leaf("value_codes", {vocabulary.values, V}, Init::normal(1));
  }

  Var<Real> keys() override {
    if (!memory_.own_keys) return {};
    if (examples_) return repeated(short_of(examples_->x));
    const Var<Real> first = written({key_codes_, channel_key}, d);
    return second_key_ ? first - written({key_codes_, channel_second_key}, d) : first;
  }
  Var<Real> queries() override {
    if (!memory_.own_queries) return {};
    if (examples_) {
      const Var<Real> q = short_of(examples_->asked_x);
      return memory_.own_keys ? q : size_of(q);
    }
    const Var<Real> q{&graph, graph.view(lookup<Real>(graph, target_.batch.query, {{key_codes_, 0}}, nullptr),
                                         {B, Q, H, d})};
    return memory_.own_keys ? q : size_of(q);
  }
  Var<Real> values() override {
    return examples_ ? repeated(examples_->y) : written({value_codes_, channel_value}, V);
  }
  const Tensor<std::int32_t>* position() const override { return target_.batch.position; }
  Var<Real> token(const std::string& name, int, std::optional<Init>, Through, bool) override { refuse(name); }
  Var<Real> asking(const std::string& name, int, std::optional<Init>, Through) override { refuse(name); }
  Var<Real> parameter(const std::string& name, std::vector<int> dims, Init init) override {
    Variable<Real>* p = leaf("memory." + name, dims, init);
    const int rows = dims[0];
    return {&graph, graph.view(p, {1, 1, rows, static_cast<int>(p->value.size()) / rows})};
  }

  /// Open, or, where it is what a state is before the first token, as a model starts.
  Var<Real> input(const std::string& name, const std::function<Var<Real>()>& law) override {
    for (const std::string& state : memory_.states)
      if (name == start_name(state)) return law();
    const auto input = std::find_if(memory_.inputs.begin(), memory_.inputs.end(),
                                    [&](const MemoryInput& one) { return one.name == name; });
    if (input == memory_.inputs.end()) return this->by_law(name, law);  // which says so
    // The key is what the decay lets go: 1 - e^g, between 0 and 1.
    if (!memory_.own_keys && memory_.own_queries && name == "log_decay") {
      const Var<Real> k =
          examples_ ? repeated(short_of(examples_->x)) : written({key_codes_, channel_key}, d);
      return log((1 + 1e-6) - size_of(k));
    }
    Open open = open_value(*input);
    if (name == "beta" && options.has("memory.beta_max")) open.value *= options.get_double("memory.beta_max");
    const Var<Real> number = this->constant([&](int) { return open.value; });
    const Var<Real> filled = fill(*input, number);
    return open.key == 0 ? filled : filled + open.key * keys();
  }
  Variable<Real>* omega(int m) override {
    return favor_features(graph, m, d, target_.feature_seed, target_.feature_draw, 1u);
  }
  double scale() const override { return scale_of(options); }
  bool learned() const override { return false; }

  Variable<Real>* value_codes() const { return value_codes_; }
  /// y' of every query, where tokens are examples.
  Var<Real> asked() const { return examples_->asked_y; }

 private:
  Variable<Real>* leaf(const std::string& name, const std::vector<int>& dims, Init init) {
    return graph.parameter(parameters_, parameters_.named(name, dims, init));
  }
  /// Inputs, whose squared length has the mean 1: x / sqrt(d).
  Var<Real> short_of(Var<Real> x) const { return (1 / std::sqrt(static_cast<double>(d))) * x; }
  /// Repeats what is one a token, [B,T,1,n], once for every write.
  Var<Real> repeated(Var<Real> x) {
    if (N == 1) return x;
    return view(expand(x, {B, T, N, x.dim(3)}), {B, T * N, H, x.dim(3)});
  }
  /// Codes of what the tokens hold, once for every write of a token.
  Var<Real> written(const Table<Real>& table, int columns) {
    return repeated({&graph, graph.view(lookup<Real>(graph, target_.batch.tokens, {table}, nullptr),
                                        {B, T, 1, columns})});
  }
  static Var<Real> size_of(Var<Real> x) { return larger(x, 0.0 * x); }
  Var<Real> fill(const MemoryInput& input, Var<Real> number) {
    switch (input.per) {
      case Per::token:
        return expand(number, {B, T, H, 1});
      case Per::key:
        return expand(number, {B, T, H, K});
      case Per::value:
        return expand(number, {B, T, H, V});
      case Per::write:
        return expand(number, {B, T * N, H, 1});
      case Per::head:
        return number;
      case Per::head_key:
        return expand(number, {1, 1, H, K});
      case Per::other:
        break;
    }
    Size columns(1);
    for (const char letter : input.shape)
      columns = columns * (letter == 'K' ? K : letter == 'V' ? V : Size(letter == 'L' ? kLevels : 1));
    if (input.shape.find('T') != std::string::npos) return expand(number, {B, T, H, columns});
    return expand(number, {1, 1, 1, columns});
  }
  [[noreturn]] void refuse(const std::string& name) const {
    throw OptionError("model.name", fmt::format("model.name = \"probe\": {} asks for a projection {}, and a "
                                                "probe has learned none; use model.name = \"retrieval\"",
                                                memory_.name, name));
  }

  ModelGraph<Real>& target_;
  bool second_key_;
  ParameterBlock<Real>& parameters_;
  const Memory& memory_;
  Variable<Real>*key_codes_ = nullptr, *value_codes_ = nullptr;
  std::optional<Examples<Real>> examples_;
};

}  // namespace

bool is_probe(const Options& options) {
  return options.has("model.name") && options.get_string("model.name") == "probe";
}

const std::vector<OptionSpec>& probe_options() {
  static const std::vector<OptionSpec> options = {
      choice(
          "probe_keys", "random",
          "of a probe: keys are random vectors of length 1, orthonormal ones (at most d_key of them), or random ones that were moved apart "
          "(near_orthogonal), until no product is much above the least that so many can have",
          {"random", "orthonormal", "near_orthogonal"}),
      {"probe_values", 0, "of a probe: numbers a value, a random vector of length 1 (0: as d_key)", 0,
       1 << 16},
      {"probe_scale", 0.0,
       "of a probe: what attention multiplies products of queries and keys by (0: d_key / 2 under an exponential, else 1)",
       0, 1e9},
  };
  return options;
}

void resolve_probe(Options& options, std::int64_t keys) {
  const auto neutral = [&](const OptionSpec& spec) {
    const std::string key = "model." + spec.name;
    return !options.has(key) || options.at(key) == spec.default_value;
  };
  if (!is_probe(options)) {
    for (const OptionSpec& spec : probe_options())
      if (!neutral(spec))
        throw OptionError(
            "model." + spec.name,
            fmt::format(
                "model.{} is of a probe, and this model is {}; set model.name = \"probe\", or leave it out",
                spec.name, options.get_string("model.name")));
    return;
  }
  if (options.get_int("model.heads") != 1)
    throw OptionError("model.heads", "a probe has one head: reads of several would be added up");
  const auto unused = [&](const OptionSpec& spec) {
    if (neutral(spec)) return;
    throw OptionError(
        "model." + spec.name,
        fmt::format(
            "model.{} has no effect: a probe has nothing but the memory; leave it out, or use model.name = \"retrieval\"",
            spec.name));
  };
  for (const OptionSpec& spec : part_options()) unused(spec);
  for (const OptionSpec& spec : model_options())
    if (spec.name == "init") unused(spec);
  const std::int64_t d = options.get_int("model.d_key");
  if (options.get_string("model.probe_keys") == "orthonormal" && keys > d)
    throw OptionError(
        "model.probe_keys",
        fmt::format(
            "{} keys of {} numbers cannot be orthonormal; give at most task.keys = {}, or model.probe_keys = \"random\"",
            keys, d, d));
  options.set("model.probe_values", value_size(options, 0));
}

void resolve_probe_scale(Options& options) {
  if (is_probe(options)) options.set("model.probe_scale", scale_of(options));
}

std::int64_t value_size(const Options& options, std::int64_t values) {
  if (!is_probe(options)) {
    const std::int64_t codes = options.has("model.value_codes") ? options.get_int("model.value_codes") : 0;
    return codes > 0 ? codes : values;
  }
  const std::int64_t given = options.get_int("model.probe_values");
  return given > 0 ? given : options.get_int("model.d_key");
}

Open open_value(const MemoryInput& input) {
  return input.open.value_or(Open{input.name.starts_with("log_") ? 0.0 : 1.0, 0});
}

template <class Real>
ProbeModel<Real>::ProbeModel(const Options& options, const Vocabulary& vocabulary, Device device, int R,
                             Precision products)
    : Model<Real>(options, device, R, products), vocabulary_(vocabulary) {
  build(1, {1, channels_of(vocabulary_), 1});  // the memory asks for its parameters as it is built
  parameters_.allocate();
}

template <class Real>
void ProbeModel<Real>::initialise(int r, std::uint64_t init_seed) {
  parameters_.initialise(r, init_seed);
  for (int i = 0; i < parameters_.count(); ++i) {
    const bool keys = parameters_.name(i) == "key_codes";
    if (!keys && parameters_.name(i) != "value_codes") continue;
    const Tensor<Real> codes = parameters_.value(i);
    std::vector<Real> rows(static_cast<std::size_t>(codes.size()));
    copy_to_host(device_, rows.data(), codes.at(r), rows.size() * sizeof(Real));
    const std::string& law = options_.get_string("model.probe_keys");
    make_codes(rows, codes.columns(), keys && law == "orthonormal");
    if (keys && law == "near_orthogonal") move_apart(rows, codes.columns());
    if (device_ == Device::cuda) {
      cuda_copy_to_device(codes.at(r), rows.data(), rows.size() * sizeof(Real));
    } else {
      std::copy(rows.begin(), rows.end(), codes.at(r));
    }
  }
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> ProbeModel<Real>::build(int B, SequenceShape shape) {
  auto result = this->begun(B, shape, false, 1);
  Graph<Real>& g = result->graph;
  BatchTensors& batch = result->batch;
  batch.target = g.integers({B, shape.Q, 1});  // looked up
  result->redraws = true;

  MixerSizes sizes;
  sizes.B = B, sizes.T = shape.T, sizes.Q = shape.Q;
  sizes.d = narrow<int>(head_d_key(options_), "model.d_key"),
  sizes.K = narrow<int>(head_d_dot(options_), "memory.d_dot");
  sizes.V = narrow<int>(value_size(options_, 0), "model.probe_values");
  sizes.N = options_.has("memory.writes") ? narrow<int>(options_, "memory.writes") : 1;
  ProbeMixer<Real> mixer(*result, parameters_, options_, sizes, vocabulary_);
  const Var<Real> o = build_memory(memory_of(options_), mixer);
  const auto kept = [&](Var<Real> x) {
    g.keep(x.variable);
    return g.view(x.variable, {B, shape.Q});
  };
  if (vocabulary_.numbers > 0) {
    const Var<Real> y = mixer.asked();
    result->query_metrics = {
        {"read_by_right", kept(o * y)}, {"read_squared", kept(o * o)}, {"right_squared", kept(y * y)}};
    g.keep(result->output = g.view(o.variable, {B, shape.Q, 1}));
    result->loss = example_loss(g, o, y, batch);
    g.keep(result->loss.query_loss);
    g.keep(result->loss.loss);
    return result;
  }
  const Var<Real> v{&g, g.view(lookup<Real>(g, batch.target, {{mixer.value_codes(), 0}}, nullptr),
                               {B, shape.Q, 1, sizes.V})};

  const auto sum = [&](Var<Real> x) { return fold(x, {B, shape.Q, 1, 1}); };
  const Var<Real> s = sum(o * v), off = o - v;
  result->output = g.view(o.variable, {B, shape.Q, sizes.V});
  g.keep(o.variable);
  result->query_metrics["signal"] = kept(s);
  // Finds the code that is nearest by angle: the scores of a one-hot answer, whose squared error nobody asks for.
  result->loss = squared_loss(g, linear<Real>(g, result->output, mixer.value_codes(), nullptr), batch);
  result->loss.query_loss = kept(0.5 * sum(off * off));
  g.keep(result->loss.loss);
  return result;
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> ProbeModel<Real>::graph(int B, SequenceShape shape, bool train, int) {
  if (train) throw std::logic_error("[probe] there is nothing to train");
  auto result = build(B, shape);
  result->graph.plan();
  return result;
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> ProbeModel<Real>::capture(SequenceShape, Captured<Real>&) {
  throw OptionError("model.name", "a probe's memory has learned nothing to look at; inspect a trained one");
}

template <class Real>
void ProbeModel<Real>::derive(std::map<std::string, double>& metrics) const {
  const double error = 2 * metrics.at("test_loss");
  metrics["squared_error"] = error;
  if (vocabulary_.numbers > 0) {
    const double along = metrics.at("read_by_right"), power = std::max(metrics.at("read_squared"), 1e-20);
    metrics["squared_error_of_best_gain"] =
        std::max(metrics.at("right_squared") - along * along / power, 0.0);
    for (const char* name : {"read_by_right", "read_squared", "right_squared"}) metrics.erase(name);
    return;
  }
  const double s = metrics.at("signal");
  // |o - v|^2 = (1 - s)^2 + noise; where all is exact, rounding is what is left.
  metrics["snr"] = s * s / std::max(error - (1 - s) * (1 - s), 1e-20);
}

template class ProbeModel<float>;
template class ProbeModel<double>;

}  // namespace crosstalk
