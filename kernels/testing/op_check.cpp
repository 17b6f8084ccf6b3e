// The checks that every op passes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/op_check.h"

#include <set>
#include <type_traits>

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/gradcheck.h"

namespace crosstalk::checks {
namespace {

std::int64_t elements(const std::vector<int>& dims) {
  std::int64_t n = 1;
  for (int d : dims) n *= d;
  return n;
}

Exec cpu(int threads = 1) {
  Exec exec;
  exec.threads = threads;
  return exec;
}

std::vector<int> all_replicas() { return {0, 1, 2, 3, 4}; }

/// Every byte of every tensor of one replica.
template <class Real>
struct Snapshot {
  std::map<std::string, std::vector<Real>> real;
  std::map<std::string, std::vector<std::int32_t>> integer;
  std::map<std::string, std::vector<double>> precise;
};

template <class Real>
Snapshot<Real> snapshot(const TensorSet<Real>& set, int r) {
  Snapshot<Real> s;
  const auto take = [&](const auto& named, auto& to) {
    for (const auto& [name, t] : named.all())
      if (t) to[name] = download(set.device(), t, r);
  };
  take(set.reals, s.real), take(set.integers, s.integer), take(set.doubles, s.precise);
  return s;
}

template <class Real>
void expect_identical(const std::string& what, const Snapshot<Real>& got, const Snapshot<Real>& want) {
  const auto compare = [&what](const auto& a, const auto& b) {
    for (const auto& [name, x] : a) {
      const auto& y = b.at(name);
      ASSERT_EQ(x.size(), y.size());
      EXPECT_TRUE(identical(what + ", " + name, x.data(), y.data(), static_cast<std::int64_t>(x.size())));
    }
  };
  compare(got.real, want.real);
  compare(got.integer, want.integer);
  compare(got.precise, want.precise);
}

/// Sets what backward does with gradients; those that are added to hold numbers.
template <class Real>
void ask_for(TensorSet<Real>& set, Write write) {
  if (write != Write::add) return;
  for (auto& [name, mode] : set.writes) {
    if (mode != Write::overwrite) continue;
    mode = Write::add;
    const Tensor<Real> gradient = set.real("d_" + name);
    Numbers before;
    for (std::int64_t i = 0; i < gradient.size(); ++i)
      before.push_back(0.75 + 0.125 * static_cast<double>(i % 11));
    for (int r = 0; r < gradient.R; ++r) upload(set.device(), gradient, r, before);
  }
}

/// What a case says where an error is larger than it has reason to be.
std::string knobs(double roundings, double condition) {
  return fmt::format(
      "\nThe limit follows from .roundings({:g}), those on the longest path of forward, and .condition({:g}), how much larger numbers on the way are "
      "than the result where terms cancel (kernels/testing/op_check.h). If the op is right and has more of either, its case says so.",
      roundings, condition);
}

/// Forward and backward.
template <class Real>
void run(const OpCase& op, const Exec& exec, TensorSet<Real>& set) {
  op.run_forward(exec, set);
  op.run_backward(exec, set);
}

}  // namespace

Fill normal(double scale) {
  return [scale](RandomStream& random, int, std::int64_t) {
    return scale * normal_from_uniform(random.uniform());
  };
}

Fill uniform(double low, double high) {
  return [=](RandomStream& random, int, std::int64_t) { return low + (high - low) * random.uniform(); };
}

Fill off_zero(double scale) {
  return [scale](RandomStream& random, int, std::int64_t) {
    const double x = scale * normal_from_uniform(random.uniform());
    return x < 0 ? x - 0.05 : x + 0.05;
  };
}

Fill constant(double value) {
  return [value](RandomStream&, int, std::int64_t) { return value; };
}

Fill integer_in(int low, int high) {
  return [=](RandomStream& random, int, std::int64_t) {
    return low + static_cast<double>(random.below(static_cast<std::uint32_t>(high - low + 1)));
  };
}

Fill resets() {
  return [](RandomStream& random, int r, std::int64_t i) {
    const double choice[] = {0, -20, -60, -1};
    return i % 5 == 0 ? -random.uniform() : choice[(i + r) % 4];
  };
}

Fill positions(int T) {
  return [T](RandomStream& random, int r, std::int64_t i) -> double {
    if ((i + r) % 4 == 0) return T;
    if ((i + r) % 4 == 2) return 0;
    return random.below(static_cast<std::uint32_t>(T + 1));
  };
}

RandomStream OpCase::stream(const std::string& name, int r) const {
  std::uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (char c : name_ + "/" + name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return RandomStream(hash, RandomDomain::initialisation, static_cast<std::uint32_t>(r));
}

OpCase& OpCase::add_field(const std::string& name, std::vector<int> dims, const Fill& fill,
                          bool differentiable) {
  fields_.push_back({name, std::move(dims), differentiable, fill, {}});
  return *this;
}

OpCase& OpCase::integers(const std::string& name, std::vector<int> dims, const Fill& fill) {
  integers_.push_back({name, std::move(dims), fill});
  return *this;
}

template <class T>
std::vector<T> OpCase::drawn(const std::string& name, const std::vector<int>& dims, const Fill& fill,
                             int r) const {
  RandomStream random = stream(name, r);
  std::vector<T> values;
  for (std::int64_t i = 0; i < elements(dims); ++i) values.push_back(static_cast<T>(fill(random, r, i)));
  return values;
}

OpCase& OpCase::edit(const std::string& name, const std::function<void(int r, Numbers&)>& f) {
  for (Field& field : fields_) {
    if (field.name != name) continue;
    std::vector<Numbers> edited;
    for (int r = 0; r < kReplicas; ++r) f(r, edited.emplace_back(numbers(field, r)));
    field.edited = std::move(edited);
    return *this;
  }
  throw std::out_of_range("no input is named " + name);
}

Values OpCase::inputs(int r) const {
  Values in;
  for (const Field& field : fields_) in.real[field.name] = numbers(field, r);
  for (const std::string& name : absent_) in.real[name] = {};
  for (const IntegerField& field : integers_)
    in.integer[field.name] = drawn<std::int32_t>(field.name, field.dims, field.fill, r);
  return in;
}

/// Adds, allocates and uploads everything; replica i of the set gets the case's data of replicas[i].
/// Outputs and gradients stay poisoned.
template <class Real>
void OpCase::fill(TensorSet<Real>& set, const std::vector<int>& replicas) const {
  const int R = static_cast<int>(replicas.size());
  for (const Field& field : fields_) {
    set.reals.add(field.name, R, field.dims);
    if (field.differentiable) {
      set.reals.add("d_" + field.name, R, field.dims);
      set.writes[field.name] = Write::overwrite;
    }
  }
  for (const std::string& name : absent_) {
    set.reals.add_absent(name);
    set.reals.add_absent("d_" + name);
    set.writes[name] = Write::none;
  }
  for (const IntegerField& field : integers_) set.integers.add(field.name, R, field.dims);
  for (const Output& out : outputs_) {
    set.reals.add(out.name, R, out.dims);
    if (out.differentiable) set.reals.add("d_" + out.name, R, out.dims);
  }
  for (const IntegerOutput& out : integer_outputs_) set.integers.add(out.name, R, out.dims);
  set.allocate();
  const auto give = [&](int r, const auto& tensor, const auto& values) {
    for (int i = 0; i < R; ++i)
      if (replicas[static_cast<std::size_t>(i)] == r) upload(set.device(), tensor, i, values);
  };
  for (const int r : std::set<int>(replicas.begin(), replicas.end())) {
    for (const Field& field : fields_) give(r, set.real(field.name), numbers(field, r));
    for (const IntegerField& field : integers_)
      give(r, set.integer(field.name), drawn<std::int32_t>(field.name, field.dims, field.fill, r));
    for (const Output& out : outputs_) {
      if (!out.differentiable) continue;
      Numbers cotangent = out.cotangent;
      RandomStream random = stream("d_" + out.name, r);
      while (static_cast<std::int64_t>(cotangent.size()) < elements(out.dims))
        cotangent.push_back(normal_from_uniform(random.uniform()));
      give(r, set.real("d_" + out.name), cotangent);
    }
  }
}

OpCase& make_huge(OpCase& op) {
  const auto pair = [&](const char* name, std::size_t period, double first, double others, double second) {
    op.edit(name, [=](int, Numbers& x) {
      for (std::size_t i = 0; i < x.size(); i += 2) x[i] = i % period == 0 ? first : others;
      for (std::size_t i = 1; i < x.size() && second != 0; i += 2) x[i] = second;
    });
  };
  pair("x", 2, 10, 10, 1), pair("k", 8, 300, 299.8, 0);
  return op;
}

template <class Real>
void OpCase::run_forward(const Exec& exec, TensorSet<Real>& set) const {
  if constexpr (std::is_same_v<Real, double>)
    forward64_(exec, set);
  else
    forward32_(exec, set);
}

template <class Real>
void OpCase::run_backward(const Exec& exec, TensorSet<Real>& set) const {
  if (!has_backward()) return;
  if constexpr (std::is_same_v<Real, double>)
    backward64_(exec, set);
  else
    backward32_(exec, set);
}

template <class Real>
void OpCase::reference() const {
  TensorSet<Real> set;
  fill(set, all_replicas());
  run_forward(cpu(), set);
  set.check_overruns();
  for (int r = 0; r < kReplicas; ++r) {
    Values in = inputs(r);
    for (const Field& field : fields_) {
      const auto values = download(set.device(), set.real(field.name), r);
      std::vector<Real> given;
      for (double x : in[field.name]) given.push_back(static_cast<Real>(x));
      EXPECT_TRUE(identical("input " + field.name + " after forward", values.data(), given.data(),
                            static_cast<std::int64_t>(given.size())));
      in.real[field.name] = Numbers(given.begin(), given.end());  // what the op got
    }
    if (!oracle_) continue;
    Values want;
    oracle_(in, want);
    for (const Output& out : outputs_) {
      if (!out.compared) continue;
      const Numbers& w = want[out.name];
      ASSERT_EQ(static_cast<std::int64_t>(w.size()), elements(out.dims)) << "oracle of " << out.name;
      const double size = condition_ * magnitude(w.data(), elements(out.dims));
      double limit = tolerance<Real>(roundings_ + 4, size).limit();
      if (std::is_same_v<Real, double>) limit = std::min(limit, 1e-12 * std::max(1.0, size));
      EXPECT_TRUE(close(fmt::format("{}, replica {}", out.name, r), set.real(out.name).at(r), w.data(),
                        elements(out.dims), limit, out.dims))
          << knobs(roundings_, condition_);
    }
    for (const IntegerOutput& out : integer_outputs_) {
      if (!out.compared) continue;
      EXPECT_EQ(download(set.device(), set.integer(out.name), r), want.integer.at(out.name))
          << out.name << ", replica " << r;
    }
  }
}

void OpCase::check_reference() const {
  reference<double>();
  reference<float>();
}

/// The float backward pass against the double one on equal data.
template <class Real>
void OpCase::single_gradient() const {
  TensorSet<Real> single;
  TensorSet<double> twice;
  fill(single, all_replicas());
  fill(twice, all_replicas());
  for (const auto& [name, t] : single.reals.all()) {
    if (!t) continue;
    for (int r = 0; r < kReplicas; ++r) upload(Device::cpu, twice.real(name), r, download(Device::cpu, t, r));
  }
  run(*this, cpu(), single);
  run(*this, cpu(), twice);
  single.check_overruns();
  for (const Field& field : fields_) {
    if (!field.differentiable) continue;
    const auto got = single.real("d_" + field.name);
    const auto want = twice.real("d_" + field.name);
    for (int r = 0; r < kReplicas; ++r) {
      const double size = condition_ * std::max(1e-3, magnitude(want.at(r), want.size()));
      EXPECT_TRUE(close(fmt::format("single precision d_{}, replica {}", field.name, r), got.at(r),
                        want.at(r), want.size(), tolerance<Real>(3 * roundings_ + 8, size).limit(),
                        field.dims))
          << knobs(roundings_, condition_);
    }
  }
}

void OpCase::check_gradient() const {
  if (!has_backward()) return;
  TensorSet<double> set;
  fill(set, {0, 1});
  GradientProblem problem;
  for (const Field& field : fields_) {
    if (field.differentiable)
      problem.inputs.push_back(
          {field.name, set.real(field.name), set.real("d_" + field.name), &set.writes[field.name]});
  }
  for (const Output& out : outputs_)
    if (out.differentiable)
      problem.outputs.push_back({out.name, set.real(out.name), set.real("d_" + out.name)});
  problem.forward = [&] { run_forward(cpu(), set); };
  problem.backward = [&] { run_backward(cpu(), set); };
  problem.elements = gradient_elements_;
  EXPECT_TRUE(check_gradients(problem));
  set.check_overruns();
  single_gradient<float>();
}

template <class Real>
void OpCase::replicas() const {
  TensorSet<Real> together;
  fill(together, all_replicas());
  run(*this, cpu(), together);
  std::vector<Snapshot<Real>> want;
  for (int r = 0; r < kReplicas; ++r) want.push_back(snapshot(together, r));
  for (int threads : {2, 3}) {
    TensorSet<Real> set;
    fill(set, all_replicas());
    run(*this, cpu(threads), set);
    set.check_overruns();
    for (int r = 0; r < kReplicas; ++r)
      expect_identical(fmt::format("{} threads, replica {}", threads, r), snapshot(set, r),
                       want[static_cast<std::size_t>(r)]);
  }
  for (int r = 0; r < kReplicas; ++r) {
    TensorSet<Real> alone;
    fill(alone, {r});
    run(*this, cpu(), alone);
    expect_identical(fmt::format("replica {} alone", r), snapshot(alone, 0),
                     want[static_cast<std::size_t>(r)]);
  }
  for (int threads : {1, 2}) {
    const std::vector<int> ids = {3, 1};
    TensorSet<Real> some, untouched;
    fill(some, all_replicas());
    fill(untouched, all_replicas());
    Exec exec = cpu(threads);
    exec.replicas = ids.data();
    exec.replica_count = static_cast<int>(ids.size());
    run(*this, exec, some);
    some.check_overruns();
    for (int r = 0; r < kReplicas; ++r) {
      const bool chosen = std::count(ids.begin(), ids.end(), r) != 0;
      expect_identical(
          fmt::format("replica {} {} Exec::replicas, {} threads", r, chosen ? "in" : "not in", threads),
          snapshot(some, r), chosen ? want[static_cast<std::size_t>(r)] : snapshot(untouched, r));
    }
  }
}

void OpCase::check_replicas() const {
  replicas<double>();
  replicas<float>();
}

/// Fills and runs on a stream of its own. Write::add: gradients hold numbers before, as on the CPU.
template <class Real>
void OpCase::run_on_cuda(TensorSet<Real>& set, const std::vector<int>& replicas, Write write) const {
  fill(set, replicas);
  ask_for(set, write);
  const CudaStream stream;
  Exec exec;
  exec.device = Device::cuda;
  exec.stream = stream.get();
  run(*this, exec, set);
  stream.synchronise();
}

template <class Real>
double OpCase::cuda_limit(bool of_gradient, double magnitude) const {
  if (limits_.empty()) {
    const double length = of_gradient ? 3 * roundings_ + 8 : roundings_ + 4;
    return 2 * tolerance<Real>(length, condition_ * std::max(1e-3, magnitude)).limit();
  }
  const CudaLimit& limit = limits_[of_gradient];
  const double eps = std::is_same_v<Real, double> ? 1e-12 / 64 : std::numeric_limits<Real>::epsilon();
  return 4 * eps * (4 + std::sqrt(limit.terms)) * limit.scale * std::max(1.0, magnitude);
}

/// CUDA against the CPU on equal data; alone against together, bit for bit.
template <class Real>
void OpCase::cuda(bool in_company) const {
  std::vector<int> ids = all_replicas();
  if (few_replicas()) ids = {0, 1};
  std::vector<Write> writes = {Write::overwrite};
  if (in_company && has_backward()) writes.push_back(Write::add);
  for (const Write write : writes) {
    SCOPED_TRACE(fmt::format("{}, {}", sizeof(Real) == 8 ? "double" : "float",
                             write == Write::add ? "Write::add" : "Write::overwrite"));
    TensorSet<Real> host, device(Device::cuda);
    fill(host, ids);
    ask_for(host, write);
    run(*this, cpu(), host);
    run_on_cuda(device, ids, write);
    if (in_company) device.check_overruns();
    for (const int r : ids) {
      const auto expect_close = [&](const std::string& name, bool of_gradient, const std::vector<int>& dims) {
        const auto got = download(Device::cuda, device.real(name), r);
        const auto want = download(Device::cpu, host.real(name), r);
        const auto n = static_cast<std::int64_t>(want.size());
        const double limit = cuda_limit<Real>(of_gradient, magnitude(want.data(), n));
        EXPECT_TRUE(
            close(fmt::format("CUDA {}, replica {}", name, r), got.data(), want.data(), n, limit, dims))
            << (limits_.empty() ? knobs(roundings_, condition_) : "\nThe limit is that of .on_cuda().");
      };
      for (const Output& out : outputs_)
        if (out.compared) expect_close(out.name, out.name.starts_with("d_"), out.dims);
      for (const IntegerOutput& out : integer_outputs_) {
        if (!out.compared) continue;
        EXPECT_EQ(download(Device::cuda, device.integer(out.name), r),
                  download(Device::cpu, host.integer(out.name), r))
            << out.name;
      }
      for (const Field& field : fields_)
        if (field.differentiable && has_backward()) expect_close("d_" + field.name, true, field.dims);
      TensorSet<Real> alone(Device::cuda);
      run_on_cuda(alone, {r}, write);
      expect_identical(fmt::format("CUDA replica {} alone", r), snapshot(alone, 0), snapshot(device, r));
    }
    if (!in_company || few_replicas()) continue;
    std::vector<int> many;
    for (int i = 0; i < 64; ++i) many.push_back(i % kReplicas);
    TensorSet<Real> company(Device::cuda);
    run_on_cuda(company, many, write);
    for (const int i : {0, 1, 2, 33, 59, 63})
      expect_identical(fmt::format("CUDA replica {} of 64", i), snapshot(company, i),
                       snapshot(device, i % kReplicas));
  }
}

void OpCase::check_cuda() const {
  cuda<double>(false);
  cuda<float>(false);
}

void OpCase::check_cuda_in_company() const {
  cuda<double>(true);
  cuda<float>(true);
}

template void OpCase::fill(TensorSet<double>&, const std::vector<int>&) const;
template void OpCase::fill(TensorSet<float>&, const std::vector<int>&) const;
template void OpCase::run_forward(const Exec&, TensorSet<double>&) const;
template void OpCase::run_forward(const Exec&, TensorSet<float>&) const;
template void OpCase::run_backward(const Exec&, TensorSet<double>&) const;
template void OpCase::run_backward(const Exec&, TensorSet<float>&) const;

TEST_P(OpCheck, Reference) { GetParam().check_reference(); }
TEST_P(OpCheck, Gradient) { GetParam().check_gradient(); }
TEST_P(OpCheck, Replicas) { GetParam().check_replicas(); }

// A machine without a GPU shows these as skipped; where a GPU is required that is a failure.
TEST_P(OpCheck, Cuda) {
  want_cuda();
  if (IsSkipped() || HasFatalFailure()) return;
  GetParam().check_cuda();
}

void CudaOpCheck::SetUp() {
  want_cuda();
  if (!IsSkipped() && GetParam().is_heavy() && few_replicas()) {
    GTEST_SKIP() << "too slow";
  }
}
TEST_P(CudaOpCheck, AgreesWithTheCpu) { GetParam().check_cuda_in_company(); }

}  // namespace crosstalk::checks
