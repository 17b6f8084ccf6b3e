// Colours, markers and names of labels.
// SPDX-License-Identifier: Apache-2.0
#include "plots/drawing/styles.h"

#include <algorithm>
#include <array>
#include <vector>

namespace crosstalk {
namespace {

struct Look {
  const char *colour, *marker;
};
// Okabe and Ito (2008); wine (Tol 2021) for their yellow. Black first: it is the reference's.
constexpr std::array<Look, kColours> kLooks = {{{"#000000", "o"},
                                                {"#0072B2", "s"},
                                                {"#D55E00", "^"},
                                                {"#009E73", "D"},
                                                {"#CC79A7", "v"},
                                                {"#56B4E9", "P"},
                                                {"#E69F00", "X"},
                                                {"#882255", "p"}}};
// Further colours, each as far as may be (CIELAB) from all before it, from white and from the grey of theory.
constexpr std::array<const char*, 40> kFurther = {
    "#0000FF", "#FF00E1", "#00C300", "#2D1E96", "#FF005A", "#697800", "#B487FF", "#691E00",
    "#D2A578", "#FF3CA5", "#964BFF", "#FF0000", "#0F4B1E", "#3C2D69", "#D25A5A", "#A52DA5",
    "#00871E", "#0069FF", "#4B3C00", "#96B478", "#B4B400", "#B4000F", "#5AA5A5", "#966900",
    "#B4A5E1", "#FF78FF", "#5A96FF", "#874B4B", "#000FC3", "#78C33C", "#D200FF", "#003C5A",
    "#C30F5A", "#E19696", "#00C369", "#695AB4", "#F0964B", "#78784B", "#B4A54B", "#786996"};

struct Known {
  const char *label, *name;
  std::size_t look;
};
// In the order of legends. A memory and its delta form share a colour: figures hold either the one or the
// other; where both stand in one store, the later takes a free colour.
constexpr std::array<Known, 20> kKnown = {{{"softmax", "Softmax", 0},
                                           {"linear", "Linear", 1},
                                           {"dpfp1", "DPFP-1", 2},
                                           {"dpfp2", "DPFP-2", 3},
                                           {"dpfp3", "DPFP-3", 4},
                                           {"favor64", "FAVOR+ 64", 5},
                                           {"favor128", "FAVOR+ 128", 6},
                                           {"favor512", "FAVOR+ 512", 7},
                                           {"sum", "Sum", 4},
                                           {"dpfp1_sum", "DPFP-1 sum", 4},
                                           {"dpfp1_fwm", "DPFP-1 FWM", 7},
                                           {"tanh_fwm", "tanh FWM", 0},
                                           {"fwm", "FWM", 0},
                                           {"linear_delta", "Linear delta", 1},
                                           {"delta", "Delta", 1},
                                           {"dpfp1_delta", "DPFP-1 delta", 2},
                                           {"dpfp2_delta", "DPFP-2 delta", 3},
                                           {"favor64_delta", "FAVOR+ 64 delta", 5},
                                           {"favor128_delta", "FAVOR+ 128 delta", 6},
                                           {"peng_gate", "Peng gate", 6}}};

/// A memory's look in every figure: those that are often compared have one each, the others share.
std::size_t look_of_memory(const std::string& memory) {
  static const std::map<std::string, std::size_t> looks = {{"softmax", 0},     {"linear_attention", 1},
                                                           {"delta", 2},       {"deltanet", 2},
                                                           {"gated_delta", 3}, {"kda", 4},
                                                           {"gla", 5},         {"mamba2", 6},
                                                           {"rwkv7", 7},       {"rule", 4},
                                                           {"python", 7},      {"comba", 5},
                                                           {"retnet", 7},      {"mesa", 6}};
  const auto known = looks.find(memory);
  if (known != looks.end()) return known->second;
  std::size_t hash = 0;  // that of no library: it stays
  for (const char letter : memory) hash = 31 * hash + static_cast<unsigned char>(letter);
  return 1 + hash % (kColours - 1);  // black is the reference's
}

}  // namespace

std::map<std::string, LabelStyle> label_styles(const std::set<std::string>& labels,
                                               const std::vector<std::string>& given,
                                               const std::map<std::string, std::string>& titles,
                                               const std::map<std::string, std::string>& memories) {
  std::vector<std::string> order;
  const auto add = [&](const std::string& label) {
    if (labels.count(label) != 0 && std::find(order.begin(), order.end(), label) == order.end())
      order.push_back(label);
  };
  for (const std::string& label : given) add(label);
  std::map<std::string, std::size_t> preferred;
  for (const Known& known : kKnown) {
    add(known.label);
    preferred[known.label] = known.look;
  }
  for (const std::string& label : labels) add(label);

  std::map<std::string, LabelStyle> styles;
  std::vector<bool> taken(kLooks.size(), false);
  std::map<std::string, std::size_t> looks;
  for (const std::string& label : order) {
    const auto wish = preferred.find(label);
    if (wish == preferred.end() || taken[wish->second]) continue;
    taken[wish->second] = true;
    looks[label] = wish->second;
  }
  for (const std::string& label : order) {
    const auto memory = memories.find(label);
    if (memory == memories.end() || preferred.count(label) != 0) continue;
    const std::size_t wish = look_of_memory(memory->second);
    if (taken[wish]) continue;
    taken[wish] = true;
    looks[label] = wish;
  }
  std::size_t beyond = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::string& label = order[rank];
    LabelStyle& style = styles[label];
    style.rank = rank;
    const auto title = titles.find(label);
    style.name = title != titles.end() && !title->second.empty() ? title->second : label_name(label);
    if (looks.count(label) == 0) {
      // Unknown labels start with blue: black is the reference's.
      std::size_t free = kLooks.size();
      for (std::size_t i = 1; i <= kLooks.size() && free == kLooks.size(); ++i)
        if (!taken[i % kLooks.size()]) free = i % kLooks.size();
      if (free == kLooks.size()) {  // a colour that is less easily told from others, and so dashed
        static const char* const kDashes[] = {"--", "-.", ":"};
        const std::size_t round = 1 + beyond / kLooks.size();
        style.colour = kFurther[beyond % kFurther.size()];
        style.marker = kLooks[(beyond + 3 * round) % kLooks.size()].marker;
        style.dash = kDashes[(round - 1) % std::size(kDashes)];
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

void add_styles(std::map<std::string, LabelStyle>& styles, const std::set<std::string>& more) {
  std::set<std::string> taken;
  for (const auto& [label, style] : styles) taken.insert(style.colour);
  std::vector<LabelStyle> free;
  for (std::size_t i = 1; i <= kColours; ++i)  // black, the reference's, comes last
    if (const Look& look = kLooks[i % kColours]; taken.count(look.colour) == 0)
      free.push_back({0, "", look.colour, look.marker});
  std::size_t beyond = 0;
  for (const char* colour : kFurther)
    if (taken.count(colour) == 0) free.push_back({0, "", colour, kLooks[beyond++ % kColours].marker, "--"});
  if (free.empty()) free.push_back({0, "", kFurther[0], "o", ":"});
  std::size_t next = 0;
  for (const std::string& label : more) {
    if (styles.count(label) != 0) continue;
    LabelStyle style = free[next++ % free.size()];
    style.rank = styles.size();
    style.name = label_name(label);
    styles[label] = style;
  }
}

std::string label_name(const std::string& label) {
  for (const Known& known : kKnown)
    if (label == known.label) return known.name;
  std::string escaped = label.starts_with('_') ? " " : "";  // matplotlib's legend drops what starts with '_'
  for (const char c : label) escaped += c == '$' ? std::string("\\$") : std::string(1, c);
  return escaped;
}

}  // namespace crosstalk
