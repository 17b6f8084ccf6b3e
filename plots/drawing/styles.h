// Colours, markers and names of labels: one label looks the same in every figure of a store.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace crosstalk {

/// Colours that are told apart at a glance, and by the colour-blind.
inline constexpr std::size_t kColours = 8;

/// How a label is drawn.
struct LabelStyle {
  std::size_t rank = 0;  ///< order in legends: the study's, then known labels, then the alphabet
  std::string name;      ///< in legends; may hold mathtext
  std::string colour;    ///< "#0072B2"
  std::string marker;    ///< matplotlib's
  std::string dash = std::string("-");  ///< "-"; labels beyond the eighth are dashed
};

/// Okabe-Ito colours (distinct for colour-blind readers; wine in place of yellow, which paper does not show),
/// each with a marker of its own; beyond these further ones, up to 48. Labels of the shipped studies have fixed
/// colours, and the memories that are often compared have one each that no other takes from them; others share the first eight, or take
/// what is free, in the order given, then the alphabet's. `titles`: names in legends, where a study gives them; `memories`: of labels.
std::map<std::string, LabelStyle> label_styles(const std::set<std::string>& labels,
                                               const std::vector<std::string>& order = {},
                                               const std::map<std::string, std::string>& titles = {},
                                               const std::map<std::string, std::string>& memories = {});

/// Gives `more` labels styles too: that of their memory (without one, of the memory of their name), or a colour that nothing else has,
/// while there are any of the 48.
void add_styles(std::map<std::string, LabelStyle>& styles, const std::set<std::string>& more,
                const std::map<std::string, std::string>& memories = {});

/// The name of a label of the shipped studies ("dpfp1_delta" -> "DPFP-1 delta"); others stay as they are, '$'
/// escaped for matplotlib.
std::string label_name(const std::string& label);

}  // namespace crosstalk
