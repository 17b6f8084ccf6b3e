// The CPU ops, forward and backward, at the shapes of the three trainings of benchmarks/cases.h.
//
// Names read MODEL/OP/threads:N. FLOP/s counts products and sums of the op's own formula; items are what an
// op works on (rows, tokens, parameters, sequences). SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <thread>

#include "benchmarks/cases.h"
#include "kernels/base/buffer.h"
#include "kernels/base/random.h"
#include "kernels/ops/adam.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/feature_map.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/lookup.h"
#include "kernels/ops/normalize.h"
#include "kernels/ops/pointwise.h"
#include "kernels/ops/readout.h"
#include "kernels/ops/recurrence.h"
#include "tasks/task.h"

namespace crosstalk::benchmarks {
namespace {

using Real = Tensor<float>;
using Integer = Tensor<std::int32_t>;

// Tensors of one benchmark: asked for one by one, then filled together.
class Data {
 public:
  Real& real(std::initializer_list<int> dims) { return add(reals_, dims); }
  Integer& integer(std::initializer_list<int> dims, int below) {
    limits_.push_back(below);
    return add(integers_, dims);
  }
  Tensor<double>& precise(std::initializer_list<int> dims) { return add(doubles_, dims); }

  /// Reals uniform in (low, low + 1), integers uniform below their limit.
  void allocate(double low = -0.5) {
    for (Real& t : reals_) arena_.reserve(&t);
    for (Integer& t : integers_) arena_.reserve(&t);
    for (Tensor<double>& t : doubles_) arena_.reserve(&t);
    arena_.allocate();
    RandomStream random(1, RandomDomain::task_train, 0);
    for (Real& t : reals_) {
      for (std::int64_t i = 0; i < t.size(); ++i) t.data[i] = static_cast<float>(low + random.uniform());
    }
    for (std::size_t n = 0; n < integers_.size(); ++n) {
      Integer& t = integers_[n];
      for (std::int64_t i = 0; i < t.size(); ++i)
        t.data[i] = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(limits_[n])));
    }
    for (Tensor<double>& t : doubles_) std::fill_n(t.data, t.size(), 1e-3);
  }

 private:
  template <class T>
  static Tensor<T>& add(std::deque<Tensor<T>>& list, std::initializer_list<int> dims) {
    return list.emplace_back(shaped<T>(1, dims));
  }
  Arena arena_{Device::cpu};
  std::deque<Real> reals_;
  std::deque<Integer> integers_;
  std::deque<Tensor<double>> doubles_;
  std::vector<int> limits_;
};

void fill(const Integer& t, std::int32_t value) { std::fill_n(t.data, t.size(), value); }

// What one benchmark repeats, and how much that is.
struct Work {
  double items = 0, flop = 0;
  std::function<void(const Exec&)> call;
};
// Makes the work with its data, only when the benchmark is run.
using Make = std::function<Work(Data&)>;

void add(const Case& c, const std::string& op, const Make& make) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto* b = benchmark::RegisterBenchmark((c.name + "/" + op).c_str(), [make](benchmark::State& state) {
    Data data;
    const Work work = make(data);
    Exec exec;
    exec.threads = static_cast<int>(state.range(0));
    work.call(exec);  // a first, cold call
    for (auto _ : state) {
      work.call(exec);
      benchmark::ClobberMemory();
    }
    using benchmark::Counter;
    state.SetItemsProcessed(static_cast<std::int64_t>(work.items * static_cast<double>(state.iterations())));
    if (work.flop > 0) state.counters["FLOP/s"] = Counter(work.flop, Counter::kIsIterationInvariantRate);
  });
  b->ArgName("threads")->Arg(1)->UseRealTime();
  if (cores > 1) b->Arg(cores);
}

