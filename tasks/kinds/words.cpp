// words: can a memory keep the product of what it has seen? (word problems; Merrill et al. 2024, arXiv 2404.08819)
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "tasks/device_table.h"
#include "tasks/drawn_task.h"
#include "tasks/group.h"
#include "tasks/kinds/words_sequence.h"

namespace crosstalk::words_task {

Group group_of(const Options& options) {
  const std::string &name = options.get_string("task.group"), &table = options.get_string("task.table");
  return name == "table" ? group_of_table("task.table", table) : named_group("task.group", name);
}

/// Elements that move at most 2 or 3 points, or all.
std::vector<std::int32_t> factors_of(const Options& options, const Group& group) {
  const std::string& factors = options.get_string("task.factors");
  const int most = factors == "swaps" ? 2 : factors == "three" ? 3 : 0;
  if (most > 0 && group.moved.empty())
    refuse(
        options, "task.factors",
        fmt::format(
            " counts the points that a permutation moves, and task.group = \"{}\" has none; give S<n> or A<n>, or leave task.factors out",
            options.get_string("task.group")));
  std::vector<std::int32_t> elements;
  for (int x = 0; x < group.order; ++x)
    if (most == 0 || group.moved[static_cast<std::size_t>(x)] <= most) elements.push_back(x);
  if (most > 0 && elements.size() < 2)
    refuse(options, "task.factors",
           fmt::format(" leaves nothing but the identity of {}; leave it out",
                       options.get_string("task.group")));
  return elements;
}

/// Factors that may follow each factor in training, as WordsSpec::successors: the pairs of one random cycle through all, and
/// random ones; empty where none is held out.
std::vector<std::int32_t> successors_of(const Options& options, std::int32_t choices) {
  const std::int64_t held_out = options.get_int("task.held_out_pairs"),
                     pairs = std::int64_t{choices} * choices;
  if (held_out == 0) return {};
  if (held_out > pairs - choices)
    refuse(options, "task.held_out_pairs",
           fmt::format(": {} elements have {} pairs, and each needs one that may follow it; give at most {}",
                       choices, pairs, pairs - choices));
  RandomStream random(static_cast<std::uint64_t>(options.get_int("task.pair_choice")),
                      RandomDomain::task_train, 0xffffffffu, 0xfffffffeu);
  std::vector<std::int32_t> cycle(static_cast<std::size_t>(choices));
  count_up(cycle.data(), choices);
  arrange(random, cycle.data(), choices, choices);
  std::vector<char> shown(static_cast<std::size_t>(pairs));
  const auto at = [&](std::int32_t a, std::int32_t b) { return static_cast<std::size_t>(a * choices + b); };
  for (std::size_t i = 0; i < cycle.size(); ++i) shown[at(cycle[i], cycle[(i + 1) % cycle.size()])] = 1;
  std::vector<std::int32_t> others;
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (shown[i] == 0) others.push_back(static_cast<std::int32_t>(i));
  const auto more = static_cast<std::int32_t>(pairs - choices - held_out);
  arrange(random, others.data(), static_cast<std::int32_t>(others.size()), more);
  for (std::int32_t i = 0; i < more; ++i)
    shown[static_cast<std::size_t>(others[static_cast<std::size_t>(i)])] = 1;
  std::vector<std::int32_t> begins = {0}, all;
  for (std::int32_t a = 0; a < choices; ++a) {
    for (std::int32_t b = 0; b < choices; ++b)
      if (shown[at(a, b)] != 0) all.push_back(b);
    begins.push_back(static_cast<std::int32_t>(all.size()));
  }
  begins.insert(begins.end(), all.begin(), all.end());
  return begins;
}

class Words final : public DrawnTask<Words, TokenTask, words_sequence, words_scratch_size> {
 public:
  explicit Words(const Options& options) : Words(options, std::make_shared<Group>(group_of(options))) {
    add_stages(options, "length",
               [](Words& stage, int size, std::uint32_t) { stage.spec_.length = stage.eval_.length = size; });
  }

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.tokens(), spec_.order); }

  SequenceShape full_shape(Split split) const override {
    const int length = of(split).length;
    return {first() + length, 1, spec_.query_every ? length - spec_.transition + 1 : 1};
  }

  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    std::int32_t product = group_->identity;
    for (int t = first(); t < position - (spec_.transition - 1); ++t)
      if (sequence.tokens[t] != spec_.pause()) product = group_->product(product, sequence.tokens[t]);
    return product;
  }

  void lengthen(int factor) override { eval_.length = lengthened_size(spec_.length, factor); }

  int eval_load() const override { return eval_.length; }

  void prepare(Device device) const override {
    if (device != Device::cuda) return;
    table_->upload();
    factors_->upload();
    if (successors_) successors_->upload();
  }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return t < first() ? "<s>" : sequence.tokens[t] == spec_.pause() ? "." : answer_word(sequence.tokens[t]);
  }
  std::string answer_word(std::int32_t answer) const override {
    return group_->names[static_cast<std::size_t>(answer)];
  }
  int answers() const override { return spec_.order; }

  /// most_recent: the last factor. unchanged: the identity.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    int t = sequence.query_position[q] - 1;
    while (sequence.tokens[t] == spec_.pause()) --t;
    return {{"most_recent", sequence.tokens[t] == sequence.target[q] ? 1.0 : 0.0},
            {"unchanged", sequence.target[q] == group_->identity ? 1.0 : 0.0}};
  }

 private:
  Words(const Options& options, std::shared_ptr<const Group> group)
      : DrawnTask({}), group_(std::move(group)), table_(std::make_shared<DeviceTable>(group_->table)) {
    const std::vector<std::int32_t> factors = factors_of(options, *group_);
    factors_ = std::make_shared<DeviceTable>(factors);
    spec_ = {table_->host(),
             factors_->host(),
             group_->order,
             static_cast<std::int32_t>(factors.size()),
             group_->identity,
             options.get_string("task.query_at") == "every",
             options.get_bool("task.start"),
             0,
             int_option(options, "transition"),
             nullptr,
             examples_of(options),
             int_option(options, "length")};
    if (const auto successors = successors_of(options, spec_.choices); !successors.empty()) {
      successors_ = std::make_shared<DeviceTable>(successors);
      spec_.successors = successors_->host();
    }
    eval_ = spec_;
  }

  int first() const { return spec_.start ? 1 : 0; }

  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    WordsSpec spec = of(args.split);
    spec.table = table_->uploaded();
    spec.factors = factors_->uploaded();
    if (successors_) spec.successors = successors_->uploaded();
    draw_on_cuda(spec, exec, args);
  }

  std::shared_ptr<const Group> group_;
  std::shared_ptr<const DeviceTable> table_, factors_, successors_;
};

