// Files of a figure: what is written, kept and refused, and what matplotlib makes of it.
// SPDX-License-Identifier: Apache-2.0
#include "plots/output.h"

#include <sys/stat.h>

#include "plots/test_records.h"

namespace crosstalk::output_test {

/// Records that suit every figure.
RecordMap for_all_figures() {
  RecordMap records;
  struct Memory {
    const char* label;
    int d_dot;
  };
  for (const Memory memory :
       {Memory{"softmax", 0}, Memory{"linear", 8}, Memory{"dpfp2", 16}, Memory{"dpfp3", 24}})
    for (int seed = 1; seed <= 3; ++seed)
      for (const int load : {4, 8, 16, 32}) {
        const double loss = memory.d_dot == 0 || load <= memory.d_dot
                                ? 1e-4 * seed
                                : 0.5 * (1 - memory.d_dot / double(load)) + 0.01 * seed;
        Record& record = add_recall(records, memory.label, seed, memory.d_dot, load, loss);
        record.state_size = std::max(1, memory.d_dot) * load;
        record.config["task.operations"] = 2;
        record.metrics = {{"sum_rule_floor", 0.2}, {"chance_accuracy", 0.25}, {"parameters", 100.0 * load}};
        record.curves["eval_loss"] = {{100, 200, 300}, {0.5, 0.1, loss}};
        if (load != 32) continue;
        record.profiles["accuracy_by_operations"] = {{0, 2, 4}, {1, 0.9, 0.5}};
        record.profiles["exact_by_operations"] = {{0, 2, 4}, {1, 0.8, 0.2}};
        record.profiles["loss_by_length"] = {{1, 2, 4}, {loss, 2 * loss, 4 * loss}};
      }
  for (auto& [id, record] : records)
    record.metrics["test_accuracy"] = 0.7, record.metrics["error_oldest"] = 0.2,
    record.metrics["error_never"] = 0.1;
  return records;
}

class OutputTest : public FigureTest {
 protected:
  std::vector<std::filesystem::path> draw_capacity() {
    notes_.str("");
    return draw_figure("capacity", rows_of(for_all_figures()), options_, notes_);
  }
  /// The figure of records that suit it.
  std::vector<std::filesystem::path> draw_for_all(const std::string& figure) {
    std::string file = figure;
    std::ranges::replace(file, '-', '_');
    if (const auto own = records_of_figures().find(file); own != records_of_figures().end())
      return draw_figure(figure, rows_of(own->second()), options_, notes_);
    // The profiles of tracking and length stand in the records of one load, and errors are those of one.
    const bool one_load = figure == "tracking" || figure == "length" || figure == "errors";
    options_.where = {{"task.associations", one_load ? "32" : "4,8,16,32"}};
    const auto paths = draw_figure(figure, rows_of(for_all_figures()), options_, notes_);
    options_.where.clear();
    return paths;
  }
  /// A program in place of Python.
  void use_python(const std::string& shell) {
    const auto path = folder_ / "python";
    write(path, "#!/bin/sh\n" + shell);
    chmod(path.c_str(), 0755);
    setenv("CROSSTALK_PYTHON", path.c_str(), 1);
  }
  std::string failure() {
    try {
      draw_capacity();
    } catch (const std::invalid_argument&) {
      return "(refused)";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "(written)";
  }
  std::string script() const { return read(folder_ / "figure.py"); }
  bool has_leftovers() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().extension() == ".tmp") return true;
    return false;
  }
};

TEST_F(OutputTest, WithoutMatplotlibTableAndScriptStayAndANoteSaysHow) {
  use_python("echo \"ModuleNotFoundError: No module named 'matplotlib'\" >&2; exit 1\n");
  EXPECT_THAT(draw_capacity(),
              ElementsAre(folder_ / "figure.csv", folder_ / "figure.py", folder_ / "figure.caption.txt"));
  EXPECT_THAT(notes(), AllOf(HasSubstr("pip install matplotlib (once), then"),
                             HasSubstr((folder_ / "figure.py").string())));
  EXPECT_THAT(read(folder_ / "figure.csv"), StartsWith("label,d_dot,associations,n,median,lo,hi\n"));
  setenv("CROSSTALK_PYTHON", (folder_ / "nowhere").c_str(), 1);
  EXPECT_EQ(draw_capacity().size(), 3u);
}

