// Passes against the chains that they replace: values and gradients, of every memory and feature map that
// they touch. Fused ops over tables have no CPU form: on a GPU, against the chain on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/passes.h"

#include "kernels/attention/attend.h"
#include "kernels/attention/attend_mix.h"
#include "kernels/attention/delta_values.h"
#include "kernels/base/random.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/map_chain.h"
#include "kernels/elementwise/pick.h"
#include "kernels/embedding/lookup.h"
#include "kernels/linear/joined_linear.h"
#include "kernels/linear/swiglu.h"
#include "kernels/norm/residual_norm.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/refused.h"
#include "kernels/testing/shared_limit.h"
#include "kernels/testing/tensors.h"
#include "models/graph/nodes.h"
#include "models/mixers/mixer.h"

namespace crosstalk::checks::passes_test {

struct Shape {
  int B, T, Q, d, rows;
};

/// Weights of random tables under a squared loss. `pass`: the one that runs, or none.
struct Chain {
  Chain(const Shape& s, FeatureMap map, int nu, bool normalised, const std::string& pass,
        Device device = Device::cpu, Kernel kernel = Kernel::identity)
      : block(device, kReplicas), graph(device, kReplicas, true) {
    for (const char* name : {"keys", "values"}) block.add(name, {s.rows, s.d}, Init::normal(0.5));
    block.add("query", {s.B, s.Q, s.d}, Init::normal(0.5));
    block.allocate();
    BatchTensors batch;
    batch.B = s.B, batch.T = s.T, batch.Q = s.Q, batch.C = 2;
    batch.tokens = graph.integers({s.B, s.T, 2});
    batch.position = graph.integers({s.B, s.Q});
    batch.target = graph.integers({s.B, s.Q});
    std::vector<Table<double>> tables;
    for (int i = 0; i < 2; ++i)
      tables.push_back({graph.parameter(block, i),
                        i,
                        {batch.tokens, i, graph.integers({s.B * s.T}), graph.integers({s.rows + 1})}});
    auto* k =
        feature_map<double>(graph, map, nu, lookup<double>(graph, batch.tokens, tables, nullptr), nullptr);
    if (normalised) k = normalize(graph, RowNorm::l2, 1e-6, k);
    auto* q = feature_map<double>(graph, map, nu, graph.parameter(block, 2), nullptr);
    Attend<double> op;
    op.kernel = kernel, op.normalised = kernel == Kernel::exp, op.scale = 0.7;
    op.k = in(graph.view(k, {s.B, s.T, 1, k->value.columns()}));
    op.x = in(graph.view(q, {s.B, s.Q, 1, k->value.columns()}));
    op.position = ids(batch.position);
    result = graph.view(out(graph.add(op).a), {s.B, s.Q, s.T});
    squared_loss(graph, result, batch);
    if (!pass.empty()) replaced = run_pass(graph, pass);
    if (replaced > 0 && device == Device::cpu) return;
    graph.keep(result);
    graph.plan();
    for (int r = 0; r < kReplicas; ++r) {
      block.initialise(r, 40 + static_cast<std::uint64_t>(r));
      RandomStream random(7, RandomDomain::task_train, static_cast<std::uint32_t>(r));
      const auto fill = [&](Tensor<std::int32_t>* t, int low, int high) {
        std::vector<std::int32_t> values;
        for (std::int64_t i = 0; i < t->size(); ++i)
          values.push_back(
              low + static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(high - low + 1))));
        upload(device, *t, r, values);
      };
      fill(batch.tokens, 0, s.rows - 1);
      fill(batch.position, 0, s.T);
      fill(batch.target, 0, s.T - 1);
    }
    Exec exec;
    exec.device = device;
    for (const auto& table : tables)
      run(exec, BucketIds<double>{*table.buckets.ids, table.channel, 1, *table.buckets.order,
                                  *table.buckets.start});
    for (int i = 0; i < 2; ++i) {  // twice: nothing is remembered
      graph.forward(exec);
      graph.backward(exec);
    }
    graph.check_guards();
  }
  bool has(const std::string& node) const {
    const auto names = graph.node_names();
    return std::find(names.begin(), names.end(), node) != names.end();
  }
  static constexpr int kReplicas = 2;
  ParameterBlock<double> block;
  Graph<double> graph;
  Variable<double>* result = nullptr;
  int replaced = 0;
};

void expect_equal(const Chain& got, const Chain& want) {
  for (int r = 0; r < Chain::kReplicas; ++r) {
    const auto expect_close = [&](const std::string& name, const Tensor<double>& at,
                                  const Tensor<double>& y) {
      const std::vector<double> x = download(got.graph.device(), at, r);
      const double size = std::max(1e-2, magnitude(y.at(r), y.size()));
      EXPECT_TRUE(close(fmt::format("{}, replica {}", name, r), x.data(), y.at(r), y.size(), 1e-12 * size,
                        std::vector<int>(y.dims, y.dims + y.rank)));
    };
    expect_close("result", got.result->value, want.result->value);
    for (int i = 0; i < want.block.count(); ++i) {
      if (i < 2) {
        EXPECT_GT(magnitude(want.block.gradient(i).at(r), want.block.gradient(i).size()), 0);
      }
      expect_close("gradient of " + want.block.name(i), got.block.gradient(i), want.block.gradient(i));
    }
  }
}

