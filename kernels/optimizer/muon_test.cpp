// Muon against singular values: what the iteration makes of a matrix, it makes of each of them. Its independence of packs and
// threads; a GPU against the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/muon.h"

#include <Eigen/SVD>

#include "kernels/testing/step_check.h"

namespace crosstalk::checks::muon_test {
namespace {

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Shape {
  int rows, columns;
};
/// Wide, tall, square, a row, a column, one number, and shapes that cut tiles of 64 and of 16.
const std::vector<Shape> kShapes = {{5, 9}, {9, 5},   {4, 4},    {1, 7},  {7, 1},
                                    {1, 1}, {70, 17}, {65, 130}, {16, 64}};
constexpr double kRates[] = {0.02, 0.1, 0, 1e-3, 0.5};

double gradient_of(int id, int i, int step) {
  RandomStream random(11, RandomDomain::initialisation, static_cast<std::uint32_t>(id),
                      static_cast<std::uint32_t>(i * 100 + step));
  return normal_from_uniform(random.uniform());
}
double start_of(int id, int i) { return static_cast<double>(static_cast<float>(std::sin(i + 10 * id))); }

/// A block of parameters in which the matrices stand 16 numbers apart; what lies between them is nobody's.
template <class Real>
struct Muon {
  TensorSet<Real> set;
  std::vector<int> ids;
  std::vector<Shape> shapes;
  std::vector<int> offsets;
  int R, P = 0;
  RateSchedule schedule = {};
  bool decays = false;