TEST_F(OutputTest, FailedRenderingSaysPythonsLastLine) {
  use_python(
      "case \"$*\" in *'import matplotlib') exit 0 ;; esac\necho Traceback >&2\necho 'ValueError: no such colour' >&2\nexit 1\n");
  write(folder_ / "figure.pdf", "old");
  EXPECT_EQ(draw_capacity().size(), 3u);
  EXPECT_THAT(notes(), HasSubstr(": ValueError: no such colour\n"));
  EXPECT_THAT(notes(), HasSubstr("figure.pdf is from an earlier drawing"));
}

TEST_F(OutputTest, EditedScriptIsKeptAndAFreshOneReplaced) {
  draw_capacity();
  const std::string fresh = script();
  options_.title = "New title";
  draw_capacity();
  EXPECT_THAT(script(), HasSubstr("New title"));
  std::string edited = script();
  edited.replace(edited.find("WIDTH = 5.5"), 11, "WIDTH = 3.2");
  write(folder_ / "figure.py", edited);
  options_.title = "";
  draw_capacity();
  EXPECT_EQ(script(), edited);
  EXPECT_THAT(notes(), HasSubstr("was edited by hand and is kept"));
  std::filesystem::remove(folder_ / "figure.py");
  draw_capacity();
  EXPECT_EQ(script(), fresh);
}

TEST_F(OutputTest, ForeignFilesAreNotOverwritten) {
  write(folder_ / "figure.py", "print('my analysis')\n");
  EXPECT_THAT(failure(), HasSubstr("figure.py: it exists and is not a figure's script"));
  EXPECT_EQ(script(), "print('my analysis')\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "figure.csv"));
  std::filesystem::remove(folder_ / "figure.py");
  write(folder_ / "figure.csv", "id,mine\n");
  EXPECT_THAT(failure(), HasSubstr("figure.csv: it exists and is not a figure's table"));
  EXPECT_EQ(read(folder_ / "figure.csv"), "id,mine\n");
}

TEST_F(OutputTest, UnwritablePlacesAreNamed) {
  write(folder_ / "file", "");
  options_.out = folder_ / "file" / "figure";
  EXPECT_THAT(failure(), HasSubstr("cannot write " + (folder_ / "file" / "figure.csv").string()));
  options_.out = "/proc/crosstalk/figure";
  EXPECT_THAT(failure(), HasSubstr("cannot write /proc/crosstalk/figure.csv"));
  std::filesystem::create_directory(folder_ / "figure.csv");
  options_.out = folder_ / "figure";
  EXPECT_THAT(failure(), HasSubstr("it is a folder"));
  EXPECT_FALSE(has_leftovers());
}

TEST_F(OutputTest, HintsCanBeCopiedIntoAShell) {
  use_python("exit 1\n");
  options_.out = folder_ / "it's a figure; $HOME";
  draw_capacity();
  EXPECT_THAT(notes(), HasSubstr("run the script '" + folder_.string() + "/it'\\''s a figure; $HOME.py'"));
}

TEST_F(OutputTest, NamesOfOutputs) {
  options_.out = folder_ / "new" / "fig2.pdf";
  EXPECT_EQ(draw_capacity().front(), folder_ / "new" / "fig2.csv");
  options_.out = folder_ / "new";
  EXPECT_EQ(draw_capacity().front(), folder_ / "new" / "capacity.csv");
  options_.out = folder_ / "fig.v2";
  EXPECT_EQ(draw_capacity().front(), folder_ / "fig.v2.csv");
  EXPECT_FALSE(has_leftovers());
}

// One of two pictures is a part; the table and the script are whole.
TEST_F(OutputTest, APictureThatTheDiskHasNoRoomForIsNoPicture) {
  options_.out = folder_ / "figure";
  use_python("case \"$*\" in *run_path*) echo x > '" + (folder_ / "figure.pdf").string() +
             "'; echo 'OSError: [Errno 28] No space left on device'; exit 1;; esac\n");
  write(folder_ / "figure.png", "of an earlier drawing");
  EXPECT_THROW(draw_capacity(), FigureWriteError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "figure.pdf"));
  EXPECT_EQ(read(folder_ / "figure.png"), "of an earlier drawing");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "figure.csv"));
}

TEST_F(OutputTest, ScriptsStandAlone) {
  const std::filesystem::path folder = std::filesystem::path(CROSSTALK_SOURCE_DIR) / "plots" / "templates";
  for (const char* figure : {"capacity", "capacity-vs-ddot"}) {
    draw_figure(figure, rows_of(for_all_figures()), options_, notes_);
    for (const char* part : {"style.py", "measure.py", "page.py"})
      EXPECT_THAT(script(), HasSubstr(read(folder / part))) << figure;
  }
}