struct Mapped {
  FeatureMap map;
  int nu;
};
const Mapped kMaps[] = {{FeatureMap::identity, 1}, {FeatureMap::elu1, 1}, {FeatureMap::relu, 1},
                        {FeatureMap::tanh, 1},     {FeatureMap::dpfp, 1}, {FeatureMap::dpfp, 2}};

/// Chains of `device` with the pass; on a GPU their numbers are those of the chain on the CPU.
void check_scores(Device device) {
  for (const Mapped& m : kMaps)
    for (const Shape& s : {Shape{4, 9, 1, 8, 6}, Shape{3, 5, 3, 6, 4}}) {
      SCOPED_TRACE(fmt::format("map {} nu {} Q {}", static_cast<int>(m.map), m.nu, s.Q));
      for (const Kernel kernel : {Kernel::identity, Kernel::exp, Kernel::taylor}) {
        const Chain chain(s, m.map, m.nu, false, "", Device::cpu, kernel),
            fused(s, m.map, m.nu, false, "table_scores", device, kernel);
        EXPECT_EQ(fused.replaced, 1);
        EXPECT_TRUE(fused.has("table_scores") && !fused.has("lookup"));
        EXPECT_EQ(fused.has("attend"), kernel != Kernel::identity);  // weights of scores that are given
        EXPECT_TRUE(chain.has("attend") && !chain.has("table_scores"));
        if (device == Device::cuda) expect_equal(fused, chain);
      }
    }
}

TEST(Passes, ScoresAreTakenFromTables) { check_scores(Device::cpu); }

class PassesOnCuda : public CudaTest {};

TEST_F(PassesOnCuda, ScoresFromTablesAreThoseOfTheChain) { check_scores(Device::cuda); }

// Where there is no GPU a fused op says what to do.
TEST(Passes, ScoresFromTablesHaveNoCpuForm) {
  Graph<double> graph(Device::cpu, 1, false);
  const auto* ids = graph.integers({2, 3, 1});
  Variable<double>* rows = graph.variable({4, 5});
  BatchIds batch;
  batch.tokens = ids, batch.position = graph.integers({2, 1});
  batch.B = 2, batch.T = 3, batch.Q = 1, batch.C = 1;
  table_scores<double>(graph, 1, FeatureMap::elu1, 1, {{rows, 0}}, nullptr, graph.variable({2, 1, 5}), batch);
  graph.plan();
  EXPECT_TRUE(refused<std::logic_error>([&] { graph.forward({}); }).says("[table_scores] has no CPU form"));
}

TEST(Passes, LeaveManyQueriesAndWideKeysToTheChain) {
  EXPECT_EQ(Chain({2, 5, 40, 6, 5}, FeatureMap::elu1, 1, false, "table_scores").replaced, 0);
  EXPECT_EQ(Chain({2, 5, 1, 200, 5}, FeatureMap::elu1, 1, false, "table_scores").replaced, 0);
  EXPECT_EQ(Chain({2, 5, 1, 8, 5}, FeatureMap::elu1, 1, true, "table_scores").replaced, 0);
}

/// Softmax attention of T tokens as a chain, its output's gradient drawn; `pass`: made one op, which a GPU
/// runs.
struct Attention {
  using Look = std::function<void(Graph<float>&, Variable<float>*)>;
  Attention(int T, bool biased, bool pass, const Look& beside = {}, Kernel kernel = Kernel::exp,
            Device device = Device::cpu)
      : block(device, 1), graph(device, 1, true) {
    for (const char* name : {"x", "k", "v"}) block.add(name, {2, T, 2, 3}, Init::normal(1));
    block.add("log_decay", {2, T, 2}, Init::uniform(0.5));
    block.allocate();
    block.initialise(0, 5);
    Attend<float> attend;
    attend.kernel = kernel, attend.scale = 0.6, attend.window = biased ? T / 2 : 0;
    attend.x = in(graph.parameter(block, 0)), attend.k = in(graph.parameter(block, 1));
    if (biased) attend.log_decay = in(graph.parameter(block, 3));
    Mix<float> mix;
    auto* a = out(graph.add(attend).a);
    mix.a = in(a), mix.v = in(graph.parameter(block, 2));
    auto* o = result = out(graph.add(mix).o);
    if (beside) beside(graph, a);
    graph.keep(result);
    graph.node(
        "cotangent", {result}, {}, [](const Exec&) {},
        [o, device](const Exec&, const std::vector<Write>&) {
          RandomStream random(3, RandomDomain::task_train, 0);
          std::vector<double> drawn;
          for (std::int64_t i = 0; i < o->gradient.size(); ++i) drawn.push_back(random.uniform() - 0.5);
          upload(device, o->gradient, 0, drawn);
        });
    if (pass) replaced = run_pass(graph, "attend_mix");
    graph.plan();
    if (replaced > 0 && device == Device::cpu) return;
    Exec exec;
    exec.device = device;
    graph.forward(exec), graph.backward(exec);
    graph.check_guards();
  }
  ParameterBlock<float> block;
  Graph<float> graph;
  Variable<float>* result;
  int replaced = 0;
};

