// What `describe FIGURE` says of each figure.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "plots/drawing.h"

namespace crosstalk {
namespace {

const char* const kMedian =
    "Line: the median over seeds; band: its interval ('crosstalk describe intervals'). Diverged runs count "
    "as the worst, "
    "and a point of which half or more diverged is a cross.";
const char* const kSolved =
    "--threshold X; without it twice the largest train.stop_loss of the runs "
    "('crosstalk describe threshold').";
const char* const kCapacity =
    "Point: the capacity from the median over seeds; bar: from the last solved number of a low seed to the "
    "next tested "
    "number of a high one ('crosstalk describe intervals'). An arrow: solved to the end of the grid.";
const char* const kLoad = "task.associations, the number of associations S";

std::vector<std::string> columns(const char* x) { return {"label", "d_dot", x, "n", "median", "lo", "hi"}; }

std::vector<std::string> capacity_columns(const char* x) {
  std::vector<std::string> all = columns(x);
  all.insert(all.end(), {"censored", "unsolved"});
  return all;
}

const std::map<std::string, FigureKind>& details() {
  static const std::vector<FigureKind> kinds = {
      {"capacity",
       "",
       kLoad,
       "The final loss: eval_loss, with --best test_loss; or any --metric. Triangles mark d_dot, thin lines "
       "the rank bound "
       "where it is proven ('crosstalk describe loss').",
       kMedian,
       kSolved,
       {"--no-theory", "--published"},
       columns("associations")},
      {"updates",
       "",
       kLoad,
       "The final loss, on a logarithmic axis that ends at half the threshold: what is below is solved. Thin "
       "line: the "
       "floor of memories that do not see the order of writes.",
       kMedian,
       kSolved,
       {"--no-theory", "--published"},
       columns("associations")},
      {"accuracy",
       "",
       "--x KEY, state_bytes (4 bytes a float, or as a table gives it), or the key that varies: pairs, "
       "associations, "
       "width, length, d_key or learning rate.",
       "eval_accuracy, with --best test_accuracy; or any --metric. Dashed: chance, where all runs share it.",
       kMedian,
       "",
       {"--x", "--no-theory", "--published"},
       columns("KEY")},
      {"curves",
       "",
       "Training step.",
       "The curve of --metric: eval_loss (default), eval_accuracy, eval_exact or train_loss; at the largest "
       "number of "
       "associations unless --where picks another.",
       "Line: the median over seeds at each step; band: its interval. A run that stopped early keeps its "
       "last value.",
       kSolved,
       {},
       columns("step")},
      {"capacity-vs-ddot",
       "",
       "d_dot, the dimension of the feature map's output; memories without one are left out.",
       "Capacity: the largest number of associations such that it and every smaller tested number are "
       "solved.",
       kCapacity,
       kSolved,
       {"--no-theory"},
       capacity_columns("d_key")},
      {"capacity-vs-state",
       "",
       "State size: floats that the memory keeps of a sequence, at the load of its capacity (state_size, or "
       "state_bytes / "
       "4 of a table).",
       "Capacity, as in capacity-vs-ddot.",
       kCapacity,
       kSolved,
       {},
       capacity_columns("state_size")},
      {"capacity-vs-parameters",
       "",
       "Numbers that training changes (column parameters).",
       "Capacity, as in capacity-vs-ddot.",
       kCapacity,
       kSolved,
       {},
       capacity_columns("parameters")},
      {"tracking",
       "",
       "Operations before the query (task swap), or the position of the token (task words).",
       "Accuracy there; thin lines: the share of sequences with every answer so far right. Dotted line: the "
       "training "
       "length.",
       kMedian,
       "",
       {"--no-theory"},
       columns("operations")},
      {"length",
       "",
       "Length of the test sequences as a multiple of the training length (eval.length_factors).",
       "Loss, or --metric accuracy, exact or scaled_accuracy (0 is chance; the default where there is one).",
       kMedian,
       "",
       {"--published"},
       columns("length_factor")},
      {"probe",
       "",
       "Pairs stored per dimension, n / d_key, a column of panels for each d_key.",
       "Squared error of what is retrieved (above) and recall among random codes (below), beside theory.",
       kMedian,
       "",
       {"--no-theory"},
       [] {
         std::vector<std::string> all = columns("associations");
         all.insert(all.end(), {"model.d_key", "metric"});
         return all;
       }()},
      {"window",
       "",
       "Learning rate.",
       "Above: test_accuracy of language models, else test_loss, or any --metric; then the share of runs "
       "that are "
       "solved; below: the norm of the gradient before clipping, the median over training, dotted the "
       "largest. Of "
       "more than eight memories each has a panel, shaded by the share that is solved.",
       "Point: one seed; line: the median over seeds. Ring: the rate with the lowest median validation loss "
       "(--best-by accuracy: the highest accuracy); below it stands for whom that is the largest or smallest "
       "tried.",
       "Runs that met train.stop_loss or train.stop_accuracy ('crosstalk describe verdict').",
       {},
       [] {
         std::vector<std::string> all = columns("train.learning_rate");
         all.emplace_back("metric");
         return all;
       }()},
      {"errors",
       "",
       "Share of the queries of the test split that were answered wrongly, a bar for each memory; a panel "
       "for each value of "
       "--facet KEY.",
       "Kinds of wrong answers, the columns error_... of an export: the first that applies to what was "
       "answered.",
       "Mean over the seeds that did not diverge (shares of medians would not add up); lo and hi are their "
       "range.",
       "",
       {},
       [] {
         std::vector<std::string> all = columns("test_accuracy");
         all.emplace_back("metric");
         return all;
       }()}};
  static const std::map<std::string, FigureKind> by_name = [] {
    std::map<std::string, FigureKind> map;
    for (const FigureKind& kind : kinds) map[kind.name] = kind;
    return map;
  }();
  return by_name;
}

}  // namespace

FigureKind with_details(FigureKind kind) {
  const auto found = details().find(kind.name);
  if (found == details().end()) throw std::logic_error("plots/details.cpp does not know figure " + kind.name);
  const std::string summary = kind.summary;
  kind = found->second;
  kind.summary = summary;
  return kind;
}

}  // namespace crosstalk
