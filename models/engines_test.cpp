// Doors by which memories read: the ops of a read in models of every memory, planned for a CPU and for a GPU of 227 KiB, against
// engines_golden.txt; and the table of doors. CROSSTALK_WRITE_GOLDEN=1 writes the file anew.
// SPDX-License-Identifier: Apache-2.0
#include "models/engine_doors.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "kernels/law/diagonal_read.h"
#include "kernels/recurrence/read_weights.h"
#include "kernels/testing/shared_limit.h"
#include "models/model.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::engines_test {

const char* const kFile = CROSSTALK_SOURCE_DIR "/models/engines_golden.txt";

/// A form of an op that covers every shape, as long as it lives: a build without CUDA has none.
template <class Op>
struct AnyForm {
  AnyForm() {
    add_form<Op>({"any", [](const Op&) { return true; }, [](Op&) {}, nullptr, nullptr});
  }
  ~AnyForm() { forms_of<Op>().pop_back(); }
};

struct Case {
  const char* name;
  Device device;
  bool precise;
  Precision products;
  int width, T, Q;  ///< Q of a retrieval model; 0: a language model, with a query at every token
  const char* form = "automatic";
  int answers = 0;  ///< of a language model that asks at the last tokens alone; 0: at all
};

const std::set<std::string> kOfReads = {"attend", "attend_mix",   "chunks", "delta_values", "diagonal_read",
                                        "scan",   "read_weights", "solve",  "solve_values", "walk"};

/// Ops of reads in the graph of a model, each once, in the order of their names.
template <class Real>
std::string doors_of(const Options& options, const Case& c) {
  const bool language = c.Q == 0;
  const Vocabulary vocabulary =
      language ? Vocabulary{0, 100, false, 100} : Vocabulary{c.width, c.width, false};
  const MemoryMeasure measure;
  const auto model = make_model<Real>(options, vocabulary, c.device, 1, c.products);
  const auto made =
      model->graph(16, {c.T, language ? 1 : 2, language ? (c.answers > 0 ? c.answers : c.T) : c.Q}, true);
  std::map<std::string, int> count;
  for (const auto& node : made->graph.nodes()) {
    std::string name = node.name.substr(0, node.name.find(':'));
    if (const auto* read = std::any_cast<std::shared_ptr<const StateRead<Real>>>(&node.info))
      name = fmt::format("{}:{}x{}", (*read)->form == StateForm::chunkwise ? "chunks" : "walk", (*read)->H(),
                         (*read)->V());
    if (kOfReads.count(name.substr(0, name.find(':'))) > 0) ++count[name];
  }
  std::string all;
  for (const auto& [name, n] : count)
    all += fmt::format("{}{}{}", all.empty() ? "" : " ", name, n > 1 ? fmt::format("*{}", n) : "");
  return all;
}

std::string doors_of(const Memory& kind, const Case& c) {
  const bool language = c.Q == 0;
  Options options;
  options.set("memory.name", kind.name);
  if (language) {
    options.set("model.name", "language");
    options.set("model.width", std::int64_t{c.width});
    options.set("model.layers", 1);
    options.set("model.heads", 1);
  } else {
    options.set("model.d_key", std::int64_t{c.width});
  }
  fill_defaults(options, "model", model_options());
  fill_defaults(options, "memory", kind.options);
  if (std::string(c.form) != "automatic") {
    if (!options.has("memory.form")) return "";
    options.set("memory.form", std::string(c.form));
  }
  try {
    resolve_model(options, language ? Vocabulary{0, 100, false, 100} : Vocabulary{c.width, c.width, false});
    kind.resolve(options);
    return c.precise ? doors_of<double>(options, c) : doors_of<float>(options, c);
  } catch (const OptionError& error) {
    return "refused: " + error.key;
  }
}