TEST(Passes, AttentionIsReadWithoutWeights) {
  for (const bool biased : {false, true}) {
    const Attention chain(20, biased, false), fused(20, biased, true);
    EXPECT_EQ(fused.replaced, 1);
    EXPECT_EQ(fused.graph.forms(), "attend_mix cotangent");
    EXPECT_EQ(chain.graph.forms(), "attend mix cotangent");
    EXPECT_LT(fused.graph.bytes(), chain.graph.bytes() / 2);
  }
}

TEST_F(PassesOnCuda, AttentionWithoutWeightsIsTheChain) {
  for (const bool biased : {false, true}) {
    const Attention chain(20, biased, false), fused(20, biased, true, {}, Kernel::exp, Device::cuda);
    EXPECT_EQ(fused.replaced, 1);
    const auto expect_close = [](const std::string& name, const Tensor<float>& at,
                                 const Tensor<float>& want) {
      const auto got = download(Device::cuda, at, 0);
      const double size = std::max(1., magnitude(want.at(0), want.size()));
      EXPECT_TRUE(close(name, got.data(), want.at(0), want.size(), 1e-5 * size));
    };
    expect_close("result", fused.result->value, chain.result->value);
    for (int i = 0; i < 3 + biased; ++i)
      expect_close(chain.block.name(i), fused.block.gradient(i), chain.block.gradient(i));
  }
}

// Doubles and wide heads stay with the chain.
TEST(Passes, LeaveDoublesToTheChain) {
  ParameterBlock<double> block(Device::cpu, 1);
  block.add("x", {1, 20, 1, 8}, Init::normal(1));
  block.allocate();
  Graph<double> graph(Device::cpu, 1, false);
  Attend<double> attend;
  attend.x = attend.k = in(graph.parameter(block, 0));
  Mix<double> mix;
  mix.a = in(out(graph.add(attend).a)), mix.v = attend.x;
  graph.add(mix);
  EXPECT_EQ(run_pass(graph, "attend_mix"), 0);
}

TEST(Passes, LeaveWeightsThatSomebodyReads) {
  const auto look = [](Graph<float>& graph, Variable<float>* a) { graph.keep(a); };
  const auto read = [](Graph<float>& graph, Variable<float>* a) {
    Map<float> twice;
    twice.x = in(a);
    graph.add(twice);
  };
  EXPECT_EQ(Attention(20, false, true, look).replaced, 0);
  EXPECT_EQ(Attention(20, false, true, read).replaced, 0);
  EXPECT_EQ(Attention(20, false, true, {}, Kernel::relu).replaced, 0);
  EXPECT_EQ(Attention(8, false, true).replaced, 0);  // few queries
}

/// A graph with parameters of two replicas, with or without a pass: its results are kept and get random cotangents.
struct Passed {
  Passed() : block(Device::cpu, 2), graph(Device::cpu, 2, true) {}
  void start() {
    block.allocate();
    for (int r = 0; r < 2; ++r) block.initialise(r, 5 + static_cast<std::uint64_t>(r));
  }
  /// pass: a name, or nothing.
  void run(const std::string& pass) {
    for (auto* result : results) graph.keep(result);
    graph.node(
        "cotangent", results, {}, [](const Exec&) {},
        [this](const Exec&, const std::vector<Write>& writes) {
          RandomStream random(3, RandomDomain::task_train, 0);
          for (std::size_t j = 0; j < results.size(); ++j) {
            for (int r = 0; r < 2; ++r)
              for (std::int64_t i = 0; i < results[j]->gradient.size(); ++i) {
                double& g = results[j]->gradient.at(r)[i];
                g = random.uniform() - 0.5 + (writes[j] == Write::add ? g : 0);
              }
          }
        });
    if (!pass.empty()) replaced = run_pass(graph, pass);
    graph.plan();
    graph.forward({}), graph.backward({});
    graph.check_guards();
  }
  ParameterBlock<double> block;
  Graph<double> graph;
  std::vector<Variable<double>*> results;
  int replaced = 0;
};

/// Results and gradients of the parameters are those of the chain.
void expect_equal(const Passed& joined, const Passed& chain) {
  for (std::size_t i = 0; i < chain.results.size(); ++i)
    EXPECT_TRUE(close(fmt::format("result {}", i), joined.results[i]->value, chain.results[i]->value, 1e-14));
  for (int i = 0; i < chain.block.count(); ++i)
    EXPECT_TRUE(close(chain.block.name(i), joined.block.gradient(i), chain.block.gradient(i), 1e-13));
}