  Muon(std::vector<int> ids_, std::vector<Shape> shapes_, Device device = Device::cpu)
      : set(device), ids(std::move(ids_)), shapes(std::move(shapes_)), R(static_cast<int>(ids.size())) {
    int W = 0;
    Integers table;
    for (const Shape& shape : shapes) {
      offsets.push_back(P);
      for (const int x : {P, shape.rows, shape.columns, W}) table.push_back(x);
      P += shape.rows * shape.columns + 16;
      W += static_cast<int>(muon_workspace_size(shape.rows, shape.columns));
    }
    for (const char* name : {"parameter", "gradient", "m"}) set.reals.add(name, R, {P});
    set.reals.add("workspace", R, {W});
    for (const char* name : {"rate", "decay", "scale"}) set.doubles.add(name, R, {});
    set.integers.add("step", R, {});
    set.integers.add("matrices", R, {static_cast<int>(shapes.size()), kMuonColumns});
    set.allocate();
    for (int r = 0; r < R; ++r) {
      const int id = ids[r];
      Numbers start;
      for (int i = 0; i < P; ++i) start.push_back(start_of(id, i));
      upload(device, set.real("parameter"), r, start);
      upload(device, set.real("m"), r, Numbers(static_cast<std::size_t>(P), 0));
      upload(device, set.integer("matrices"), r, table);
      upload(device, set.precise("rate"), r, Numbers{kRates[id]});
      upload(device, set.precise("decay"), r, Numbers{0.1 * id});
      upload(device, set.precise("scale"), r, Numbers{1 / (1.0 + id)});
    }
  }
  void steps(const Exec& exec, int first, int last) {
    for (int step = first; step <= last; ++step) {
      for (int r = 0; r < R; ++r) {
        Numbers g;
        for (int i = 0; i < P; ++i) g.push_back(gradient_of(ids[r], i, step));
        upload(set.device(), set.real("gradient"), r, g);
        upload(set.device(), set.integer("step"), r, Integers{step});
      }
      MuonStep<Real> op{.schedule = schedule,
                        .parameter = set.real("parameter"),
                        .gradient = set.real("gradient"),
                        .m = set.real("m"),
                        .workspace = set.real("workspace"),
                        .matrices = set.integer("matrices"),
                        .learning_rate = set.precise("rate"),
                        .step = set.integer("step")};
      if (decays) op.weight_decay = set.precise("decay"), op.gradient_scale = set.precise("scale");
      run(exec, op);
    }
    set.check_overruns();
  }
  std::vector<Real> get(const std::string& name, int r) const {
    return download(set.device(), set.real(name), r);
  }
};

/// A singular value after five iterations.
double risen(double s) {
  for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
  return s;
}

/// Update of D, by its singular values.
Dense direction(const Dense& D, Eigen::VectorXd* values = nullptr) {
  const Eigen::JacobiSVD<Dense> svd(D, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Eigen::VectorXd s = svd.singularValues() / (D.norm() + 1e-7);
  for (double& x : s) x = risen(x);
  if (values) *values = s;
  return svd.matrixU() * s.asDiagonal() * svd.matrixV().transpose();
}

/// One matrix of one replica after `steps` steps.
Dense by_singular_values(const Shape& shape, int offset, int id, int steps, const RateSchedule& schedule,
                         bool decays) {
  Dense p(shape.rows, shape.columns), m = Dense::Zero(shape.rows, shape.columns);
  for (int i = 0; i < p.size(); ++i) p.data()[i] = start_of(id, offset + i);
  for (int step = 1; step <= steps; ++step) {
    Dense g(shape.rows, shape.columns);
    for (int i = 0; i < g.size(); ++i) g.data()[i] = gradient_of(id, offset + i, step);
    if (decays) g /= 1.0 + id;
    const double mu = muon_momentum(schedule, step, 0.95, 0.85), rate = kRates[id] * schedule.factor(step);
    m = mu * m + g;
    if (decays) p *= 1 - rate * 0.1 * id;
    p -= rate * std::sqrt(std::max(1.0, static_cast<double>(shape.rows) / shape.columns)) *
         direction(g + mu * m);
  }
  return p;
}

template <class Real>
void check_against_singular_values(bool decays, RateSchedule schedule) {
  Muon<Real> muon({0, 1, 2, 3, 4}, kShapes);
  muon.decays = decays, muon.schedule = schedule;
  constexpr int kSteps = 4;
  muon.steps(Exec{}, 1, kSteps);
  for (int id = 0; id < 5; ++id) {
    const std::vector<Real> got = muon.get("parameter", id);
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      const Shape& shape = kShapes[i];
      const Dense want = by_singular_values(shape, muon.offsets[i], id, kSteps, schedule, decays);
      // Small singular values rise by up to 3.4445^5 = 485, and their errors with them.
      const Tolerance limit = tolerance<Real>(shape.rows + shape.columns, 485 * kRates[id] * kSteps + 1);
      EXPECT_TRUE(close(fmt::format("{} x {}, replica {}", shape.rows, shape.columns, id),
                        got.data() + muon.offsets[i], want.data(), want.size(), limit.limit()));
    }
  }
}

RateSchedule one_cycle() {
  RateSchedule schedule;
  schedule.cycle = 6, schedule.warmup = 3;
  return schedule;
}

TEST(Muon, MakesOfEverySingularValueWhatThePolynomialMakesOfIt) {
  check_against_singular_values<double>(false, {});
  check_against_singular_values<double>(true, one_cycle());
  check_against_singular_values<float>(false, {});
  check_against_singular_values<float>(true, one_cycle());
}

// The first update of a matrix of full rank is its orthogonal factor, nearly.
TEST(Muon, ApproximatesTheOrthogonalFactor) {
  for (const Shape& shape : {Shape{8, 24}, Shape{24, 8}}) {
    Muon<double> muon({0}, {shape});
    muon.steps(Exec{}, 1, 1);
    const std::vector<double> got = muon.get("parameter", 0);
    Dense moved(shape.rows, shape.columns), D(shape.rows, shape.columns);
    const double scale = 0.02 * std::sqrt(std::max(1.0, static_cast<double>(shape.rows) / shape.columns));
    for (int i = 0; i < moved.size(); ++i) {
      moved.data()[i] = (start_of(0, i) - got[i]) / scale;
      D.data()[i] = gradient_of(0, i, 1);
    }
    const Eigen::JacobiSVD<Dense> svd(D, Eigen::ComputeThinU | Eigen::ComputeThinV), of_moved(moved);
    EXPECT_GT(of_moved.singularValues().minCoeff(), 0.6);
    EXPECT_LT(of_moved.singularValues().maxCoeff(), 1.3);
    const Dense factor = svd.matrixU() * svd.matrixV().transpose();
    EXPECT_LT((moved - factor).norm(), 0.35 * factor.norm());
  }
}

// torch.optim.lr_scheduler.OneCycleLR of 6 steps with half of them to the peak: its momenta, computed apart from this code.
TEST(Muon, MomentumGoesDownAndBackInOneCycle) {
  RateSchedule schedule;
  EXPECT_EQ(muon_momentum(schedule, 5, 0.95, 0.85), 0.95);
  schedule = one_cycle();
  const double want[] = {0.95, 0.9, 0.85, 0.875, 0.925, 0.95};
  for (int step = 1; step <= 6; ++step)
    EXPECT_NEAR(muon_momentum(schedule, step, 0.95, 0.85), want[step - 1], 1e-15) << step;
}

TEST(Muon, LeavesWhatLiesBetweenTheMatrices) {
  Muon<double> muon({1}, kShapes);
  muon.steps(Exec{}, 1, 2);
  const std::vector<double> got = muon.get("parameter", 0), m = muon.get("m", 0);
  std::vector<bool> inside(got.size(), false);
  for (std::size_t i = 0; i < kShapes.size(); ++i)
    for (int e = 0; e < kShapes[i].rows * kShapes[i].columns; ++e) inside[muon.offsets[i] + e] = true;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (inside[i]) {
      EXPECT_NE(got[i], start_of(1, static_cast<int>(i)));
    } else {
      EXPECT_EQ(got[i], start_of(1, static_cast<int>(i)));
      EXPECT_EQ(m[i], 0);
    }
  }
}

template <class Real>
RunStep stepped(bool decays) {
  return [=](const std::vector<int>& ids, const Exec& exec) {
    const bool few = few_replicas();  // the smallest seven shapes, one step
    Muon<Real> muon(ids, {kShapes.begin(), kShapes.end() - (few ? 2 : 0)}, exec.device);
    if (decays) muon.decays = true, muon.schedule = one_cycle();
    muon.steps(exec, 1, few ? 1 : 3);
    Left left;
    for (const char* name : {"parameter", "m"}) keep(left, name, exec.device, muon.set.real(name));
    return left;
  };
}

TEST(Muon, ReplicasDoNotKnowEachOther) {
  check_replicas(stepped<double>(false));
  check_replicas(stepped<float>(false));
}

class MuonOnCuda : public CudaTest {};

template <class Real>
void check_on_cuda() {
  check_cuda(stepped<Real>(true), [](const std::string&, int id, const Numbers&) {
    return tolerance<Real>(200, 485 * kRates[id] * 3 + 1).limit();
  });
}

TEST_F(MuonOnCuda, IsThatOfTheCpuWhoeverTheNeighboursAre) {
  check_on_cuda<double>();
  check_on_cuda<float>();
}

}  // namespace
}  // namespace crosstalk::checks::muon_test
