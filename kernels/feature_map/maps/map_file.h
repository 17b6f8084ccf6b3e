// Contents of a feature map's file. kernels/feature_map/maps/NAME.h holds one struct maps::NAME: phi and its
// derivative for the CPU and CUDA, and info() for the program's help, studies and checks. The build finds it,
// and NAME_test.cpp beside it.
//
// Three families:
//   EntryMap  y_i = f(x_i): argument, value and pull below, for every kernel that maps features.
//   RowMap    y = f(x) of a whole row: forward and backward below, by a team of lanes (CPU: one, CUDA: 32).
//   FusedMap  phi wants x and its random projection together: code of its own in feature_map_{cpu,cuda}.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/exec.h"
#include "kernels/base/host_device.h"
#include "kernels/base/text/options.h"

namespace crosstalk::maps {

enum class Family { entry, row, fused };

/// The transcendental function that an entry map starts from: the CPU calls it for many numbers at once.
enum class Core { none, exp, tanh };

///   template <class Real> CT_HD static Real value(Real x, Real e);   // phi(x); e = core(argument(x)), or x
///   template <class Real> CT_HD static Real pull(Real x, Real y, Real g);  // g phi'(x), y = phi(x)
/// and, where they differ, kCore and argument(). At a kink phi' is 0 (as in PyTorch); NaN stays NaN.
struct EntryMap {
  static constexpr Family kFamily = Family::entry;
  static constexpr Core kCore = Core::none;
  template <class Real>
  CT_HD static Real argument(Real x) {
    return x;
  }
  static std::int64_t width(std::int64_t d, int /*number*/, std::int64_t /*m*/) { return d; }
};

/// A row x [d] and what is made of it.
template <class Real>
struct MapRow {
  int d = 0, p = 0;
  int number = 1;  ///< the whole number that a map may have: nu, a degree
  const Real* x = nullptr;
  Real* work = nullptr;  ///< work(d, lanes) numbers, shared by the lanes
};

/// The place of a row's gradient.
template <class Real>
struct RowGradient {
  Real* d_x = nullptr;
  Write mode = Write::overwrite;
  CT_HD void operator()(int i, Real g) const { d_x[i] = mode == Write::add ? d_x[i] + g : g; }
};

///   static std::int64_t width(std::int64_t d, int number, std::int64_t m);  // p, of rows of width d
///   CT_HD static std::int64_t work(std::int64_t d, int lanes);  // where it needs memory
///   template <class Team, class Real> CT_HD static void forward(const Team&, const MapRow<Real>&, Real* y);
///   template <class Team, class Real> CT_HD static void backward(const Team&, const MapRow<Real>&, const
///   Real* y,
///                                                               const Real* d_y, RowGradient<Real> d_x);
/// A team has `kLanes`, `lane`, each(begin, end, f): f(i) for this lane's own i; sum(x) and max(x) over
/// lanes; and sync(), after which a lane sees what others wrote into `work`.
struct RowMap {
  static constexpr Family kFamily = Family::row;
  CT_HD static std::int64_t work(std::int64_t, int) { return 0; }
};

struct FusedMap {
  static constexpr Family kFamily = Family::fused;
};

/// The matrix that multiplies rows before phi sees them.
enum class Projection {
  none,
  random,   ///< omega x, omega [m,d] drawn as ops/favor_features.h says
  learned,  ///< W x + b of queries and of keys, W the identity and b zero at first
  polynomial,  ///< A x of queries and of keys, and B x^2 / sqrt(2) is added to phi; A and B are N(0, 1/d) at first
};

/// A study's options of a map, on their way to be resolved. Names are without "memory.".
struct MapSetting {
  Options& options;
  std::int64_t d = 0;      ///< keys of one head
  std::int64_t d_dot = 0;  ///< what was asked for; 0: to be derived
  std::string d_text = "model.d_key";

  std::int64_t whole(const char* name) const { return options.get_int(key(name)); }
  const std::string& text(const char* name) const { return options.get_string(key(name)); }
  void set(const char* name, std::int64_t value) { options.set(key(name), value); }
  [[noreturn]] void refuse(const char* name, const std::string& why) const {
    throw OptionError(key(name), why);
  }
  /// d_dot, which must be what was asked for if anything was.
  std::int64_t agreed(std::int64_t derived, const std::string& why) const {
    if (d_dot != 0 && d_dot != derived) {
      refuse("d_dot", "memory.d_dot = " + std::to_string(d_dot) + " has no solution with feature_map \"" +
                          text("feature_map") + "\" and " + d_text + " = " + std::to_string(d) + ": " + why);
    }
    return derived;
  }

 private:
  static std::string key(const char* name) { return std::string("memory.") + name; }
};

inline std::int64_t same_width(MapSetting& s) { return s.agreed(s.d, "it must equal d_key"); }
inline bool never(const Options&) { return false; }
inline bool always(const Options&) { return true; }

struct MapInfo {
  std::string name, formula;
  std::string d_dot;  ///< its dimension, in words
  std::string source;
  bool positive = false;  ///< features are never negative: their sum may divide (key_norm sum)
  /// Tells whether phi(q).phi(k) is positive, or estimates what is: sums of it may divide (read_norm attention).
  bool (*divides)(const Options&) = never;
  bool smooth = true;  ///< no kinks: differences check its gradient anywhere
  bool (*vanishes)(std::int64_t d) =
      nullptr;  ///< whether a positive map's features can all be 0 for keys of d numbers
  Projection projection = Projection::none;
  bool unit_rows = false;  ///< rows are divided by their length before anything else
  bool turned = false;     ///< pairs of features are turned by pi t / (2 T) at token t of T
  std::vector<OptionSpec> options = {};
  /// Fills in what is derived and gives d_dot; throws OptionError.
  std::int64_t (*resolve)(MapSetting&) = same_width;
  /// MapRow::number of resolved options with keys of d numbers a head.
  int (*number)(const Options& options, std::int64_t d) = nullptr;
};

// Options that several maps share.

inline OptionSpec features_option() {
  return {"features", std::int64_t{0},
          "number m of random features of favor, favor_relu and rfa (0: d_key, or from d_dot)", 0, 65536};
}
inline OptionSpec redraw_option() {
  return {
      "favor_redraw",
      std::string("every_forward"),
      "when random features are drawn anew: in every forward pass, training and evaluation (Schlag et al. 2021), or never",
      0,
      0,
      {"every_forward", "fixed"}};
}
/// d_dot = per_feature m.
inline std::int64_t resolve_features(MapSetting& s, std::int64_t per_feature) {
  std::int64_t m = s.whole("features");
  if (m == 0) m = s.d_dot == 0 ? s.d : s.d_dot / per_feature;
  s.set("features", m);
  return s.agreed(per_feature * m, "d_dot must be " + std::to_string(per_feature) + " features");
}

}  // namespace crosstalk::maps