/// Tests that need a Python with matplotlib; skipped visibly without.
class RenderTest : public OutputTest {
 protected:
  void SetUp() override {
    OutputTest::SetUp();
    use_real_python();
    notes_.str("");
    if (draw_capacity().size() != 4u && notes().find("no Python with matplotlib") != std::string::npos) {
      GTEST_SKIP() << notes();
    }
  }
  /// Runs a script in the test's folder with the Python that draws figures; what it wrote.
  std::string run_by_hand(const std::string& script) {
    const std::string said = (folder_ / "said").string();
    std::string command = "cd '" + folder_.string() + "' && for python in";
    for (const std::string& python : figure_pythons()) command += " '" + python + "'";
    command += "; do (cd / && \"$python\" -c 'import matplotlib') 2>'" + said + "' && exec \"$python\" " +
               script + " >'" + said + "' 2>&1; done; exit 1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read(said);
    return read(said);
  }
  /// What Python says by these lines, when the figure is drawn: `ax` is its axis.
  std::string asked(const std::string& lines) {
    write(folder_ / "ask.py",
          "import importlib.util, sys\n"
          "spec = importlib.util.spec_from_file_location('figure', sys.argv[1] + '/figure.py')\n"
          "module = importlib.util.module_from_spec(spec)\n"
          "spec.loader.exec_module(module)\n"
          "module.main()\n"
          "ax = module.plt.gcf().axes[0]\n"
          "ax.figure.canvas.draw()\n" +
              lines);
    return run_by_hand("ask.py .");
  }
};

// A band that tapers to a point would look like certainty.
TEST_F(RenderTest, OneSeedHasNoBand) {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed)
    for (const int load : {4, 8, 16})
      if (seed == 1 || load != 16) add_recall(records, "linear", seed, 4, load, 0.1 * seed);
  options_.where.clear();
  draw_figure("capacity", rows_of(records), options_, notes_);
  EXPECT_THAT(
      run_by_hand(
          "-c 'import runpy; print(runpy.run_path(\"figure.py\")[\"read_csv\"]()[\"\"][\"linear\", 4][2])'"),
      HasSubstr("(0.1, 0.1, nan)"));
}

/// Rows of a figure accuracy over learning rates, or at one.
RecordMap rates(const std::vector<double>& places) {
  RecordMap records;
  for (const char* label : {"a", "b"})
    for (int seed = 1; seed <= 3; ++seed)
      for (const double rate : places)
        add_record(records, label, seed, 8, {{"train.learning_rate", rate}, {"model.width", 32}}, 0.1)
            .eval_accuracy = 0.5 + 0.1 * seed + (label[0] == 'a' ? 0.1 : 0);
  return records;
}

TEST_F(OutputTest, LogAxesHaveTicksWhereThePointsAre) {
  draw("accuracy", rates({1e-4, 3e-4, 1e-3, 3e-3}));
  EXPECT_THAT(script(), HasSubstr("\"xscale\": \"log\""));
  EXPECT_THAT(script(), HasSubstr("\"xticks\": [0.0001, 0.0003, 0.001, 0.003]"));
  draw("accuracy", rates({3e-3}));
  options_.x = "train.learning_rate";
  draw("accuracy", rates({3e-3}));
  EXPECT_THAT(script(), HasSubstr("\"xticks\": []"));
  EXPECT_THAT(script(), HasSubstr("\"xlim\": [0.0027, 0.0033]"));
}

// What the script draws, asked of the script: labels of a logarithmic axis, and the bars of a single place.
TEST_F(RenderTest, LogAxesHaveLabelsAndSinglePlacesHaveBars) {
  const auto printed = [&](const std::string& what) { return asked("print(" + what + ")\n"); };
  const std::string x_labels = "[t.get_text() for t in ax.get_xticklabels()]",
                    y_labels = "[t.get_text() for t in ax.get_yticklabels()]";
  draw("accuracy", rates({1e-3, 3e-3, 1e-2}));
  EXPECT_EQ(printed(x_labels), "['0.001', '0.003', '0.01']\n");
  draw("accuracy", rates({1e-5, 4.64e-5, 1e-4}));
  EXPECT_EQ(printed(x_labels), "['$10^{-5}$', '$4.64{\\\\cdot}10^{-5}$', '$10^{-4}$']\n");
  options_.log_y = true;
  options_.metric = "eval_loss";
  draw("accuracy", rates({1e-3, 3e-3}));  // all losses are 0.1
  const std::string labels = printed(y_labels);
  EXPECT_GE(std::ranges::count(labels, '.'), 3) << labels;  // within one decade
  options_.metric = "";
  options_.log_y = false;
  options_.x = "train.learning_rate";
  draw("accuracy", rates({3e-3}));
  EXPECT_EQ(printed(x_labels), "[]\n");  // the axis is named by it
  EXPECT_EQ(
      printed(
          "[[round(float(y), 3) for y in l.get_ydata()] for l in ax.lines if len(l.get_xdata()) == 2][:2]"),
      "[[0.7, 0.9], [0.6, 0.8]]\n");
  // Side by side, in pixels.
  EXPECT_EQ(
      printed("len({round(float(l.get_transform().transform((0.003, 0.5))[0])) for l in ax.lines[:4]})"),
      "2\n");
  EXPECT_EQ(printed("len([c for c in ax.collections if type(c).__name__ == 'LineCollection'])"), "2\n")
      << "bars";
}