/// The table itself is of a run's identity, not the file that it came from.
void read_table(Options& options) {
  const std::string text = options.get_string("task.table");
  if (options.get_string("task.group") != "table") {
    if (!text.empty())
      throw OptionError("task.table",
                        "task.table has a meaning with task.group = \"table\" only; leave one out");
    return;
  }
  if (text.empty() || text.find_first_not_of("0123456789; \t\n") == std::string::npos) return;
  std::ifstream file(text);
  if (!file)
    refuse(options, "task.table",
           " is neither rows of numbers, as \"0 1; 1 0\", nor a file that can be read");
  std::string rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string row;
    for (std::string word; words >> word;) row += (row.empty() ? "" : " ") + word;
    if (!row.empty()) rows += (rows.empty() || rows.back() == ';' ? "" : "; ") + row;
  }
  options.set("task.table", rows);
}

void resolve(Options& options) {
  read_table(options);
  resolve_curriculum(options, "length", 32);
  const auto choices = static_cast<std::int32_t>(factors_of(options, group_of(options)).size());
  successors_of(options, choices);
  if (options.get_int("task.held_out_pairs") == 0 && options.get_int("task.pair_choice") != 0)
    throw OptionError("task.pair_choice",
                      "task.pair_choice names what task.held_out_pairs leaves out; leave it out");
  const std::int64_t transition = options.get_int("task.transition");
  std::int64_t shortest = options.get_int("task.length");
  if (const std::vector<int> sizes = curriculum_of(options); !sizes.empty()) shortest = sizes[0];
  if (shortest < transition)
    refuse(
        options, "task.transition",
        fmt::format(": an element takes so many tokens, and a sequence has {}; give at most that", shortest));
}

TaskKind kind() {
  return {
      "words",
      "multiply elements of a group: the word problem, state tracking in its purest form",
      "Every token is an element x_t of a group, drawn uniformly; the answer at every token is the product x_1 x_2 .. x_t (query_at = \"end\": at "
      "the last token only). group names Z<n> (Z2 is parity), S<n> or A<n>, the permutations of n points, all or the even ones, with (a b)(i) = "
      "a(b(i)), or a direct product, as A4xZ5; \"table\" takes any other group from task.table, rows of element numbers with ';' between, or a file "
      "of such rows. Elements are numbered in lexicographic order of the permutations, 0 is the identity. factors = \"swaps\" draws only the "
      "identity and exchanges of two points, \"three\" what moves at most three points; the answers are all elements then, too. After Merrill, Petty "
      "and Sabharwal 2024 (arXiv 2404.08819) and Grazzi et al. 2024 (arXiv 2411.12537), who train on 32 tokens and read beyond: task.curriculum = "
      "\"4 8 16 32\" and eval.length_factors. No linear recurrence with states that only shrink, decay and erase within (0, 1), tells even parity "
      "apart at every length; S_5 needs products of several reflections. Guessing is right once in `order` (chance_accuracy), and scaled accuracy "
      "counts from there. start = true puts one more token in front, as the published code does: a memory that starts empty can then be given "
      "something to turn around, which elements that are not reflections need. transition = 4 gives an element four tokens, itself and pauses, with "
      "answers three tokens late (Grazzi et al.: a layer of one reflection a token then has time for several). held_out_pairs = 28 of the 36 of S3: "
      "training shows 8 ordered pairs of elements next to each other, one cycle through all elements among them, evaluation shows all (2606.07254); "
      "pair_choice names another choice.",
      {{"group", "S3", "Z<n>, S<n>, A<n>, a direct product as A4xZ5, or table"},
       {"table", "", "multiplication table of the group, or a file that holds it"},
       choice("factors", "all",
              "elements that occur: all, the identity and swaps, or what moves at most three points",
              {"all", "swaps", "three"}),
       {"length", 32, "tokens of a sequence", 1, max_option_size},
       choice("query_at", "every",
              "where an answer is due, and the loss stands: at every token, or at the last only",
              {"every", "end"}),
       {"start", false, "whether a token of its own stands in front, at which no answer is due"},
       {"transition", 1, "tokens of an element: itself, then pauses", 1, 64},
       {"held_out_pairs", 0, "ordered pairs of elements that training never shows next to each other", 0,
        1 << 24},
       {"pair_choice", 0, "names which pairs are held out", 0, 2147483647.0},
       examples_option(),
       curriculum_option("lengths")},
      resolve,
      make<Words>};
}

}  // namespace crosstalk::words_task