// y = x W^T + b over `rows` rows, as the table of keys (rows = S) and for queries (rows = B).
void add_linear(const Case& c, const std::string& name, int rows, bool bias) {
  const int I = c.embedding(), O = Case::d;
  const double flop = 2.0 * rows * I * O;
  add(c, name + " forward", [=](Data& data) {
    Real &x = data.real({rows, I}), &w = data.real({O, I}), &y = data.real({rows, O}), &b = data.real({O});
    data.allocate();
    LinearForward<float> a{x, w, bias ? b : Real{}, y};
    return Work{double(rows), flop, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, name + " backward", [=](Data& data) {
    Real &x = data.real({rows, I}), &w = data.real({O, I}), &d_y = data.real({rows, O});
    Real &d_x = data.real({rows, I}), &d_w = data.real({O, I}), &d_b = data.real({O});
    data.allocate();
    LinearBackward<float> a{x, w, d_y, d_x, d_w, bias ? d_b : Real{}};
    a.write_x = a.write_w = Write::overwrite;
    if (bias) a.write_b = Write::overwrite;
    return Work{double(rows), 2 * flop, [a](const Exec& exec) { run(exec, a); }};
  });
}

// Rows of a key table and a value table, added.
void add_lookup(const Case& c, const std::string& name, int D) {
  const int B = Case::B, L = c.L, S = c.S;
  const double tokens = double(B) * L, flop = 2 * tokens * D;
  add(c, name + " forward", [=](Data& data) {
    LookupForward<float> a;
    Integer& ids = data.integer({B, L, 2}, S);
    Real &keys = data.real({S, D}), &values = data.real({S, D}), &b = data.real({D}),
         &y = data.real({B, L, D});
    data.allocate();
    a.ids = ids, a.tables = 2, a.table[0] = keys, a.table[1] = values, a.channel[1] = 1, a.bias = b, a.y = y;
    return Work{tokens, flop, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, name + " backward", [=](Data& data) {
    LookupBackward<float> a;
    Integer& ids = data.integer({B, L, 2}, S);
    Real &keys = data.real({S, D}), &values = data.real({S, D}), &b = data.real({D}),
         &d_y = data.real({B, L, D});
    data.allocate();
    a.ids = ids, a.tables = 2, a.d_table[0] = keys, a.d_table[1] = values, a.channel[1] = 1;
    a.d_bias = b, a.d_y = d_y;
    a.write_table[0] = a.write_table[1] = a.write_bias = Write::overwrite;
    return Work{tokens, flop, [a](const Exec& exec) { run(exec, a); }};
  });
}

void add_feature_map(const Case& c, FeatureMap map) {
  const int rows = Case::B * c.L, d = Case::d, p = c.p;
  add(c, "feature map forward", [=](Data& data) {
    Real &x = data.real({rows, d}), &y = data.real({rows, p});
    data.allocate();
    FeatureMapForward<float> a{map, 1, x, {}, y};
    return Work{double(rows), 0, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, "feature map backward", [=](Data& data) {
    Real &x = data.real({rows, d}), &y = data.real({rows, p});
    Real &d_y = data.real({rows, p}), &d_x = data.real({rows, d});
    data.allocate();
    FeatureMapBackward<float> a{map, 1, x, {}, y, d_y, d_x, Write::overwrite};
    return Work{double(rows), 0, [a](const Exec& exec) { run(exec, a); }};
  });
}

void add_normalize(const Case& c, const std::string& name, int rows, int D) {
  add(c, name + " forward", [=](Data& data) {
    Real &x = data.real({rows, D}), &y = data.real({rows, D}), &inverse = data.real({rows});
    data.allocate(0.5);
    NormalizeForward<float> a{RowNorm::sum, 1e-6, x, y, inverse};
    return Work{double(rows), 2.0 * rows * D, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, name + " backward", [=](Data& data) {
    Real &y = data.real({rows, D}), &inverse = data.real({rows}), &d_y = data.real({rows, D});
    Real& d_x = data.real({rows, D});
    data.allocate(0.5);
    NormalizeBackward<float> a{RowNorm::sum, y, inverse, d_y, d_x, Write::overwrite};
    return Work{double(rows), 4.0 * rows * D, [a](const Exec& exec) { run(exec, a); }};
  });
}

void add_scores(const Case& c) {
  const int B = Case::B, L = c.L, p = c.p;
  const double tokens = double(B) * L, flop = 2 * tokens * p;
  add(c, "scores forward", [=](Data& data) {
    Real &k = data.real({B, L, p}), &q = data.real({B, 1, p}), &w = data.real({B, 1, L});
    Integer& position = data.integer({B, 1}, 1);
    data.allocate();
    fill(position, L);
    ScoresForward<float> a{1, k, q, w, position};
    return Work{tokens, flop, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, "scores backward", [=](Data& data) {
    Real &k = data.real({B, L, p}), &q = data.real({B, 1, p}), &d_w = data.real({B, 1, L});
    Real &d_k = data.real({B, L, p}), &d_q = data.real({B, 1, p});
    Integer& position = data.integer({B, 1}, 1);
    data.allocate();
    fill(position, L);
    ScoresBackward<float> a{1, k, q, d_w, d_k, d_q, position, Write::overwrite, Write::overwrite};
    return Work{tokens, 2 * flop, [a](const Exec& exec) { run(exec, a); }};
  });
}

void add_softmax(const Case& c) {
  const int B = Case::B, L = c.L;
  add(c, "softmax forward", [=](Data& data) {
    Real &x = data.real({B, 1, L}), &y = data.real({B, 1, L});
    Integer& position = data.integer({B, 1}, 1);
    data.allocate();
    fill(position, L);
    SoftmaxForward<float> a{x, y, position};
    return Work{double(B), 0, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, "softmax backward", [=](Data& data) {
    Real &y = data.real({B, 1, L}), &d_y = data.real({B, 1, L}), &d_x = data.real({B, 1, L});
    data.allocate();
    SoftmaxBackward<float> a{y, d_y, d_x, Write::overwrite};
    return Work{double(B), 0, [a](const Exec& exec) { run(exec, a); }};
  });
}

void add_recurrent_read(const Case& c) {
  const int B = Case::B, L = c.L, p = c.p;
  const double tokens = double(B) * L;
  // Keys and queries that sum to 1, as sum-normalised features do: products stay far from overflow.
  const auto scaled = [p](const Real& t) {
    for (std::int64_t i = 0; i < t.size(); ++i) t.data[i] /= static_cast<float>(p);
  };
  add(c, "delta read forward", [=](Data& data) {
    Real &k = data.real({B, L, p}), &q = data.real({B, 1, p}), &beta = data.real({B, L});
    Real &w = data.real({B, 1, L}), &history = data.real({B, L, p});
    Integer& position = data.integer({B, 1}, 1);
    data.allocate(0);
    scaled(k), scaled(q), fill(position, L);
    RecurrentReadForward<float> a{k, q, beta, beta, {}, w, history, position};
    return Work{tokens, 4 * tokens * p, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, "delta read backward", [=](Data& data) {
    Real &k = data.real({B, L, p}), &q = data.real({B, 1, p}), &beta = data.real({B, L});
    Real &w = data.real({B, 1, L}), &history = data.real({B, L, p}), &d_w = data.real({B, 1, L});
    Real &d_k = data.real({B, L, p}), &d_q = data.real({B, 1, p}), &d_beta = data.real({B, L});
    Integer& position = data.integer({B, 1}, 1);
    data.allocate(0);
    scaled(k), scaled(q), fill(position, L);
    run(Exec{}, RecurrentReadForward<float>{k, q, beta, beta, {}, w, history, position});
    RecurrentReadBackward<float> a;
    a.k = k, a.q = q, a.write = a.erase = beta, a.history = history, a.d_a = d_w, a.position = position;
    a.d_k = d_k, a.d_q = d_q, a.d_write = a.d_erase = d_beta;
    a.write_k = a.write_q = a.write_write = Write::overwrite;
    a.write_erase = Write::add;
    return Work{tokens, 10 * tokens * p, [a](const Exec& exec) { run(exec, a); }};
  });
}

void add_gate(const Case& c) {
  const int B = Case::B, L = c.L;
  const double tokens = double(B) * L;
  add(c, "sigmoid forward", [=](Data& data) {
    Real &x = data.real({B, L}), &y = data.real({B, L});
    data.allocate();
    PointwiseForward<float> a{PointMap::sigmoid, 1, 0, x, y};
    return Work{tokens, 0, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, "sigmoid backward", [=](Data& data) {
    Real &y = data.real({B, L}), &d_y = data.real({B, L}), &d_x = data.real({B, L});
    data.allocate();
    PointwiseBackward<float> a{PointMap::sigmoid, 1, y, d_y, d_x, Write::overwrite};
    return Work{tokens, 0, [a](const Exec& exec) { run(exec, a); }};
  });
}

void add_readout(const Case& c) {
  const int B = Case::B, L = c.L, V = c.S;
  const double tokens = double(B) * L;
  add(c, "gather values forward", [=](Data& data) {
    Real &w = data.real({B, 1, L}), &y = data.real({B, 1, V});
    Integer& ids = data.integer({B, L, 2}, V);
    data.allocate();
    GatherValuesForward<float> a{w, y, ids};
    return Work{tokens, tokens, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, "gather values backward", [=](Data& data) {
    Real &d_y = data.real({B, 1, V}), &d_w = data.real({B, 1, L});
    Integer& ids = data.integer({B, L, 2}, V);
    data.allocate();
    GatherValuesBackward<float> a{d_y, d_w, ids, Write::overwrite};
    return Work{tokens, 0, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, "squared loss forward", [=](Data& data) {
    Real &y = data.real({B, 1, V}), &query_loss = data.real({B, 1}), &loss = data.real({1});
    Integer &target = data.integer({B, 1}, V), &correct = data.integer({B, 1}, 2);
    data.allocate();
    SquaredLossForward<float> a{y, query_loss, loss, target, correct};
    return Work{double(B), 3.0 * B * V, [a](const Exec& exec) { run(exec, a); }};
  });
  add(c, "squared loss backward", [=](Data& data) {
    Real &y = data.real({B, 1, V}), &d_y = data.real({B, 1, V});
    Integer& target = data.integer({B, 1}, V);
    data.allocate();
    SquaredLossBackward<float> a{y, d_y, target, Write::overwrite};
    return Work{double(B), 2.0 * B * V, [a](const Exec& exec) { run(exec, a); }};
  });
}

void add_adam(const Case& c, bool gated) {
  const int e = c.embedding(), d = Case::d, S = c.S;
  const int parameters = S * e + d * (e + S) + d + d * e + d + (gated ? e + S + 1 : 0);
  add(c, "Adam", [=](Data& data) {
    Real &value = data.real({parameters}), &gradient = data.real({parameters});
    Real &m = data.real({parameters}), &v = data.real({parameters});
    Tensor<double>& rate = data.precise({1});
    Integer& step = data.integer({1}, 1);
    data.allocate(0);
    fill(step, 1);
    AdamStep<float> a;
    a.parameter = value, a.gradient = gradient, a.m = m, a.v = v, a.learning_rate = rate, a.step = step;
    return Work{double(parameters), 14.0 * parameters, [a](const Exec& exec) { run(exec, a); }};
  });
}

// Drawing a training batch.
void add_draw(const Case& c) {
  const int B = Case::B;
  add(c, "draw", [=](Data& data) {
    const Options config = runs_of(c, 1, 1, 1)[0].config;
    const std::shared_ptr<Task> task = find_task(c.task)->make(config);
    DrawArgs a;
    a.shape = task->shape(Split::train);
    a.B = B, a.stride = B;
    Integer &tokens = data.integer({B, a.shape.T, a.shape.C}, 1), &query = data.integer({B, 1}, 1);
    Integer &position = data.integer({B, 1}, 1), &target = data.integer({B, 1}, 1);
    Integer &seed = data.integer({2}, 1), &counter = data.integer({1}, 1);
    data.allocate();
    a.tokens = tokens, a.query = query, a.position = position, a.target = target;
    a.seed = seed, a.counter = counter;
    return Work{double(B), 0, [task, a](const Exec& exec) {
                  task->draw(exec, a);
                  ++*a.counter.data;
                }};
  });
}

// All ops of a training step of c.
void add_case(const Case& c) {
  const bool delta = c.task == "reassign", softmax = c.name.rfind("softmax", 0) == 0;
  add_draw(c);
  add_linear(c, "key table", c.S, false);
  add_linear(c, "query projection", Case::B, true);
  add_lookup(c, "key lookup", Case::d);
  if (!softmax) add_feature_map(c, delta ? FeatureMap::dpfp : FeatureMap::elu1);
  if (delta) {
    add_lookup(c, "gate lookup", 1);
    add_gate(c);
    add_normalize(c, "key norm", Case::B * c.L, c.p);
    add_recurrent_read(c);
  } else {
    add_scores(c);
    if (softmax) {
      add_softmax(c);
    } else {
      add_normalize(c, "attention norm", Case::B, c.L);
    }
  }
  add_readout(c);
  add_adam(c, delta);
}

const bool registered = [] {
  for (const Case& c : cases()) add_case(c);
  return true;
}();

}  // namespace
}  // namespace crosstalk::benchmarks