/// Linear maps of one input: the second's result is read before the third is made; two share a weight, one
/// has another input.
struct Maps : Passed {
  explicit Maps(bool pass) {
    block.add("x", {3, 5, 4}, Init::normal(1));
    for (const int rows : {6, 2, 7}) block.add(fmt::format("w{}", rows), {rows, 4}, Init::normal(1));
    block.add("other", {3, 6}, Init::normal(1)), block.add("b", {6}, Init::normal(1));
    start();
    const auto twice = [&](Variable<double>* x) {
      Map<double> map;
      map.scale = 2, map.x = in(x);
      return out(graph.add(map).y);
    };
    const auto leaf = [&](int i) { return graph.parameter(block, i); };
    Variable<double>*x = twice(leaf(0)), *none = nullptr, *first = linear(graph, x, leaf(1), leaf(5)),
    *second = twice(linear(graph, graph.view(x, {15, 4}), leaf(2), none));
    results = {first, second, linear(graph, x, leaf(3), none), linear(graph, x, leaf(3), none),
               linear(graph, first, leaf(4), none)};
    run(pass ? "joined_linear" : "");
  }
};

TEST(Passes, JoinedMapsAreTheChain) {
  const Maps chain(false), joined(true);
  EXPECT_EQ(joined.replaced, 1);
  EXPECT_EQ(joined.graph.node_names(),
            (std::vector<std::string>{"map", "joined_linear", "map", "linear", "linear", "cotangent"}));
  expect_equal(joined, chain);
}

/// Gates of a memory: what a head's keys are multiplied by and divided by their length, a rate that two products read, and
/// what `reader` makes of the rates; a weighted sum over rows; the rate of a decay, of one number a head.
struct Gates : Passed {
  explicit Gates(bool pass) {
    block.add("k", {2, 3, 2, 4}, Init::normal(1)), block.add("scale", {2, 4}, Init::normal(1));
    block.add("rate", {2, 3, 8}, Init::normal(1)), block.add("A", {2}, Init::normal(1));
    start();
    const auto parameter = [&](int i, std::initializer_list<Dimension> dims) {
      return Var<double>{&graph, graph.view(graph.parameter(block, i), dims)};
    };
    const Var<double> k = parameter(0, {2, 3, 2, 4}), rate = sigmoid(parameter(2, {2, 3, 2, 4}));
    const Var<double> kappa = unit(k * parameter(1, {1, 1, 2, 4}));
    const Var<double> decay = -exp(parameter(3, {1, 1, 2, 1})) * softplus(rate);
    const Var<double> seen = swap(rate * kappa);  // no step
    const Var<double> late = swap(seen) + kappa;  // reads it
    const Var<double> sum = fold(k * kappa, {2, 3, 2, 1}) * rate;
    results = {kappa.variable, decay.variable, late.variable, sum.variable};
    run(pass ? "map_chain" : "");
  }
};

// All but what reads another op's numbers.
TEST(Passes, GatesAreOneChain) {
  const Gates chain(false), joined(true);
  EXPECT_EQ(joined.replaced, 1);
  EXPECT_EQ(joined.graph.node_names(),
            (std::vector<std::string>{"map_chain", "swap", "swap", "combine", "cotangent"}));
  expect_equal(joined, chain);
}

// In bf16 few queries are read in tiles too, and in wide heads weights without exp.
TEST(Passes, FewQueriesOfAttention) {
  for (const auto& [precision, T, D, kernel, count] : {std::tuple{Precision::tf32, 4, 8, Kernel::exp, 0},
                                                       {Precision::bf16, 3, 8, Kernel::exp, 0},
                                                       {Precision::bf16, 4, 8, Kernel::exp, 1},
                                                       {Precision::bf16, 4, 128, Kernel::identity, 0},
                                                       {Precision::bf16, 4, 136, Kernel::identity, 1},
                                                       {Precision::tf32, 20, 136, Kernel::identity, 0},
                                                       {Precision::bf16, 4, 264, Kernel::identity, 0}}) {
    ParameterBlock<float> block(Device::cpu, 1);
    block.add("x", {1, T, 1, D}, Init::normal(1));
    block.allocate();
    Graph<float> graph(Device::cpu, 1, false);
    graph.set_products(precision);
    Attend<float> attend;
    attend.x = attend.k = in(graph.parameter(block, 0));
    attend.kernel = kernel, attend.normalised = kernel == Kernel::exp;
    Mix<float> mix;
    mix.a = in(out(graph.add(attend).a)), mix.v = attend.x;
    graph.add(mix);
    EXPECT_EQ(run_pass(graph, "attend_mix"), count) << T << " " << D;
  }
}

