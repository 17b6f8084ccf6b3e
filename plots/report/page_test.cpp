// Every figure with names that are hard to place: matplotlib is asked where each text and marker is.
// SPDX-License-Identifier: Apache-2.0
#include "plots/test_records.h"

namespace crosstalk::page_test {

/// A label, as a study has it, and its name in the legend.
struct Named {
  std::string label, title;
};

const std::vector<Named>& many_names() {
  static const std::vector<Named> all = {
      {"softmax", ""},
      {"delta", "DeltaNet with a very long name indeed, $\\beta \\in (0, 2)$, of three heads and more"},
      {"one_word_that_is_longer_than_any_column_of_a_paper_and_has_no_place_to_break_it", ""},
      {"a", "A"},
      {"b", "Gated DeltaNet, convolution 4, $\\alpha_t = \\exp(-\\Delta_t \\exp(A))$"},
      {"cost$ 100 % & #1_", ""},
      {"c", "GLA, learning rate = 0.00046415888336127773"},
      {"d", "KDA"},
      {"e", "RWKV-7"},
      {"f", "Log-linear attention (48 levels)"},
      {"g", "Mamba-2"},
      {"h", "Least squares (MesaNet), $\\lambda = 10^{-3}$"}};
  return all;
}

/// Runs that suit every figure but probe, window and errors; `sizes` says what d_dot is made of.
void add_runs(RecordMap& records, const std::string& label, int rank, const std::string& variant,
              bool large) {
  for (const int load : {4, 8, 16, 32})
    for (int seed = 1; seed <= 2; ++seed) {
      const int d_dot = label == "softmax" ? 0 : 8 << (rank % 3);
      const double loss =
          load <= d_dot ? 1e-3 : std::max(1e-3, 0.5 * (1 - d_dot / double(load)) + 0.01 * rank);
      Record& record = add_recall(records, label, seed, d_dot, large ? 1000 * load : load, loss);
      record.config["task.operations"] = 2;
      record.config["train.stop_loss"] = 1e-3;
      record.config["model.variant"] = variant;
      record.state_size = (large ? 4096 : 64) * std::max(1, rank / 3);  // several have one
      record.eval_accuracy = std::clamp(1 - loss, 0.0, 1.0);
      record.metrics = {
          {"sum_rule_floor", 0.2}, {"chance_accuracy", 0.25}, {"parameters", 100.0 * (1 + rank / 4)}};
      record.curves["eval_loss"] = {{100, 200, large ? 200000.0 : 300.0}, {0.5, 0.1 + 0.01 * rank, loss}};
      record.profiles["accuracy_by_operations"] = {{0, 2, 4}, {1, 0.9 - 0.05 * rank, 0.5}};
      record.profiles["exact_by_operations"] = {{0, 2, 4}, {1, 0.8, 0.2}};
      record.profiles["loss_by_length"] = {{1, 2, 4}, {loss, 2 * loss, 4 * loss}};
      if (rank == 4 && load == 32) record.status = RunStatus::diverged;
    }
}

void add_probes(RecordMap& records, const std::string& label, int rank) {
  for (const int d_key : {16, 32, 64})
    for (const int load : {8, 32, 128}) {
      Record& record = add_record(records, label, 1, d_key,
                                  {{"task.name", "recall"},
                                   {"task.associations", load},
                                   {"task.values", load},
                                   {"model.name", "probe"},
                                   {"model.d_key", d_key},
                                   {"model.probe_values", d_key},
                                   {"model.probe_keys", "random"},
                                   {"memory.name", rank == 1 ? "linear_attention" : "rwkv4"}},
                                  0.1);
      record.metrics = {
          {"squared_error", 1e-3 * load * (1 + rank)}, {"test_accuracy", 1.0 / (1 + rank)}, {"snr", 1}};
    }
}

/// Runs at several learning rates.
void add_rates(RecordMap& records, const std::string& label, int rank) {
  for (const double rate : {1e-5, 1e-4, 1e-3, 1e-2, 1e-1})
    for (int seed = 1; seed <= 2; ++seed) {
      const double loss = rank == 4 ? 1e-3 : 0.1 * std::abs(std::log10(rate) + 3) + 0.01 * rank * seed;
      Record& record = add_record(
          records, label, seed, 0,
          {{"task.name", "recall"},
           {"model.name", "retrieval"},
           {"model.variant", rank % 2 == 0 ? "x" : "with convolution, gates and sixty letters or more"},
           {"train.stop_loss", 2e-2},
           {"train.learning_rate", rate}},
          loss);
      record.metrics = {{"test_loss", loss}};
      record.curves["gradient_norm_median"] = {{10}, {1e3 * rate}};
      record.curves["gradient_norm_largest"] = {{10}, {1e5 * rate}};
      if (rank == 2 && rate > 1e-3) record.status = RunStatus::diverged;
    }
}

/// Runs with wrong answers of several kinds.
void add_errors(RecordMap& records, const std::string& label, int rank) {
  for (int seed = 1; seed <= 2; ++seed) {
    Record& record = add_record(
        records, label, seed, 0,
        {{"task.name", "recall"},
         {"model.name", "retrieval"},
         {"model.variant", rank % 2 == 0 ? "x" : "with convolution, gates and sixty letters or more"}},
        0.1);
    record.metrics = {{"test_accuracy", 0.4},
                      {"error_oldest", 0.05 * (rank % 3)},
                      {"error_other_value", 0.3},
                      {"error_key", 0.02},
                      {"error_never", 0.1}};
  }
}

/// Runs of text and of a task beside it.
void add_text(RecordMap& records, const std::string& label, int rank) {
  for (const char* task : {"text", "mqar"}) {
    Record& record = add_record(records, label, 1, 0, {{"task.name", task}, {"model.name", "language"}}, 1);
    if (record.config.at("task.name") == "text")
      record.metrics["test_bits_per_token"] = 1.5 + 0.01 * (rank * 7 % 19);
    else
      record.metrics["test_accuracy"] = 0.05 * (rank * 5 % 19);
  }
}

class PageTest : public FigureTest {
 protected:
  /// The figure in the three widths that papers have.
  void write_scripts(const std::string& name, LabelledRecords rows, const std::string& variant) {
    for (const Named& named : many_names()) rows.labels.push_back({named.label, named.title, {}});
    for (const double width : {3.25, 5.5, 6.75}) {
      // The narrowest is the hardest; of the others, each with one half of the variants.
      const bool widest = width > 6, odd = name.size() % 2 == 1;
      if (width > 4 && (variant == "few" || (variant == "many") == (widest == odd)) && name != "probe" &&
          name != "window" && name != "errors")
        continue;
      options_.width = width;
      options_.out = folder_ / (name + "_" + variant + "_" + std::to_string(int(100 * width)));
      ASSERT_NO_THROW(draw_figure(name, rows, options_, notes_)) << name << " " << variant;
      scripts_ += " '" + options_.out.string() + ".py'";
    }
  }
  /// What page_check.py says of the scripts; "" is what it should say.
  std::string problems() {
    use_real_python();
    const std::string said = (folder_ / "said").string();
    for (const std::string& python : figure_pythons()) {
      const std::string quiet = " >'" + said + "' 2>&1";
      if (std::system(("cd / && '" + python + "' -c 'import matplotlib'" + quiet).c_str()) != 0) continue;
      const std::string check = std::string(CROSSTALK_SOURCE_DIR) + "/plots/report/page_check.py";
      const int status = std::system(("cd / && '" + python + "' '" + check + "'" + scripts_ + quiet).c_str());
      const std::string text = read(said);
      return status == 0 ? "" : text.empty() ? "it failed without a word" : text;
    }
    return "no matplotlib";
  }
  std::string scripts_;
};

TEST_F(PageTest, NothingIsCutOffAndNothingOverlapsWhateverTheNames) {
  RecordMap few, many, panels, probes, rates, few_rates, errors, texts;
  for (std::size_t i = 0; i < many_names().size(); ++i) {
    const auto rank = static_cast<int>(i);
    add_runs(many, many_names()[i].label, rank, "x", true);
    if (i < 3) add_runs(few, many_names()[i].label, rank, "x", false);
    if (i < 3)
      for (const char* variant : {"short", "with convolution, gates and a value of sixty letters or more",
                                  "0.1", "unbreakableunbreakableunbreakableunbreakable"})
        add_runs(panels, many_names()[i].label, rank, variant, i == 1);
    add_probes(probes, many_names()[i].label, rank);
    add_errors(errors, many_names()[i].label, rank);
    add_text(texts, many_names()[i].label, rank);
    add_rates(rates, many_names()[i].label, rank);
    if (i < 6) add_rates(few_rates, many_names()[i].label, rank);
  }
  for (const FigureKind& kind : figure_kinds()) {
    options_.title = "";
    options_.where.clear();
    if (kind.name == "probe") {
      write_scripts(kind.name, rows_of(probes), "many");
      continue;
    }
    if (kind.name == "recall-vs-text") {
      write_scripts(kind.name, rows_of(texts), "many");
      continue;
    }
    if (kind.name == "errors") {
      write_scripts(kind.name, rows_of(errors), "many");
      options_.facet = "model.variant";
      write_scripts(kind.name, rows_of(errors), "panels");
      options_.facet = "";
      continue;
    }
    if (kind.name == "window") {
      write_scripts(kind.name, rows_of(few_rates), "few");
      options_.title =
          "A title that is longer than a column, of $d_{\\mathrm{dot}}$ and of everything else that there is";
      write_scripts(kind.name, rows_of(rates), "many");
      options_.facet = "model.variant";
      write_scripts(kind.name, rows_of(few_rates), "panels");
      options_.facet = "";
      continue;
    }
    const bool one_load = kind.name == "tracking" || kind.name == "length";
    if (one_load) options_.where["task.associations"] = "32";
    write_scripts(kind.name, rows_of(few), "few");
    options_.title =
        "A title that is longer than a column, of $d_{\\mathrm{dot}}$ and of everything else that there is";
    if (one_load) options_.where["task.associations"] = "32000";
    write_scripts(kind.name, rows_of(many), "many");
    if (one_load) options_.where = {{"task.associations", "32,32000"}, {"label", "softmax,delta"}};
    options_.facet = "model.variant";
    write_scripts(kind.name, rows_of(panels), "panels");
    options_.facet = "";
  }
  const std::string text = problems();
  if (text == "no matplotlib") {
    GTEST_SKIP() << text;
  }
  EXPECT_EQ(text, "");
}

TEST_F(PageTest, TheCheckSeesWhatIsWrong) {
  FigureTest::write(folder_ / "wrong.py",
                    "import matplotlib.pyplot as plt\n"
                    "fig, ax = plt.subplots(figsize=(2, 2))\n"
                    "ax.plot([0, 1], [0, 1], 'o')\n"
                    "ax.set(xlim=(0, 1), ylim=(0, 1))\n"
                    "fig.text(0.9, 0.5, 'a text without end')\n"
                    "fig.text(0.4, 0.4, 'one')\n"
                    "fig.text(0.4, 0.4, 'other')\n"
                    "fig.savefig('nothing.png')\n");
  scripts_ = " '" + (folder_ / "wrong.py").string() + "'";
  const std::string text = problems();
  if (text == "no matplotlib") {
    GTEST_SKIP() << text;
  }
  EXPECT_THAT(text, HasSubstr("'a text without end' leaves the page"));
  EXPECT_THAT(text, HasSubstr("'one' lies over text 'other'"));
  EXPECT_THAT(text, HasSubstr("is cut"));
  EXPECT_THAT(text, HasSubstr("lies over the axes"));
}

TEST_F(PageTest, FiguresOfAMemoryThatWasLookedIntoStayOnThePage) {
  for (const int width : {325, 550, 675}) {
    InspectedArrays arrays;
    arrays.title = "a memory with a name that is longer than the figure is wide, seed 1, test sequence 0";
    arrays.names = {"read_weights", "key_overlap", "singular_values"};
    for (int i = 0; i < 24; ++i)
      arrays.tokens.push_back(std::to_string(i) + ":" + (i % 3 == 0 ? "an_answer_of_many_letters" : "7"));
    arrays.gates = {"beta", "log_decay", "a_gate_whose_name_is_longer_than_its_axis_by_far"};
    arrays.width = width / 100.0;
    const auto folder = folder_ / std::to_string(width);
    std::filesystem::create_directories(folder);
    draw_inspection(folder, arrays, notes_);
    scripts_ += " '" + folder.string() + "/'";  // makes arrays for the scripts in it
  }
  const std::string text = problems();
  if (text == "no matplotlib") {
    GTEST_SKIP() << text;
  }
  EXPECT_EQ(text, "");
}

}  // namespace crosstalk::page_test
