// Every memory of the registry on a GPU: all its forms and formats against double precision on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/cuda_test.h"
#include "models/testing/apply_check.h"

namespace crosstalk::checks::apply_cuda_test {

/// Sizes that end inside the kernels' chunks, warps and tiles, and one that fills them.
std::vector<ApplySizes> sizes_of(const std::string& memory) {
  const int writes = has_option(*find_memory(memory), "writes") ? 2 : 1;
  return {{.B = 2, .T = 7, .H = 2, .K = 3, .V = 3, .N = writes},
          {.B = 1, .T = 70, .H = 2, .K = 16, .V = 16, .N = writes},
          {.B = 1, .T = 130, .H = 1, .K = 64, .V = 64, .N = writes}};
}

/// Matrices that a state goes through at every token about as large as the identity: others let gradients grow without
/// bound.
void tame(const ApplyCase& one, ApplyData& data) {
  for (const MemoryInput& input : find_memory(one.memory)->inputs) {
    if (input.shape != "[H,V,V]") continue;
    for (double& x : data[input.name]) x /= std::sqrt(one.sizes.V);
  }
}

/// Keys and queries about as long as 1 however wide they are, as memories in use have them.
ApplyData data_of(const ApplyCase& one) {
  ApplyData data = apply_data(one, 3);
  if (one.sizes.K <= 3) return data;
  for (double& x : data["k"]) x *= 2 / std::sqrt(one.sizes.K);
  for (double& x : data["q"]) x /= std::sqrt(one.sizes.K);
  tame(one, data);
  return data;
}

bool normalises_inside(const ApplyCase& one) {
  for (const ApplyInput& input : apply_inputs(one.of(), one.sizes))
    if (input.name == "gain") return true;
  return false;
}

class MemoryOnCuda : public CudaTest, public ::testing::WithParamInterface<std::string> {
 protected:
  std::vector<ApplySizes> sizes() const { return sizes_of(GetParam()); }
};

// The values against which the tests below hold a GPU must be numbers.
TEST(MemoryOnCudaData, IsFinite) {
  for (const Memory& kind : all_memories()) {
    for (const ApplySizes& shape : sizes_of(kind.name))
      for (const ApplyCase& one : apply_cases(kind.name, shape)) {
        if (one.name != "defaults") continue;
        for (const auto& [name, x] : apply<double>(one, "", data_of(one)))
          for (const double e : x)
            ASSERT_TRUE(std::isfinite(e)) << kind.name << " " << name << " T=" << shape.T;
      }
  }
}

double size_of(const Vector& x) {
  double largest = 1e-3;
  for (const double e : x) largest = std::max(largest, std::abs(e));
  return largest;
}

void expect_equal(const ApplyResult& got, const ApplyResult& want, double limit) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, x] : want)
    ASSERT_TRUE(
        close(name, got.at(name).data(), x.data(), static_cast<std::int64_t>(x.size()), limit * size_of(x)));
}

TEST_P(MemoryOnCuda, EveryFormIsTheCpus) {
  for (const ApplySizes& shape : sizes()) {
    for (const ApplyCase& one : apply_cases(GetParam(), shape)) {
      if (shape.K > 3 && one.name != "defaults" && one.name != "optional inputs") continue;
      const ApplyData data = data_of(one);
      for (const std::string& form : forms_of(one)) {
        SCOPED_TRACE(fmt::format("{} {} {} T={}", one.memory, one.name, form, shape.T));
        const ApplyResult want = apply<double>(one, form, data);
        {
          SCOPED_TRACE("fp64");
          expect_equal(apply<double>(one, form, data, Device::cuda), want, 1e-10);
        }
        if (!smooth(one.options())) continue;  // a kink or a rounding may fall on the other side
        SCOPED_TRACE("fp32");
        // LayerNorm inside a memory divides by what may be small, step after step.
        expect_equal(apply<float>(one, form, data, Device::cuda), want, normalises_inside(one) ? 2e-2 : 2e-4);
      }
    }
  }
}

// The error that rounded operands may make is the budget of a product, 2^-11 or 2^-8 a term, some chunks long.
TEST_P(MemoryOnCuda, RoundedProductsKeepToTheirBudget) {
  if (few_replicas() && GetParam().ends_with("_mlp")) {
    GTEST_SKIP() << "too slow; NetworkBatches has the kernels";
  }
  const ApplySizes shape = sizes().back();
  for (const ApplyCase& one : apply_cases(GetParam(), shape)) {
    if (one.name != "defaults" || !smooth(one.options())) continue;
    ApplyData data = apply_data(one, 3);
    tame(one, data);
    // Keys of length 1, as every memory of this size has; what longer ones erase along makes states explode.
    for (const char* keys : {"k", "erase_key", "a", "b"}) {
      if (data.count(keys) == 0) continue;
      for (double& x : data[keys]) x *= 2 / std::sqrt(64.);
    }
    for (const std::string& form : forms_of(one)) {
      SCOPED_TRACE(fmt::format("{} {}", one.memory, form));
      const ApplyResult want = apply<double>(one, form, data);
      for (const auto& [format, limit] : {std::pair{Precision::tf32, 1e-2}, {Precision::bf16, 6e-2}}) {
        SCOPED_TRACE(format == Precision::tf32 ? "tf32" : "bf16");
        expect_equal(apply<float>(one, form, data, Device::cuda, format), want, limit);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryOnCuda, every_memory(), memory_name);

}  // namespace crosstalk::checks::apply_cuda_test
