// Interval regression: a line through measurements that are known to lie between two values.
//
// With h = 1/sigma and a = mu/sigma the log likelihood sum_i log(Phi(h U_i - a) - Phi(h L_i - a)), L_i and
// U_i being the ends less slope x_i, is concave in (a, h) for a given slope (Olsen 1978; Pratt 1981), and the
// profile over slopes has one hill.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "results/numbers/statistics.h"

namespace crosstalk {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Mills' ratio (1 - Phi(z)) / phi(z) for z >= 0.
double mills(double z) {
  if (z < 25) return std::sqrt(M_PI / 2) * std::exp(z * z / 2) * std::erfc(z / M_SQRT2);
  const double w = 1 / (z * z);
  return (1 - w * (1 - 3 * w * (1 - 5 * w))) / z;
}

/// log P and phi/P at both ends, P = Phi(u) - Phi(l), for l < u.
struct Slice {
  double log_p = 0, at_u = 0, at_l = 0;
};

Slice slice_above(double l, double u) {  // 0 <= l < u
  const double fade = std::exp((l - u) * (l + u) / 2);
  const double rest = mills(l) - (fade > 0 ? fade * mills(u) : 0);
  const double safe = std::max(rest, 1e-300);
  return {-l * l / 2 - 0.5 * std::log(2 * M_PI) + std::log(safe), fade / safe, 1 / safe};
}

Slice slice(double l, double u) {
  if (l >= 0) return slice_above(l, u);
  if (u <= 0) {
    const Slice mirrored = slice_above(-u, -l);
    return {mirrored.log_p, mirrored.at_l, mirrored.at_u};
  }
  const double p = std::max(0.5 * (std::erf(u / M_SQRT2) - std::erf(l / M_SQRT2)), 1e-300);
  const auto phi = [](double z) { return std::exp(-z * z / 2) / std::sqrt(2 * M_PI); };
  return {std::log(p), phi(u) / p, phi(l) / p};
}

/// Log likelihood with its first and second derivatives in (a, h).
struct Likelihood {
  double value = 0, a = 0, h = 0, aa = 0, ah = 0, hh = 0;
};

Likelihood likelihood(const std::vector<Bracket>& ends, double a, double h) {
  Likelihood sum;
  for (const Bracket& end : ends) {
    const double l = h * end.lo - a, u = h * end.hi - a;
    const Slice s = slice(l, u);
    // What stands at infinity weighs nothing.
    const bool below = std::isfinite(end.lo), above = std::isfinite(end.hi);
    const double ru = above ? s.at_u : 0, rl = below ? s.at_l : 0;
    const double U = above ? end.hi : 0, L = below ? end.lo : 0;
    const double uu = above ? u * ru : 0, ll = below ? l * rl : 0;
    const double ga = rl - ru, gh = U * ru - L * rl;
    sum.value += s.log_p;
    sum.a += ga;
    sum.h += gh;
    sum.aa += ll - uu - ga * ga;
    sum.ah += U * uu - L * ll - gh * ga;
    sum.hh += L * L * ll - U * U * uu - gh * gh;
  }
  return sum;
}

/// The best mean and deviation for one slope.
struct Profile {
  double value = 0, mean = 0;
};

Profile profile(const std::vector<Bracket>& brackets, double slope) {
  std::vector<Bracket> ends = brackets;
  double centre = 0, spread = 0, count = 0;
  const auto middle = [](const Bracket& b) { return std::isfinite(b.hi) ? (b.lo + b.hi) / 2 : b.lo; };
  for (Bracket& end : ends) {
    end.lo -= slope * end.x;
    end.hi -= slope * end.x;
    centre += middle(end);
    ++count;
  }
  centre /= count;
  double rounding = 0, rounded = 0;
  for (const Bracket& end : ends) {
    spread += (middle(end) - centre) * (middle(end) - centre) / count;
    if (!std::isfinite(end.hi)) continue;
    rounding += (end.hi - end.lo) * (end.hi - end.lo) / 12;
    ++rounded;
  }
  // Brackets that all share a line would make sigma 0, and the interval too short: errors are not taken to be
  // smaller than what rounding to brackets hides.
  const double sharpest = 1 / std::sqrt(rounding / rounded);
  double h = std::min(sharpest, 1 / std::sqrt(std::max(spread, 1e-24))), a = centre * h;
  Likelihood now = likelihood(ends, a, h);
  for (int step = 0; step < 100; ++step) {
    const double determinant = now.aa * now.hh - now.ah * now.ah;
    double da, dh;
    if (h >= sharpest && now.h > 0) {
      da = now.aa < 0 ? -now.a / now.aa : now.a;
      dh = 0;
    } else if (now.aa < 0 && determinant > 0) {
      da = -(now.hh * now.a - now.ah * now.h) / determinant;
      dh = -(now.aa * now.h - now.ah * now.a) / determinant;
    } else {  // flat to within rounding
      const double scale = 1 / (1e-9 + std::abs(now.aa) + std::abs(now.hh));
      da = now.a * scale;
      dh = now.h * scale;
    }
    double share = 1;
    Likelihood next;
    for (;; share /= 2) {
      if (share < 1e-12) return {now.value, a / h};
      if (h + share * dh <= 0 || h + share * dh > sharpest * (1 + 1e-12)) {
        if (dh > 0 && h < sharpest) {  // up to the edge, and from there along it
          da *= (sharpest - h) / (share * dh);
          dh = (sharpest - h) / share;
        } else {
          continue;
        }
      }
      next = likelihood(ends, a + share * da, h + share * dh);
      if (next.value >= now.value) break;
    }
    a += share * da;
    h += share * dh;
    const double gain = next.value - now.value;
    now = next;
    if (gain < 1e-10) break;
  }
  return {now.value, a / h};
}

/// Where the profile crosses `level` on the way from `inside` outwards.
double crossing(const std::vector<Bracket>& brackets, double inside, double step, double level) {
  double outside = inside + step;
  for (int i = 0; profile(brackets, outside).value >= level; ++i) {
    if (i == 60) return step > 0 ? infinity : -infinity;
    inside = outside;
    step *= 2;
    outside += step;
  }
  for (int i = 0; i < 50; ++i) {
    const double middle = (inside + outside) / 2;
    (profile(brackets, middle).value >= level ? inside : outside) = middle;
  }
  return inside;
}

}  // namespace