// Two memories with one size of state stand beside each other on the page, and both at their true x.
TEST_F(RenderTest, AMarkerStandsAtItsX) {
  RecordMap records;
  for (const char* label : {"a", "b", "c"})
    for (const int load : {4, 8})
      for (const int d_key : {4, 8}) {
        const bool alone = label[0] == 'c' && d_key == 8;
        add_recall(records, label, 1, d_key, load, load <= 4 ? 1e-4 : 0.2, d_key).state_size =
            alone ? 999 : 12 * d_key;
      }
  EXPECT_EQ(draw_figure("capacity-vs-state", rows_of(records), options_, notes_).size(), 5u) << notes();
  const std::string said = asked(
      "marks = [l for l in ax.lines if l.get_marker() in 's^D' and len(l.get_xdata()) == 1]\n"
      "page = lambda l: round(float(l.get_transform().transform(l.get_xydata())[0][0]))\n"
      "true = lambda l: round(float(ax.transData.transform(l.get_xydata())[0][0]))\n"
      "print(sorted(float(l.get_xdata()[0]) for l in marks), len({page(l) for l in marks}))\n"
      "print([page(l) - true(l) for l in marks if l.get_xdata()[0] == 999])\n"
      "print(sorted({float(l.get_xdata()[0]) for l in ax.lines if l.get_color() == '#AAAAAA'}))\n");
  EXPECT_EQ(said, "[48.0, 48.0, 48.0, 96.0, 96.0, 999.0] 6\n[0]\n[48.0, 96.0]\n");
}

TEST_F(RenderTest, WholeNumbersHaveWholeTicks) {
  for (const int most : {11, 9}) {
    RecordMap records;
    for (int load = 1; load <= most; load += 2) add_recall(records, "linear", 1, 4, load, 0.01 * load);
    draw("capacity", records);
    const std::string said = asked(
        "print(*(t.get_text() for t in ax.get_xticklabels()))\n"
        "print(*map(module.binary, (512, 4096, 8192, 16384, 1 << 20)))\n");
    EXPECT_THAT(said.substr(0, said.find('\n')), Not(HasSubstr("."))) << said;
    EXPECT_THAT(said, HasSubstr("\n512 4 Ki 8 Ki 16 Ki 1 Mi\n"));
  }
}

TEST_F(RenderTest, EveryFigureGivesPdfAndPng) {
  for (const FigureKind& kind : figure_kinds()) {
    if (kind.name == "probe" || kind.name == "window")
      continue;  // of untrained memories: FigureTest.ProbeIsRendered...
    options_.out = folder_ / kind.name;
    notes_.str("");
    std::vector<std::filesystem::path> paths;
    ASSERT_NO_THROW(paths = draw_for_all(kind.name))
        << kind.name
        << ": records that suit it can stand in plots/kinds/NAME_test.cpp (CROSSTALK_FIGURE_RECORDS)";
    ASSERT_EQ(paths.size(), 5u) << kind.name << ": " << notes();
    const std::string pdf = read(paths[2]);
    EXPECT_THAT(pdf, StartsWith("%PDF")) << kind.name;
    EXPECT_THAT(pdf, Not(HasSubstr("/Type3"))) << kind.name;
    EXPECT_THAT(pdf, HasSubstr("/FontFile2")) << kind.name;
    EXPECT_THAT(read(paths[3]), StartsWith("\x89PNG")) << kind.name;
  }
  EXPECT_FALSE(has_leftovers());
}