// Floats as they are have products of their own; those in bf16 go into tiles, even one alone.
TEST(Passes, MapsOfFloatsAreJoinedInBf16) {
  for (const Precision precision : {Precision::full, Precision::tf32, Precision::bf16}) {
    ParameterBlock<float> block(Device::cpu, 1);
    block.add("x", {3, 8}, Init::normal(1)), block.add("w", {6, 8}, Init::normal(1));
    block.add("wide", {600, 8}, Init::normal(1)), block.add("narrow", {5, 6}, Init::normal(1));
    block.allocate();
    Graph<float> graph(Device::cpu, 1, false);
    graph.set_products(precision);
    Variable<float>*x = graph.parameter(block, 0), *none = nullptr;
    linear(graph, x, graph.parameter(block, 2), none);
    linear(graph, linear(graph, x, graph.parameter(block, 1), none), graph.parameter(block, 3), none);
    EXPECT_EQ(run_pass(graph, "joined_linear"), precision == Precision::bf16 ? 1 : 0);
    EXPECT_EQ(graph.forms(), precision == Precision::bf16 ? "linear joined_linear" : "linear");
  }
}

// On a GPU with less shared memory fewer maps are joined, and what does not fit at all stays a product. Of more than 128 inputs
// no weights stay in shared memory.
TEST(Passes, MapsAreJoinedAsFarAsSharedMemoryGoes) {
  struct Case {
    int width, kib;
    std::vector<std::string> names;
  };
  const std::vector<std::string> one = {"joined_linear", "linear"},
                                 three = {"joined_linear", "joined_linear", "joined_linear", "linear"},
                                 all = {"joined_linear"}, apart(4, "linear");
  for (const Case& c : {Case{64, 227, one},
                        {64, 163, one},
                        {64, 99, one},
                        {128, 227, one},
                        {128, 163, one},
                        {128, 99, three},
                        {132, 227, apart},
                        {136, 227, all},
                        {512, 99, all}}) {
    SCOPED_TRACE(fmt::format("width {}, {} KiB", c.width, c.kib));
    const SharedLimit limit(c.kib);
    ParameterBlock<float> block(Device::cpu, 1);
    block.add("x", {3, c.width}, Init::normal(1));
    for (const char* name : {"q", "k", "v"}) block.add(name, {c.width, c.width}, Init::normal(1));
    block.add("wide", {600, c.width}, Init::normal(1));
    block.allocate();
    Graph<float> graph(Device::cpu, 1, true);
    graph.set_products(Precision::bf16);
    Variable<float>*x = graph.parameter(block, 0), *none = nullptr;
    for (int i = 1; i <= 4; ++i) linear(graph, x, graph.parameter(block, i), none);
    EXPECT_EQ(run_pass(graph, "joined_linear"), std::count(c.names.begin(), c.names.end(), "joined_linear"));
    EXPECT_EQ(graph.node_names(), c.names);
  }
}

/// A graph of a GPU that nobody runs: its memory is counted only.
struct Planned {
  MemoryMeasure measure;
  ParameterBlock<float> block{Device::cuda, 1};
  Graph<float> graph{Device::cuda, 1, true};

  explicit Planned(const std::vector<std::pair<std::string, std::vector<int>>>& parameters) {
    for (const auto& [name, dims] : parameters) block.add(name, dims, Init::normal(1));
    block.allocate();
    graph.set_products(Precision::bf16);
  }
  Variable<float>* map(Variable<float>* x, int weight) {
    return linear<float>(graph, x, graph.parameter(block, weight), nullptr);
  }
  /// The ops of a kind, in order.
  template <template <class> class Op>
  std::vector<std::shared_ptr<const Op<float>>> ops() const {
    std::vector<std::shared_ptr<const Op<float>>> all;
    for (const auto& node : graph.nodes())
      if (const auto* op = std::any_cast<std::shared_ptr<const Op<float>>>(&node.info)) all.push_back(*op);
    return all;
  }
};

template <class Field>
void expect_formats(const Field& field, Format value, Format gradient) {
  EXPECT_EQ(field.value.format, value);
  EXPECT_EQ(field.gradient.format, gradient);
}