LineFit fit_line(const std::vector<Bracket>& brackets) {
  LineFit out{static_cast<int>(brackets.size()), nan, nan, nan, nan};
  std::set<double> places;
  double y_scale = 0, x_scale = 0;
  for (const Bracket& bracket : brackets) {
    if (std::isfinite(bracket.hi)) places.insert(bracket.x);
    x_scale = std::max(x_scale, std::abs(bracket.x));
    for (const double y : {bracket.lo, bracket.hi})
      if (std::isfinite(y)) y_scale = std::max(y_scale, std::abs(y));
  }
  if (places.size() < 3 || y_scale <= 0) return out;

  std::vector<Bracket> scaled;
  for (const Bracket& bracket : brackets) {
    Bracket one{bracket.x / x_scale, bracket.lo / y_scale, bracket.hi / y_scale};
    one.hi = std::max(one.hi, one.lo + 1e-7);  // a point has a density, not a probability
    scaled.push_back(one);
  }
  // Golden section over slopes; what the ends give is the same hill.
  constexpr double golden = 0.6180339887498949;
  double low = -20, high = 20;
  double inner_low = high - golden * (high - low), inner_high = low + golden * (high - low);
  double at_low = profile(scaled, inner_low).value, at_high = profile(scaled, inner_high).value;
  while (high - low > 1e-9) {
    if (at_low > at_high) {
      high = inner_high;
      inner_high = inner_low, at_high = at_low;
      inner_low = high - golden * (high - low);
      at_low = profile(scaled, inner_low).value;
    } else {
      low = inner_low;
      inner_low = inner_high, at_low = at_high;
      inner_high = low + golden * (high - low);
      at_high = profile(scaled, inner_high).value;
    }
  }
  double slope = (low + high) / 2;
  const double best = profile(scaled, slope).value;
  // Lines through all brackets are equally likely: their middle.
  const double flat_low = crossing(scaled, slope, -1e-6, best - 1e-6);
  const double flat_high = crossing(scaled, slope, 1e-6, best - 1e-6);
  if (std::isfinite(flat_low) && std::isfinite(flat_high)) slope = (flat_low + flat_high) / 2;

  const int degrees = out.n - 2;
  const double t = boost::math::quantile(boost::math::students_t(degrees), 0.975);
  const double level = best - 0.5 * out.n * std::log1p(t * t / degrees);
  const double unit = y_scale / x_scale;
  out.slope = slope * unit;
  out.slope_lo = crossing(scaled, slope, -1e-4, level) * unit;
  out.slope_hi = crossing(scaled, slope, 1e-4, level) * unit;
  out.intercept = profile(scaled, slope).mean * y_scale;
  return out;
}

}  // namespace crosstalk