TEST_F(OutputTest, WhatIsSaidOfAFiguresColumnsIsWhatItsCsvHas) {
  for (const FigureKind& kind : figure_kinds()) {
    SCOPED_TRACE(kind.name);
    EXPECT_FALSE(kind.x.empty() || kind.y.empty() || kind.statistic.empty());
    if (kind.name == "probe" || kind.name == "window" || kind.name == "errors") continue;
    const auto drawn = [&](double threshold) {
      notes_.str("");
      options_.threshold = threshold;
      draw_for_all(kind.name);
      return read(folder_ / "figure.csv") + script();
    };
    const std::string strict = drawn(0.001);
    std::string head = strict.substr(0, strict.find('\n')), said;
    for (const std::string& column : kind.columns) said += (said.empty() ? "" : ",") + column;
    if (const auto key = said.find("KEY"); key != std::string::npos)
      said.replace(key, 3, "task.associations");
    EXPECT_EQ(head, said) << "is the head of its CSV; .columns says another (KEY: what --x names)";
    // What counts as solved is said of those figures that show it.
    EXPECT_EQ(!kind.threshold.empty(), drawn(0.3) != strict)
        << "whether --threshold changes it; .threshold says what it does (kSolvedBelow), and is empty where it "
        << "does nothing";
  }
}

// A figure must not be taken for a module that it, or the next figure, imports; nor may a file of the current
// folder.
TEST_F(RenderTest, NamesOfModulesAreNames) {
  const auto here = std::filesystem::current_path();
  for (const char* module : {"matplotlib", "csv"}) {
    const auto trap = folder_ / ("trap_" + std::string(module));
    std::filesystem::create_directory(trap);
    write(trap / (std::string(module) + ".py"), "open('" + (folder_ / "executed").string() + "', 'w')\n");
    std::filesystem::current_path(trap);
    options_.out = folder_ / module;
    notes_.str("");
    EXPECT_EQ(draw_capacity().size(), 5u) << module << ": " << notes();
    std::filesystem::current_path(here);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "executed")) << module;
  }
  // By hand, too.
  std::filesystem::remove(folder_ / "csv.pdf");
  run_by_hand("csv.py");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "csv.pdf"));
}

TEST_F(RenderTest, TwoRendersAreEqual) {
  const std::string pdf = read(folder_ / "figure.pdf"), png = read(folder_ / "figure.png");
  ASSERT_FALSE(pdf.empty());
  draw_capacity();
  EXPECT_EQ(read(folder_ / "figure.pdf") == pdf, true) << "PDFs differ";
  EXPECT_EQ(read(folder_ / "figure.png") == png, true) << "PNGs differ";
}

TEST_F(RenderTest, OddLabelsAndLinesWithoutPointsRender) {
  RecordMap records;
  for (const char* label : {"a, \"b\"", "cost$ \\alpha", "_hidden", "theory: mine", "\xCE\xBB#"})
    for (const int load : {4, 8}) add_recall(records, label, 1, 4, load, 0.1);
  for (auto& [id, record] : records)
    if (record.label == "_hidden") record.status = RunStatus::diverged;
  options_.title = "It's 100 % \"mine\" \\ $";
  options_.out = folder_ / "odd $ 'name'";
  notes_.str("");
  EXPECT_EQ(draw_figure("capacity", rows_of(records), options_, notes_).size(), 5u) << notes();
  EXPECT_EQ(draw_figure("updates", rows_of(records), options_, notes_).size(), 5u) << notes();
  EXPECT_EQ(draw_figure("capacity-vs-ddot", rows_of(records), options_, notes_).size(), 5u) << notes();
}

// Numbers of somebody's store.
TEST_F(RenderTest, SizesThatNoMemoryHasRender) {
  RecordMap records;
  const auto add = [&](const char* label, std::int64_t d_dot, double parameters) {
    for (const int load : {4, 8}) {
      Record& record = add_recall(records, label, 1, 4, load, 0.0001, 4);
      record.d_dot = d_dot;
      record.metrics["parameters"] = parameters;
    }
  };
  add("a", std::numeric_limits<std::int64_t>::max(), 5e-324);
  add("b", 4, 1e308);
  add("c", 5, std::numeric_limits<double>::infinity());
  add("d", 6, std::nan(""));
  add("e", 7, 100);
  for (const char* figure : {"capacity-vs-ddot", "capacity-vs-parameters"})
    EXPECT_EQ(draw_figure(figure, rows_of(records), options_, notes_).size(), 5u) << notes();
}

TEST_F(RenderTest, ZeroLossesRenderOnALogAxis) {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed) add_recall(records, "linear", seed, 4, 8, 0);
  EXPECT_EQ(draw_figure("updates", rows_of(records), options_, notes_).size(), 5u) << notes();
}

}  // namespace crosstalk::output_test