// Between maps and an attention in whole or wide heads everything is bf16, unless somebody else reads some of it.
TEST(Passes, NumbersBetweenMapsAndAttentionAreBf16) {
  for (const auto& [B, D, beside, count] :
       {std::tuple{64, 48, false, 1}, {64, 48, true, 0}, {63, 48, false, 0}, {1, 136, false, 1}}) {
    SCOPED_TRACE(fmt::format("B {} D {} beside {}", B, D, beside));
    std::size_t bytes[2];
    for (const bool rounds : {false, true}) {
      Planned p({{"x", {B, 5, D}}, {"q", {D, D}}, {"k", {D, D}}, {"v", {D, D}}, {"o", {D, D}}});
      Variable<float>* heads[3];
      for (int i = 0; i < 3; ++i)
        heads[i] = p.graph.view(p.map(p.graph.parameter(p.block, 0), i + 1), {B, 5, 1, D});
      if (beside) p.graph.keep(heads[1]);
      Attend<float> attend;
      attend.x = in(heads[0]), attend.k = in(heads[1]);
      Mix<float> mix;
      mix.a = in(out(p.graph.add(attend).a)), mix.v = in(heads[2]);
      p.map(p.graph.view(out(p.graph.add(mix).o), {B, 5, D}), 4);
      EXPECT_EQ(run_pass(p.graph, "attend_mix"), 1);
      EXPECT_EQ(run_pass(p.graph, "joined_linear"), 2);
      const auto before = p.graph.node_names();
      if (rounds) {
        EXPECT_EQ(run_pass(p.graph, "rounded"), count);
      }
      EXPECT_EQ(p.graph.node_names(), before);
      const Format format = rounds && count ? Format::bf16 : Format::native;
      const auto reads = p.ops<AttendMix>().at(0);
      const auto first = p.ops<JoinedLinear>().at(0), last = p.ops<JoinedLinear>().at(1);
      for (const auto& t : {reads->x, reads->k, reads->v}) {
        expect_formats(t, format, format);
        EXPECT_EQ(t.value.columns(), D);
      }
      for (int i = 0; i < 3; ++i) {
        expect_formats(first->y[i], format, format);
        EXPECT_EQ(out(first->y[i])->root(), static_cast<Variable<float>*>((i == 0   ? reads->x
                                                                           : i == 1 ? reads->k
                                                                                    : reads->v)
                                                                              .variable)
                                                ->root());
      }
      EXPECT_EQ(reads->o.value.format, format);
      expect_formats(last->x, format, format);
      EXPECT_EQ(last->y[0].value.format, Format::native);
      EXPECT_EQ(first->x.value.format, Format::native);
      p.graph.keep(out(last->y[0]));
      p.graph.node(
          "cotangent", {out(last->y[0])}, {}, [](const Exec&) {},
          [](const Exec&, const std::vector<Write>&) {});
      p.graph.plan();
      bytes[rounds] = p.graph.bytes();
    }
    if (count) {
      EXPECT_LT(bytes[true], bytes[false]);
    } else {
      EXPECT_EQ(bytes[true], bytes[false]);
    }
  }
}

// Of a delta rule in wide heads: norms of silu are chains, and they, what is written and what is read are bf16, unless somebody else
// reads the keys.
TEST(Passes, NumbersOfDeltaRulesInWideHeadsAreBf16) {
  for (const bool beside : {false, true}) {
    constexpr int B = 1, T = 5, D = 256;
    Planned p(
        {{"x", {B, T, D}}, {"q", {D, D}}, {"k", {D, D}}, {"v", {D, D}}, {"o", {D, D}}, {"gain", {B, T, 1}}});
    const auto head = [&](int i) {
      return Var<float>{&p.graph, p.graph.view(p.map(p.graph.parameter(p.block, 0), i), {B, T, 1, D})};
    };
    const Var<float> q = unit(map(MapKind::silu, head(1))), k = unit(map(MapKind::silu, head(2))),
                     v = head(3);
    if (beside) p.graph.keep(k.variable);
    DeltaValues<float> values;
    values.k = in(k), values.v = in(v), values.gain = in(p.graph.parameter(p.block, 5));
    Mix<float> mix;
    mix.v = in(out(p.graph.add(values).u));
    Attend<float> attend;
    attend.kernel = Kernel::identity, attend.normalised = false;
    attend.x = in(q), attend.k = in(k);
    mix.a = in(out(p.graph.add(attend).a));
    p.map(p.graph.view(out(p.graph.add(mix).o), {B, T, D}), 4);
    EXPECT_EQ(run_pass(p.graph, "attend_mix"), 1);
    EXPECT_EQ(run_pass(p.graph, "joined_linear"), 2);
    EXPECT_EQ(run_pass(p.graph, "map_chain"), 2);
    run_pass(p.graph, "rounded");
    const Format format = beside ? Format::native : Format::bf16;
    const auto writes = p.ops<DeltaValues>().at(0);
    const auto reads = p.ops<AttendMix>().at(0);
    for (const auto& t : {writes->k, writes->v, reads->x, reads->k, reads->v})
      expect_formats(t, format, format);
    EXPECT_EQ(reads->o.value.format, format);
    for (const auto& chain : p.ops<MapChain>()) EXPECT_EQ(chain->y[0].value.format, format);
    p.graph.plan();
  }
}

