// Colours, markers and names of labels.
// SPDX-License-Identifier: Apache-2.0
#include "plots/drawing/styles.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

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

constexpr std::size_t kPalette = kColours + kFurther.size();

/// A place of the palette, and behind its end one that comes again with another dash. Colours behind the first eight are less easily
/// told from others, and so dashed.
LabelStyle look_at(std::size_t place) {
  static const char* const kDashes[] = {"--", "-.", ":"};
  if (place < kColours) return {0, "", kLooks[place].colour, kLooks[place].marker};
  const std::size_t beyond = place - kColours, round = 1 + beyond / kColours;
  return {0, "", kFurther[beyond % kFurther.size()], kLooks[(beyond + 3 * round) % kColours].marker,
          kDashes[(round - 1) % std::size(kDashes)]};
}

/// The place of a memory that is often compared: no other memory has it, and its line is solid, for theory is dashed.
std::optional<std::size_t> own_place(const std::string& memory) {
  static const std::vector<std::vector<const char*>> memories = {{"softmax"},
                                                                 {"linear_attention"},
                                                                 {"delta", "deltanet"},
                                                                 {"gated_delta"},
                                                                 {"kda"},
                                                                 {"gla"},
                                                                 {"mamba2"},
                                                                 {"rope"},
                                                                 {"rwkv7"},
                                                                 {"mamba1", "mamba"},
                                                                 {"mamba3"},
                                                                 {"retnet"},
                                                                 {"mesa"},
                                                                 {"comba"},
                                                                 {"fox"},
                                                                 {"deltaformer"},
                                                                 {"delta_product"},
                                                                 {"hyena"},
                                                                 {"mlstm"},
                                                                 {"slstm"},
                                                                 {"sliding_window"},
                                                                 {"h3"},
                                                                 {"hgrn2"},
                                                                 {"path"}};
  for (std::size_t place = 0; place < memories.size(); ++place)
    for (const char* name : memories[place])
      if (memory == name) return place;
  return std::nullopt;
}

/// That of any other: one of the first colours, which they share.
std::size_t shared_place(const std::string& memory) {
  std::size_t hash = 0;  // that of no library: it stays
  for (const char letter : memory) hash = 31 * hash + static_cast<unsigned char>(letter);
  return 1 + hash % (kColours - 1);  // black is the reference's
}

/// Labels that have a memory and no look of their own, in order.
std::vector<std::pair<std::string, std::string>> ordered(
    const std::vector<std::string>& order, const std::map<std::string, std::string>& memories,
    const std::map<std::string, std::size_t>& preferred) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const std::string& label : order)
    if (const auto memory = memories.find(label); memory != memories.end() && preferred.count(label) == 0)
      list.emplace_back(*memory);
  return list;
}

}  // namespace

std::map<std::string, LabelStyle> label_styles(const std::set<std::string>& labels,
                                               const std::vector<std::string>& given,
                                               const std::map<std::string, std::string>& titles,
                                               const std::map<std::string, std::string>& memories) {
  std::vector<std::string> order;
  const auto add = [&](const std::string& label) {
    if (labels.count(label) != 0 && std::ranges::find(order, label) == order.end()) order.push_back(label);
  };
  for (const std::string& label : given) add(label);
  std::map<std::string, std::size_t> preferred;
  for (const Known& known : kKnown) {
    add(known.label);
    preferred[known.label] = known.look;
  }
  for (const std::string& label : labels) add(label);

  std::map<std::string, LabelStyle> styles;
  std::vector<bool> taken(kPalette, false);
  std::map<std::string, std::size_t> places;
  const auto take = [&](const std::string& label, std::size_t place) {
    if (place < kPalette && (taken[place] || places.count(label) != 0)) return;
    if (place < kPalette) taken[place] = true;
    places[label] = place;
  };
  for (const std::string& label : order)
    if (const auto wish = preferred.find(label); wish != preferred.end()) take(label, wish->second);
  for (const auto& [label, memory] : ordered(order, memories, preferred))
    if (const auto place = own_place(memory)) take(label, *place);
  for (const auto& [label, memory] : ordered(order, memories, preferred))
    if (!own_place(memory)) take(label, shared_place(memory));
  std::size_t beyond = kPalette;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::string& label = order[rank];
    // Unknown labels start with blue: black is the reference's.
    for (std::size_t i = 1; i <= kColours; ++i) take(label, i % kColours);
    for (std::size_t i = kColours; i < kPalette; ++i) take(label, i);
    if (places.count(label) == 0) take(label, beyond++);
    LabelStyle& style = styles[label] = look_at(places[label]);
    const auto memory = memories.find(label);
    if (memory != memories.end() && own_place(memory->second) == places[label]) style.dash = "-";
    style.rank = rank;
    const auto title = titles.find(label);
    style.name = title != titles.end() && !title->second.empty() ? title->second : label_name(label);
  }
  return styles;
}

void add_styles(std::map<std::string, LabelStyle>& styles, const std::set<std::string>& more,
                const std::map<std::string, std::string>& memories) {
  std::set<std::string> taken;
  for (const auto& [label, style] : styles) taken.insert(style.colour);
  const auto give = [&](const std::string& label, const LabelStyle& look) {
    taken.insert(look.colour);
    LabelStyle& style = styles[label] = look;
    style.rank = styles.size() - 1;
    style.name = label_name(label);
  };
  for (const std::string& label : more) {
    const auto memory = memories.find(label);
    const auto place = own_place(memory == memories.end() ? label : memory->second);
    if (styles.count(label) == 0 && place && taken.count(look_at(*place).colour) == 0)
      give(label, look_at(*place));
  }
  std::size_t next = 1, again = kColours;  // black, the reference's, comes last of the first
  for (const std::string& label : more) {
    if (styles.count(label) != 0) continue;
    const auto place = [&] { return next <= kColours ? next % kColours : next - 1; };
    while (place() < kPalette && taken.count(look_at(place()).colour) != 0) ++next;
    give(label, look_at(place() < kPalette ? place() : again++ % kPalette));
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
