// Colours, markers and names of labels.
// SPDX-License-Identifier: Apache-2.0
#include "plots/styles.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

namespace crosstalk {
namespace {

struct Look {
  const char *colour, *marker;
};
// Okabe and Ito (2008). Black first: it is the reference's; yellow last: it is the faintest on paper.
constexpr std::array<Look, 8> kLooks = {{{"#000000", "o"},
                                         {"#0072B2", "s"},
                                         {"#D55E00", "^"},
                                         {"#009E73", "D"},
                                         {"#CC79A7", "v"},
                                         {"#56B4E9", "P"},
                                         {"#E69F00", "X"},
                                         {"#F0E442", "p"}}};

struct Known {
  const char* label;
  std::size_t look;
};
// In the order of legends. A memory and its delta form share a colour: figures hold either the one or the
// other; where both stand in one store, the later takes a free colour.
constexpr std::array<Known, 20> kKnown = {
    {{"softmax", 0},     {"linear", 1},        {"dpfp1", 2},          {"dpfp2", 3},
     {"dpfp3", 4},       {"favor64", 5},       {"favor128", 6},       {"favor512", 7},
     {"sum", 4},         {"dpfp1_sum", 4},     {"dpfp1_fwm", 7},      {"tanh_fwm", 0},
     {"fwm", 0},         {"linear_delta", 1},  {"delta", 1},          {"dpfp1_delta", 2},
     {"dpfp2_delta", 3}, {"favor64_delta", 5}, {"favor128_delta", 6}, {"peng_gate", 6}}};

std::vector<std::string> words_of(const std::string& label) {
  std::vector<std::string> words(1);
  for (const char c : label) {
    if (c == '_')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The name of a word, or "" if it is not a known one.
std::string known_word(const std::string& word) {
  static const std::map<std::string, std::string> names = {
      {"softmax", "Softmax"}, {"linear", "Linear"}, {"dpfp", "DPFP"}, {"favor", "FAVOR+"}, {"delta", "delta"},
      {"sum", "sum"},         {"fwm", "FWM"},       {"tanh", "tanh"}, {"peng", "Peng"},    {"gate", "gate"},
      {"gated", "gated"},     {"relu", "ReLU"},     {"elu1", "ELU+1"}};
  if (const auto found = names.find(word); found != names.end()) return found->second;
  if (word.starts_with("dpfp") && all_digits(word.substr(4))) return "DPFP-" + word.substr(4);
  if (word.starts_with("favor") && all_digits(word.substr(5))) return "FAVOR+ " + word.substr(5);
  return "";
}

}  // namespace

std::map<std::string, LabelStyle> label_styles(const std::set<std::string>& labels) {
  std::vector<std::string> order;
  std::map<std::string, std::size_t> preferred;
  for (const Known& known : kKnown) {
    if (labels.count(known.label) == 0) continue;
    order.emplace_back(known.label);
    preferred[known.label] = known.look;
  }
  for (const std::string& label : labels)
    if (preferred.count(label) == 0) order.push_back(label);

  std::map<std::string, LabelStyle> styles;
  std::vector<bool> taken(kLooks.size(), false);
  std::map<std::string, std::size_t> looks;
  for (const std::string& label : order) {
    const auto wish = preferred.find(label);
    if (wish == preferred.end() || taken[wish->second]) continue;
    taken[wish->second] = true;
    looks[label] = wish->second;
  }
  std::size_t beyond = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::string& label = order[rank];
    LabelStyle& style = styles[label];
    style.rank = rank;
    if (looks.count(label) == 0) {
      // Unknown labels start with blue: black is the reference's.
      std::size_t free = kLooks.size();
      for (std::size_t i = 1; i <= kLooks.size() && free == kLooks.size(); ++i)
        if (!taken[i % kLooks.size()]) free = i % kLooks.size();
      if (free == kLooks.size()) {  // out of colours: reuse them, dashed and with the next marker
        const std::size_t colour = beyond % kLooks.size(), round = 1 + beyond / kLooks.size();
        style.colour = kLooks[colour].colour;
        style.marker = kLooks[(colour + 3 * round) % kLooks.size()].marker;
        style.dash = std::string(round % 2 == 1 ? "--" : "-.");
        ++beyond;
        continue;
      }
      taken[free] = true;
      looks[label] = free;
    }
    style.colour = kLooks[looks[label]].colour;
    style.marker = kLooks[looks[label]].marker;
  }
  return styles;
}

std::string pretty_name(const std::string& label) {
  std::string name;
  const auto words = words_of(label);
  if (known_word(words.front()).empty()) {
    name = label;
  } else {
    for (const std::string& word : words) {
      const std::string known = known_word(word);
      name += (name.empty() ? "" : " ") + (known.empty() ? word : known);
    }
    if (words.front() != "tanh")
      name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  }
  std::string escaped = name.starts_with('_') ? " " : "";  // matplotlib's legend drops what starts with '_'
  for (const char c : name) escaped += c == '$' ? std::string("\\$") : std::string(1, c);
  return escaped;
}

}  // namespace crosstalk