// A norm that maps alone read, all of its rows or picked ones, gives bf16; so is the gradient of its branch,
// if that is a map's, whoever reads the norm.
TEST(Passes, NumbersBetweenNormsAndMapsAreBf16) {
  for (const bool beside : {false, true}) {
    Planned p(
        {{"x", {2, 5, 48}}, {"gain", {48}}, {"before", {48, 48}}, {"all", {48, 48}}, {"some", {48, 48}}});
    Variable<float>* x = p.graph.parameter(p.block, 0);
    ResidualNorm<float> norm;
    norm.x = in(x), norm.branch = in(p.map(x, 2)), norm.gain = in(p.graph.parameter(p.block, 1));
    Variable<float>* y = out(p.graph.add(norm).y);
    p.map(y, 3);
    Pick<float> pick;
    pick.x = in(p.graph.view(y, {2, 5, 1, 48}));
    Variable<float>* picked = out(p.graph.add(pick).y);
    p.map(p.graph.view(picked, {2, 1, 48}), 4);
    if (beside) p.graph.keep(picked);
    EXPECT_EQ(run_pass(p.graph, "joined_linear"), 3);
    const auto before = p.graph.node_names();
    EXPECT_EQ(run_pass(p.graph, "rounded"), 1);
    EXPECT_EQ(p.graph.node_names(), before);
    const Format format = beside ? Format::native : Format::bf16;
    const auto made = p.ops<ResidualNorm>().at(0);
    const auto chosen = p.ops<Pick>().at(0);
    expect_formats(made->y, format, format);
    expect_formats(made->branch, Format::native, Format::bf16);
    expect_formats(made->sum, Format::native, Format::native);
    EXPECT_EQ(chosen->x.value.format, format);
    EXPECT_EQ(chosen->y.gradient.format, format);
    EXPECT_EQ(chosen->columns(), 48);
    const auto maps = p.ops<JoinedLinear>();
    expect_formats(maps.at(0)->y[0], Format::native, Format::bf16);
    for (int i : {1, 2}) EXPECT_EQ(maps.at(static_cast<std::size_t>(i))->x.value.format, format);
    p.graph.plan();
  }
}

/// (silu(x G^T) * (x U^T)) D^T after a norm, added by the next, as a graph of a GPU.
struct GatedMlp : Planned {
  Variable<float>* hidden = nullptr;
  explicit GatedMlp(bool beside)
      : Planned({{"x", {2, 5, 128}},
                 {"gain", {128}},
                 {"gate", {192, 128}},
                 {"up", {192, 128}},
                 {"down", {128, 192}},
                 {"last", {64, 128}}}) {
    const auto norm = [&](Variable<float>* x, Variable<float>* branch) {
      ResidualNorm<float> op;
      op.norm = RowNorm::rms, op.x = in(x), op.branch = in(branch), op.gain = in(graph.parameter(block, 1));
      return out(graph.add(op).y);
    };
    Variable<float>*x = graph.parameter(block, 0), *y = norm(x, nullptr);
    const auto units = [&](int weight) { return graph.view(map(y, weight), {2, 5, 1, 192}); };
    Map<float> silu;
    silu.map = MapKind::silu, silu.x = in(units(2));
    Combine<float> product;
    product.kind = CombineKind::multiply, product.a = in(out(graph.add(silu).y)), product.b = in(units(3));
    hidden = out(graph.add(product).y);
    if (beside) graph.keep(hidden);
    map(norm(x, map(graph.view(hidden, {2, 5, 192}), 4)), 5);
  }
};

// A gated MLP is one op whose units nobody else reads, and bf16 in between as for other maps.
TEST(Passes, GatedMlps) {
  for (const bool beside : {false, true}) {
    GatedMlp p(beside);
    EXPECT_EQ(run_pass(p.graph, "swiglu"), beside ? 0 : 1);
    if (beside) continue;
    EXPECT_EQ(run_pass(p.graph, "joined_linear"), 1);
    EXPECT_EQ(p.graph.node_names(),
              (std::vector<std::string>{"residual_norm", "swiglu", "residual_norm", "joined_linear:tiles"}));
    EXPECT_EQ(run_pass(p.graph, "rounded"), 2);
    const auto mlp = p.ops<Swiglu>().at(0);
    const auto norms = p.ops<ResidualNorm>();
    expect_formats(mlp->x, Format::bf16, Format::bf16);
    expect_formats(mlp->y, Format::native, Format::bf16);
    EXPECT_EQ(norms.at(0)->y.value.format, Format::bf16);
    EXPECT_EQ(norms.at(1)->branch.gradient.format, Format::bf16);
    p.graph.plan();
  }
}

// A result that a chain makes for maps alone is bf16, and so are gradients that it gives to maps alone.
TEST(Passes, NumbersBetweenChainsAndMapsAreBf16) {
  for (const bool beside : {false, true}) {
    Planned p({{"x", {4, 5, 48}}, {"in", {48, 48}}, {"out", {48, 48}}});
    const auto rows = [&](Variable<float>* v) {
      return Var<float>{&p.graph, p.graph.view(v, {4, 5, 1, 48})};
    };
    const Var<float> before = rows(p.map(p.graph.parameter(p.block, 0), 1));
    const Var<float> after = 0.5 * sigmoid(before);
    if (beside) p.graph.keep(before.variable), p.graph.keep(after.variable);
    p.map(p.graph.view(after.variable, {4, 5, 48}), 2);
    EXPECT_EQ(run_pass(p.graph, "joined_linear"), 2);
    EXPECT_EQ(run_pass(p.graph, "map_chain"), 1);
    EXPECT_EQ(run_pass(p.graph, "rounded"), beside ? 0 : 1);
    const auto chain = p.ops<MapChain>().at(0);
    const Format format = beside ? Format::native : Format::bf16;
    expect_formats(chain->x[0], Format::native, format);
    expect_formats(chain->y[0], format, format);
    EXPECT_EQ(p.ops<JoinedLinear>().at(0)->y[0].gradient.format, format);
    EXPECT_EQ(p.ops<JoinedLinear>().at(1)->x.value.format, format);
  }
}

