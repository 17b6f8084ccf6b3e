// Numbers and vectors of a law as nodes of a model's graph, for all tokens or all queries at once.
//
// A vector over n is [B,T,H,n], a number [B,T,H,1]; what a head learns is [1,1,H,n]. What belongs to tokens
// meets what
// belongs to queries as Mixer::at_queries() has it: that of the last token seen.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/mixers/mixer.h"
#include "models/rules/law.h"

namespace crosstalk::rules {

/// Owner of a value: a head, a token, a query.
enum class Place { head, token, query };

template <class Real>
class Hoist {
 public:
  Hoist(Mixer<Real>& m, const Law& law);
  /// Counts how often values are used below these roots; before anything else.
  void count(const std::vector<Value>& roots);
  /// Sets the variable for nodes of kind input of that name.
  void set(const std::string& name, Place place, Var<Real> x) { inputs_[name] = {place, x}; }
  int size(int letter) const { return sized(letter, int{m_.K}, int{m_.V}); }

  /// What numbers alone make.
  std::optional<double> number(Value x);

  /// The value with dimensions of 1 where it has one number.
  Var<Real> value(Value x) { return made(x).x; }
  /// The same as [B,T,H,n], and as [B,Q,H,n].
  Var<Real> at_tokens(Value x, int n);
  Var<Real> at_queries(Value x, int n);

 private:
  struct Made {
    Place place = Place::head;
    Var<Real> x = {};
  };
  Made made(Value node);
  Made make(Value node);
  Made made_given(const std::string& name);
  Made learned(const Learned& one);
  Made scaled(double scale, Value x);
  Made mapped(const std::string& f, Value argument, double scale);
  Place together(Value a, Value b, Var<Real>& x, Var<Real>& y);
  Var<Real> widened(Var<Real> x, int n);
  Var<Real> wide(Made x, int n);
  Var<Real> moved(const Made& x, Place to);
  Var<Real> constant(double x);

  Mixer<Real>& m_;
  const Law& law_;
  const bool own_ = !law_.weights.empty();  ///< a memory's own text; a study's law rounds as it always did
  std::map<std::string, Made> inputs_, given_;
  std::map<Value, Made> made_;
  std::map<Value, int> uses_;
  std::map<Value, std::optional<double>> numbers_;
};

}  // namespace crosstalk::rules