std::string all_doors() {
  const SharedLimit limit(227);
  const AnyForm<DiagonalRead<float>> diagonal;
  const AnyForm<ReadWeights<float>> weights;
  const Precision full = Precision::full, tf32 = Precision::tf32, bf16 = Precision::bf16;
  const Case cases[] = {
      {"CPU, language 64, 40 tokens", Device::cpu, false, full, 64, 40, 0},
      {"CPU, retrieval 16, 40 tokens, 1 query", Device::cpu, true, full, 16, 40, 1},
      {"CPU, retrieval 16, 40 tokens, 1 query, chunk", Device::cpu, true, full, 16, 40, 1, "chunk"},
      {"CPU, retrieval 160, 40 tokens, 1 query, parallel", Device::cpu, true, full, 160, 40, 1, "parallel"},
      {"CPU, retrieval 160, 40 tokens, 1 query, query", Device::cpu, true, full, 160, 40, 1, "query"},
      {"GPU, retrieval 16, 40 tokens, 1 query", Device::cuda, false, full, 16, 40, 1},
      {"GPU, retrieval 16, 40 tokens, 20 queries", Device::cuda, false, bf16, 16, 40, 20},
      {"GPU, language 16, 12 tokens", Device::cuda, false, full, 16, 12, 0},
      {"GPU, language 64, 12 tokens", Device::cuda, false, tf32, 64, 12, 0},
      {"GPU, language 64, 60 tokens", Device::cuda, false, full, 64, 60, 0},
      {"GPU, language 64, 60 tokens, bf16", Device::cuda, false, bf16, 64, 60, 0},
      {"GPU, language 128, 60 tokens, bf16", Device::cuda, false, bf16, 128, 60, 0},
      {"GPU, language 128, 300 tokens", Device::cuda, false, tf32, 128, 300, 0},
      {"GPU, language 256, 60 tokens", Device::cuda, false, tf32, 256, 60, 0},
      {"GPU, language 256, 300 tokens, bf16", Device::cuda, false, bf16, 256, 300, 0},
      {"GPU, language 64, 60 tokens, fp64", Device::cuda, true, full, 64, 60, 0},
      {"GPU, language 64, 300 tokens, fp64", Device::cuda, true, full, 64, 300, 0},
      {"GPU, language 64, 300 tokens, bf16, recurrent", Device::cuda, false, bf16, 64, 300, 0, "recurrent"},
      {"GPU, language 64, 300 tokens, bf16, chunk", Device::cuda, false, bf16, 64, 300, 0, "chunk"},
      {"GPU, language 160, 30 tokens, parallel", Device::cuda, false, full, 160, 30, 0, "parallel"},
      {"GPU, language 64, 300 tokens, 4 answers", Device::cuda, false, bf16, 64, 300, 0, "automatic", 4},
      {"GPU, language 64, 30 tokens, query", Device::cuda, false, full, 64, 30, 0, "query"},
  };
  std::string text;
  for (const Case& c : cases) {
    std::map<std::string, std::string> memories;  // by doors
    for (const Memory& kind : all_memories()) {
      const std::string doors = doors_of(kind, c);
      if (!doors.empty()) memories[doors] += " " + kind.name;
    }
    for (const auto& [doors, names] : memories) text += fmt::format("{} | {} |{}\n", c.name, doors, names);
  }
  return text;
}

TEST(Engines, ReadByTheDoorsOfTheTable) {
  const std::string got = all_doors();
  if (std::getenv("CROSSTALK_WRITE_GOLDEN")) std::ofstream(kFile) << got;
  std::ifstream file(kFile);
  std::stringstream want;
  want << file.rdbuf();
  EXPECT_EQ(got, want.str());
}

// Laws of studies reach them.
TEST(Engines, DoorsThatNoMemoryOfTheRegistryOpens) {
  const auto door = [](const ReadFacts& f) {
    const DoorOf* by = door_of_read(f);
    return by ? std::optional(by->door) : std::nullopt;
  };
  ReadFacts sum{.cuda = true, .T = 4096, .Q = 4096, .K = 64, .V = 64, .chunk = 64, .of_ones = true};
  EXPECT_EQ(door(sum), Door::key_sum);
  sum.before = true;
  EXPECT_EQ(door(sum), Door::chunks);  // a sum has its own token
  sum.before = false, sum.keeps = true;
  EXPECT_EQ(door(sum), Door::chunks);

  ReadFacts wide{.kind = {.erase = Erase::delta}, .cuda = true, .products = Precision::bf16, .T = 1024};
  wide.Q = 1024, wide.K = wide.V = 256, wide.chunk = 64, wide.gained = true;
  wide.has_form = [] { return true; };
  EXPECT_EQ(door(wide), Door::delta_values);
  wide.B = 256;  // 2^28 weights
  EXPECT_EQ(door(wide), Door::chunks);
  wide.B = 1, wide.starts = true;
  EXPECT_EQ(door(wide), Door::pairs);

  ReadFacts rows{.T = 64, .Q = 64, .own_heads = false, .from_weights = true};
  EXPECT_EQ(door(rows), Door::walk);
  rows.cuda = true;
  EXPECT_EQ(door(rows), Door::chunks);
  rows.asked = Form::parallel;
  EXPECT_EQ(door(rows), std::nullopt);
  rows.between_tokens = true;
  EXPECT_EQ(door(rows), Door::chunks);

  ReadFacts fading{.kind = {.value_decay = true}, .cuda = true};
  fading.has_form = [] { return false; };
  EXPECT_EQ(door(fading), Door::rows);
  fading.asked = Form::query;
  EXPECT_EQ(door(fading), std::nullopt);
}

}  // namespace crosstalk::checks::engines_test