TEST(Passes, NumbersBetweenMapsAreBf16) {
  for (const int between : {16, 20}) {  // 20 are no whole eights
    Planned p({{"x", {4, 5, 48}}, {"in", {between, 48}}, {"out", {48, between}}});
    p.map(p.map(p.graph.parameter(p.block, 0), 1), 2);
    EXPECT_EQ(run_pass(p.graph, "joined_linear"), 2);
    EXPECT_EQ(run_pass(p.graph, "rounded"), between == 16 ? 1 : 0);
    const auto& y = p.ops<JoinedLinear>().at(0)->y[0];
    EXPECT_EQ(y.value.is_bf16() && y.gradient.is_bf16(), between == 16);
  }
}

// A norm is a chain by itself, and a map where formats may change.
TEST(Passes, ChainsOfOneNode) {
  for (const Precision products : {Precision::full, Precision::bf16}) {
    Planned p({{"x", {4, 5, 1, 16}}, {"y", {4, 5, 1, 16}}});
    p.graph.set_products(products);
    const auto of = [&](int i) { return Var<float>{&p.graph, p.graph.parameter(p.block, i)}; };
    p.graph.keep(unit(of(0)).variable), p.graph.keep(sigmoid(of(1)).variable);
    EXPECT_EQ(run_pass(p.graph, "map_chain"), products == Precision::bf16 ? 2 : 1);
  }
}

/// Rows that a norm makes, times a gain a column, or (`rows`) a gain that differs between rows too.
struct GainedRows : Passed {
  GainedRows(RowNorm norm, bool rows, bool pass) {
    block.add("x", {2, 3, 2, 4}, Init::normal(1)), block.add("gain", {rows ? 2 : 1, 4}, Init::normal(1));
    start();
    Combine<double> op;
    op.kind = CombineKind::multiply;
    op.a = in(graph.view(graph.parameter(block, 1), {1, 1, rows ? 2 : 1, 4}));
    op.b = in(normalize(graph, norm, 1e-5, graph.parameter(block, 0)));
    results = {out(graph.add(op).y)};
    run(pass ? "gained_norm" : "");
  }
};

TEST(Passes, NormsTakeTheirGain) {
  for (const RowNorm norm : {RowNorm::rms, RowNorm::layer, RowNorm::l2})
    for (const bool rows : {false, true}) {
      const bool takes = norm != RowNorm::l2 && !rows;
      const GainedRows chain(norm, rows, false), joined(norm, rows, true);
      EXPECT_EQ(joined.replaced, takes ? 1 : 0);
      if (takes) {
        EXPECT_EQ(joined.graph.node_names(), (std::vector<std::string>{"residual_norm", "cotangent"}));
      }
      expect_equal(joined, chain);
    }
}

/// The same with a gate behind it, f(g) * rows.
struct GatedRows : Passed {
  GatedRows(MapKind gate, bool pass) {
    block.add("x", {2, 3, 2, 4}, Init::normal(1)), block.add("gain", {4}, Init::normal(1));
    block.add("gate", {2, 3, 2, 4}, Init::normal(1));
    start();
    Combine<double> op, product;
    Map<double> opened;
    opened.map = gate, opened.x = in(graph.parameter(block, 2));
    op.kind = product.kind = CombineKind::multiply;
    op.a = in(graph.view(graph.parameter(block, 1), {1, 1, 1, 4}));
    op.b = in(normalize(graph, RowNorm::rms, 1e-5, graph.parameter(block, 0)));
    product.a = in(out(graph.add(opened).y)), product.b = in(out(graph.add(op).y));
    results = {out(graph.add(product).y)};
    run(pass ? "gained_norm" : "");
  }
};

TEST(Passes, NormsTakeTheirGate) {
  for (const MapKind gate : {MapKind::silu, MapKind::sigmoid, MapKind::gelu}) {
    const GatedRows chain(gate, false), joined(gate, true);
    EXPECT_EQ(joined.replaced, gate == MapKind::gelu ? 1 : 2);
    if (gate != MapKind::gelu) {
      EXPECT_EQ(joined.graph.node_names(), (std::vector<std::string>{"residual_norm", "cotangent"}));
    }
    expect_equal(joined, chain);
  }
}

TEST(Passes, UnknownOnesAreABug) {
  Graph<double> graph(Device::cpu, 1, true);
  EXPECT_THROW(run_pass(graph, "no such pass"), std::logic_error);
}

}  // namespace crosstalk::checks::passes_test
