// Planning of gradients on graphs of odd shapes, and what graphs refuse.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/graph.h"

#include "kernels/attention/attend.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/recurrence/read_weights.h"
#include "kernels/testing/compare.h"
#include "models/graph/nodes.h"

namespace crosstalk::checks::graph_test {

using Var = Variable<double>;

// A [1, 2] parameter w under a graph whose loss is the mean of 0.5 (y_0^2 + y_1^2), y = the graph's output.
struct Toy {
  explicit Toy(bool train = true) : block(Device::cpu, 1), graph(Device::cpu, 1, train) {
    block.add("w", {1, 1, 2}, Init::normal(1));
    block.add("idle", {1, 1, 2}, Init::normal(1));
    block.allocate();
    block.initialise(0, 3);
    w = graph.parameter(block, 0);
  }
  ParameterBlock<double> block;
  Graph<double> graph;
  Var* w;
  QueryLoss<double> loss{};
  Tensor<std::int32_t>* target = nullptr;

  void finish(Var* y) {
    BatchTensors batch;
    batch.B = batch.T = batch.Q = 1;
    batch.C = 2;
    target = batch.target = graph.integers({1, 1});
    loss = squared_loss(graph, y, batch);
    graph.plan();
    target->at(0)[0] = 1;
  }
  // Gradient of w twice through one graph: the second must not add to the first.
  std::vector<double> gradient() {
    for (int pass = 0; pass < 2; ++pass) {
      graph.forward({});
      graph.backward({});
    }
    graph.check_guards();
    const Tensor<double> g = block.gradient(0);
    return {g.at(0)[0], g.at(0)[1]};
  }
  // y is scale w: d = scale (scale w - onehot(1)).
  void expect_gradient_of(double scale) {
    const double* x = block.value(0).at(0);
    const double want[] = {scale * scale * x[0], scale * (scale * x[1] - 1)};
    EXPECT_TRUE(close("gradient", gradient().data(), want, 2, 1e-15 * scale * scale));
  }
};

Var* times(Graph<double>& g, double scale, Var* x) {
  Map<double> op;
  op.scale = scale;
  op.x = in(x);
  return out(g.add(op).y);
}

// Sum of two variables, written as a node of its own: both inputs get the output's gradient.
Var* plus(Graph<double>& g, Var* a, Var* b) {
  Var* out = g.like(a, 2);
  g.node(
      "plus", {a, b}, {out},
      [=](const Exec&) {
        for (int i = 0; i < 2; ++i) out->value.at(0)[i] = a->value.at(0)[i] + b->value.at(0)[i];
      },
      [=](const Exec&, const Graph<double>::Writes& writes) {
        Var* const inputs[] = {a, b};
        for (std::size_t k = 0; k < 2; ++k)
          for (int i = 0; i < 2; ++i) {
            double& d = inputs[k]->gradient.at(0)[i];
            if (writes[k] == Write::overwrite) d = out->gradient.at(0)[i];
            if (writes[k] == Write::add) d += out->gradient.at(0)[i];
          }
      });
  return out;
}

TEST(GraphPlan, Chain) {
  Toy toy;
  toy.finish(times(toy.graph, 3, toy.w));
  toy.expect_gradient_of(3);
}

TEST(GraphPlan, DiamondAddsUpItsBranches) {
  Toy toy;
  Var* stem = times(toy.graph, 2, toy.w);
  Var* left = times(toy.graph, 3, stem);
  Var* right = times(toy.graph, 5, stem);
  toy.finish(plus(toy.graph, left, right));
  toy.expect_gradient_of(16);
}

TEST(GraphPlan, NestedDiamondsAndSkips) {
  Toy toy;
  Var* stem = times(toy.graph, 2, toy.w);
  Var* inner = plus(toy.graph, times(toy.graph, 3, stem), toy.w);  // 7 w
  Var* outer = plus(toy.graph, inner, stem);                       // 9 w
  toy.finish(plus(toy.graph, outer, toy.w));                       // 10 w
  toy.expect_gradient_of(10);
}

TEST(GraphPlan, OneVariableAsBothInputs) {
  Toy toy;
  toy.finish(plus(toy.graph, toy.w, toy.w));
  toy.expect_gradient_of(2);
}

TEST(GraphPlan, OneParameterAskedForTwice) {
  Toy toy;
  Var* left = times(toy.graph, 3, toy.w);
  Var* right = times(toy.graph, 5, toy.graph.parameter(toy.block, 0));
  toy.finish(plus(toy.graph, left, right));
  toy.expect_gradient_of(8);
}

TEST(GraphPlan, UnusedBranchesPassNoGradient) {
  Toy toy;
  int idle_backwards = 0;
  Var* stem = times(toy.graph, 2, toy.w);
  Var* dead = times(toy.graph, 100, stem);
  Var* deader = toy.graph.like(dead, 2);
  toy.graph.node(
      "dead end", {dead}, {deader}, [](const Exec&) {},
      [&](const Exec&, const Graph<double>::Writes&) { ++idle_backwards; });
  toy.finish(times(toy.graph, 3, stem));
  toy.expect_gradient_of(6);
  EXPECT_EQ(idle_backwards, 0);
  EXPECT_FALSE(dead->gradient_written);
  EXPECT_EQ(dead->gradient.data, nullptr);  // no memory for what nobody wants
}

TEST(GraphPlan, ParametersThatNobodyReadsKeepAZeroGradient) {
  Toy toy;
  toy.finish(times(toy.graph, 3, toy.w));
  toy.gradient();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(toy.block.gradient(1).at(0)[i], 0);
}

TEST(GraphPlan, NodesThatWantNoGradientAreToldSo) {
  Toy toy;
  Var* constant = toy.graph.variable({1, 1, 2}, false);
  Write seen = Write::add;
  Var* out = toy.graph.like(toy.w, 2);
  Var* w = toy.w;
  toy.graph.node(
      "half", {constant, w, nullptr}, {out},
      [=](const Exec&) {
        for (int i = 0; i < 2; ++i) out->value.at(0)[i] = w->value.at(0)[i];
      },
      [=, &seen](const Exec&, const Graph<double>::Writes& writes) {
        seen = writes[0];
        EXPECT_EQ(writes[2], Write::none);
        for (int i = 0; i < 2; ++i) w->gradient.at(0)[i] = out->gradient.at(0)[i];
      });
  toy.finish(out);
  toy.expect_gradient_of(1);
  EXPECT_EQ(seen, Write::none);
}

TEST(GraphPlan, InferencePlansNoGradientsAndRefusesBackward) {
  Toy toy(false);
  Var* y = times(toy.graph, 3, toy.w);
  toy.finish(y);
  toy.graph.forward({});
  EXPECT_EQ(y->gradient.data, nullptr);
  EXPECT_THROW(toy.graph.backward({}), std::logic_error);
}

TEST(GraphPlan, FreshMemoryIsPoisoned) {
  Toy toy;
  Var* y = times(toy.graph, 3, toy.w);
  toy.finish(y);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(std::isnan(y->value.at(0)[i]) && std::isnan(y->gradient.at(0)[i]));
}

TEST(GraphPlan, AnOverrunIsNoticed) {
  Toy toy;
  Var* y = times(toy.graph, 3, toy.w);
  toy.finish(y);
  toy.graph.forward({});
  EXPECT_NO_THROW(toy.graph.check_guards());
  y->value.at(0)[y->value.replica_stride] = 1;
  EXPECT_THROW(toy.graph.check_guards(), std::logic_error);
}

// The message of what f throws.
std::string complaint(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no complaint";
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(GraphShapes, ErrorsNameTheOpAndBothShapes) {
  Graph<double> g(Device::cpu, 1, true);
  BatchTensors batch;
  batch.B = 2, batch.T = 3, batch.C = 2, batch.Q = 4;
  batch.tokens = g.integers({2, 3, 2});
  batch.position = g.integers({2, 4});
  batch.target = g.integers({2, 4});
  const auto check = [&](const std::string& op, const std::function<void()>& f, int first, int second) {
    const std::string message = complaint(f);
    EXPECT_TRUE(has(message, op)) << message;
    EXPECT_TRUE(has(message, std::to_string(first)) && has(message, std::to_string(second))) << message;
  };
  Var *x = g.variable({2, 3, 17}), *w = g.variable({5, 19}), *bias = g.variable({23});
  check(
      "linear", [&] { linear<double>(g, x, w, nullptr); }, 17, 19);
  check(
      "linear",
      [&] {
        linear<double>(g, x, g.variable({29, 17}), bias);
      },
      29, 23);
  check(
      "attend",
      [&] {
        Attend<double> op;
        op.k = in(g.variable({2, 3, 1, 31})), op.x = in(g.variable({2, 4, 1, 37})),
        op.position = ids(batch.position);
        g.add(op);
      },
      31, 37);
  check(
      "read_weights",
      [&] {
        ReadWeights<double> op;
        op.k = in(g.variable({2, 3, 1, 31})), op.q = in(g.variable({2, 4, 1, 37})),
        op.position = ids(batch.position);
        g.add(op);
      },
      31, 37);
  check(
      "lookup",
      [&] {
        lookup<double>(g, batch.tokens, {{g.variable({5, 41}), 0}, {g.variable({5, 43}), 1}}, nullptr);
      },
      41, 43);
}

}  // namespace crosstalk::checks::graph_test
