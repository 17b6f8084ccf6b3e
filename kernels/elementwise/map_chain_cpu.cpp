// A chain of elementwise ops on the CPU, row after row.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "kernels/base/parallel.h"
#include "kernels/elementwise/map_chain.h"

namespace crosstalk {
namespace {

/// The registers of one row, and their gradients.
template <class Real>
class ChainRow {
 public:
  explicit ChainRow(const MapChain<Real>& op)
      : op_(op), D_(op.D()), values_(room()), gradients_(room()), steps_(op.step, op.step + op.steps) {
    for (int i = 0; i < op.inputs; ++i) {
      Tensor<Real> part = op.x[i].value;
      if (op.whole(i)) part = op.whole_shape(part.R);
      places_.push_back(broadcast(op.whole_shape(part.R), part));
    }
  }
  Real* value(int n) { return values_.data() + std::size_t(n) * std::size_t(D_); }
  Real* gradient(int n) { return gradients_.data() + std::size_t(n) * std::size_t(D_); }

  void forward(int r, std::int64_t row) {
    for (int i = 0; i < op_.inputs; ++i)
      for (int j = 0; j < D_; ++j)
        value(i)[j] = op_.x[i].value.at(r)[places_[std::size_t(i)].index(row * D_ + j)];
    for (int s = 0; s < op_.steps; ++s) {
      const StepMath<Real>& step = steps_[std::size_t(s)];
      const Real *a = value(step.a), *b = value(step.b);
      Real* y = value(op_.inputs + s);
      if (!reduces(step.kind)) {
        for (int j = 0; j < D_; ++j) y[j] = step.value(a[j], b[j]);
        continue;
      }
      const bool sum = step.kind == ChainKind::row_sum;
      Real total = 0;
      for (int j = 0; j < D_; ++j) {
        y[j] = step.of_a.value(a[j]);
        total += sum ? y[j] : y[j] * y[j];
      }
      const Real inverse = sum ? total : step.inverse_of(total, D_);
      for (int j = 0; j < D_; ++j) y[j] = sum ? total : y[j] * inverse;
    }
  }
  /// Runs after forward().
  void backward(int r, std::int64_t row) {
    std::fill(gradients_.begin(), gradients_.end(), Real(0));
    for (int o = 0; o < op_.outputs; ++o) {
      if (!op_.y[o].gradient.data) continue;
      for (int j = 0; j < D_; ++j) gradient(op_.made_by[o])[j] += op_.y[o].gradient.at(r)[row * D_ + j];
    }
    for (int s = op_.steps - 1; s >= 0; --s) {
      const StepMath<Real>& step = steps_[std::size_t(s)];
      const Real *a = value(step.a), *b = value(step.b), *y = value(op_.inputs + s),
                 *d = gradient(op_.inputs + s);
      Real *d_a = gradient(step.a), *d_b = gradient(step.b);
      if (!reduces(step.kind)) {
        for (int j = 0; j < D_; ++j) {
          d_a[j] += d[j] * step.slope_a(a[j], b[j]);
          if (has_two(step.kind)) d_b[j] += d[j] * step.slope_b(a[j], b[j]);
        }
        continue;
      }
      Real along = 0, squares = 0;
      for (int j = 0; j < D_; ++j) {
        const Real mapped = step.of_a.value(a[j]);
        along += step.kind == ChainKind::row_sum ? d[j] : d[j] * y[j];
        squares += mapped * mapped;
      }
      if (step.kind == ChainKind::rms) along /= static_cast<Real>(D_);
      const Real inverse = step.inverse_of(squares, D_);
      for (int j = 0; j < D_; ++j)
        d_a[j] += (step.kind == ChainKind::row_sum ? along : inverse * (d[j] - y[j] * along)) *
                  step.of_a.slope(a[j]);
    }
    for (int i = 0; i < op_.inputs; ++i) {
      const In<Real>& x = op_.x[i];
      if (!x.wanted()) continue;
      for (int j = 0; j < D_; ++j) {
        const std::int64_t at = places_[std::size_t(i)].index(row * D_ + j);
        put(op_.whole(i) ? x.write : Write::add, x.gradient.at(r) + at, gradient(i)[j]);
      }
    }
  }

 private:
  std::size_t room() const { return std::size_t(op_.registers()) * std::size_t(op_.D()); }
  const MapChain<Real>& op_;
  int D_;
  std::vector<Real> values_, gradients_;
  std::vector<StepMath<Real>> steps_;
  std::vector<Broadcast> places_;
};

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const MapChain<Real>& op) {
  parallel_blocks(exec, op.x[0].value.R, op.size() / op.D(), 64,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    ChainRow<Real> chain(op);
                    for (std::int64_t row = begin; row < end; ++row) {
                      chain.forward(r, row);
                      for (int o = 0; o < op.outputs; ++o)
                        std::copy_n(chain.value(op.made_by[o]), op.D(), op.y[o].value.at(r) + row * op.D());
                    }
                  });
}

// A replica is one item of work, since rows add up to gradients of what is repeated.
template <class Real>
void backward_cpu(const Exec& exec, const MapChain<Real>& op) {
  parallel_items(exec, op.x[0].value.R, 1, [&](int r, std::int64_t) {
    for (int i = 0; i < op.inputs; ++i) {
      const In<Real>& x = op.x[i];
      if (x.write == Write::overwrite && !op.whole(i)) std::fill_n(x.gradient.at(r), x.value.size(), Real(0));
    }
    ChainRow<Real> chain(op);
    for (std::int64_t row = 0; row < op.size() / op.D(); ++row) {
      chain.forward(r, row);
      chain.backward(r, row);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, MapChain)

}  // namespace crosstalk
