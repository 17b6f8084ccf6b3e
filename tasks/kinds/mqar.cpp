// mqar: multi-query associative recall in token form, as Zoology draws it (Arora et al. 2023, arXiv 2312.04927).
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tasks/fused_task.h"
#include "tasks/mqar_task.h"

namespace crosstalk::mqar_task {

MqarPlan plan_of(const Options& options) {
  const int vocabulary = int_option(options, "vocabulary");
  const bool fresh = options.get_bool("task.fresh");
  MqarSpec spec;
  spec.keys = vocabulary / 2 - 1;
  spec.values = vocabulary - vocabulary / 2;
  spec.length = int_option(options, "length");
  spec.pairs = int_option(options, "pairs");
  spec.passes = int_option(options, "passes");
  spec.power = options.get_double("task.power");
  spec.random_filler = options.get_string("task.filler") == "random";
  spec.examples = fresh ? 0 : static_cast<std::uint64_t>(options.get_int("task.examples"));
  return {.spec = spec,
          .eval_length = 0,
          .update_fraction = 0,
          .fresh = fresh,
          .segments = mqar_segments(options, "segments"),
          .test_segments = mqar_segments(options, "test_segments"),
          .names = {}};
}

void resolve(Options& options) {
  resolve_mqar(options, plan_of(options), "task.length", 64, 4);
  const MqarPlan plan = plan_of(options);
  check_mqar(plan.spec, "task.length", "task.pairs", plan.names);
}

std::vector<OptionSpec> options() {
  std::vector<OptionSpec> all = {
      {"vocabulary", 8192, "token ids: one blank, keys, values (half of all)", 4, 1 << 20},
      {"length", 64, "tokens of a sequence; even", 4, mqar_largest_length},
      {"pairs", 4, "keys with their values in a sequence (D)", 1, mqar_largest_length / 4},
      {"passes", 1, "times that the pairs are shown before the queries", 1, 64}};
  for (OptionSpec& option : mqar_options()) all.push_back(std::move(option));
  return all;
}

TaskKind kind() {
  return {
      "mqar",
      "multi-query associative recall in single tokens: pairs first, then each key once among fillers",
      "A sequence of `length` tokens begins with D = pairs keys, each followed by its value: k1 v1 .. kD vD, shown `passes` times. Keys are distinct "
      "ids of 1 .. vocabulary/2 - 1, values distinct ids of vocabulary/2 .. vocabulary - 1, 0 is blank. What follows is cut into slots of two "
      "tokens; D different slots begin with a key, each key once, and the answer, due at that token, is its value, which is not in the input there. "
      "Slot i = 1 .. n is drawn with weight i^(power - 1), one after the other without replacement, and the slots drawn first go to the keys that "
      "were shown first; power = 1 is uniform, 0.01 asks most keys soon. All other tokens are blank (filler = zero) or any id, keys and values among "
      "them (filler = random). Layout, labels and law are those of Zoology (Arora et al. 2023, arXiv 2312.04927). With examples = N training has N "
      "sequences, the same ones in the same order in every epoch, as there; with fresh = true every epoch has new ones. A mixture is named by its "
      "segments: task.segments = \"64:4:100000 128:8:20000\" trains on 100,000 sequences of length 64 with 4 pairs in an epoch, then 20,000 of "
      "length 128 with 8 pairs; task.test_segments = \"64:4 1024:256\" evaluates on those, each on as many sequences as eval.sequences says or as a "
      "third number says, and says so for each. A guess among the values in the context is right once in `pairs` "
      "(baseline_random_in_context_accuracy); baseline_in_order_accuracy is what the order of the gaps gives away.",
      options(),
      resolve,
      [](const Options& options) { return make_mqar(plan_of(options)); }};
}

}  // namespace crosstalk::mqar_task
