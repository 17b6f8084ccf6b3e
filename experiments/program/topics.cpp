// What no registry knows.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/topics.h"

#include <fmt/format.h>

#include "models/engines.h"
#include "results/published.h"
#include "results/verdict.h"

namespace crosstalk::program {
namespace {

std::string published_text() {
  std::string text =
      "Results from elsewhere, to be drawn and compared beside ours: crosstalk plot capacity runs/a "
      "--published my.csv, crosstalk compare runs/a --published my.csv. One row a run or median.\n\n";
  for (const PublishedColumn& column : published_columns())
    text +=
        fmt::format("  {}{}\n      {}\n", column.name, column.required ? "  (needed)" : "", column.meaning);
  text +=
      "\nAs a store of its own, with lines and seeds, give plot, table or export a CSV file with the columns "
      "of "
      "'crosstalk export' in place of a store: label, eval_loss (or eval_accuracy or test_accuracy, where "
      "accuracy is "
      "drawn) and some keys of a configuration are needed; seed, d_dot, steps, state_size or state_bytes and "
      "metrics of "
      "any name are read if they are there. A row that lacks what a figure needs is refused, by the column's "
      "name.\n\n"
      "  label,seed,task.name,task.associations,d_dot,eval_loss\n"
      "  mine,1,recall,40,64,0.0312\n";
  return text;
}

std::string verdict_text() {
  return fmt::format(
      "The first that applies:\n\n"
      "  failed         an error\n"
      "  diverged       the loss or a parameter became non-finite\n"
      "  not_trained    train.max_steps = 0\n"
      "  solved         the last evaluation meets train.stop_loss or train.stop_accuracy; of a language "
      "model "
      "without\n"
      "                 either, an accuracy of {solved}\n"
      "  plateau        train.patience ended it; or the loss neither fell nor rose at the end\n"
      "  at_chance      the same, with an accuracy of at most chance + {margin} (1 - chance)\n"
      "  still_falling  it went to its last step, and the loss fell\n"
      "  rising         it went to its last step, and the loss rose\n"
      "  out_of_steps   it went to its last step, with fewer than {least} evaluations: nobody can tell\n\n"
      "Fell and rose: the median validation loss of the last quarter of the evaluations (of the last stage "
      "of a "
      "curriculum) is more than {trend:g} % below or above that of the quarter before it. It is worked out "
      "when "
      "records are read, so that old stores have it too. 'crosstalk status' counts verdicts, exports have a "
      "column, "
      "and --where verdict=still_falling,out_of_steps picks runs that may need more steps.",
      fmt::arg("solved", kSolvedAccuracy), fmt::arg("margin", kChanceMargin),
      fmt::arg("least", kLeastEvaluations), fmt::arg("trend", 100 * kTrend));
}

/// Which forms of a recurrence compute what, as its engine says (models/engines.h).
std::string forms_text() {
  struct Row {
    const char* what;
    RecurrenceKind kind;
  };
  const Row rows[] = {{"no decay, or one number a token", {}},
                      {"a decay of every key channel", {.channel_decay = true}},
                      {"a decay of every value channel", {.value_decay = true}},
                      {"an erase along any two vectors", {.erase = Erase::free}},
                      {"several writes a token", {.several_writes = true}}};
  std::string text =
      "A memory with a matrix state has forms of equal results; memory.form names one, 'automatic' goes by "
      "shapes.\n"
      "recurrent: token after token. chunk: states from chunk to chunk, products of matrices inside. query: "
      "weights of\n"
      "tokens from the query's side, no state. parallel: weights as a T x T matrix. A form computes a memory "
      "if it\n"
      "covers all that the memory does:\n\n";
  text += fmt::format("  {:<32}", "");
  for (const std::string& form : form_names())
    if (form != name_of(Form::automatic)) text += fmt::format("{:>11}", form);
  for (const Row& row : rows) {
    text += fmt::format("\n  {:<32}", row.what);
    for (const std::string& form : form_names())
      if (form != name_of(Form::automatic))
        text += fmt::format("{:>11}", covers(form_of(form), row.kind) ? "x" : "-");
  }
  return text;
}

}  // namespace

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all = {
      {"study", "a TOML file: what to train",
       "  [study]              name (of the store, letters, digits, _ - .), title, seeds,\n"
       "                       every_memory = true: those without a table too, with their defaults\n"
       "  [base]               one run: keys of task, model, memory, train and eval; what is left out takes "
       "its\n"
       "                       default. data_seed and init_seed may be set alone\n"
       "  [memories.LABEL]     one table a memory: name (a registered memory), title (in figures and "
       "tables;\n"
       "                       formulas between $), its options without \"memory.\", other keys with prefix\n"
       "  [[grid]]             axes, multiplied; several blocks are added up\n"
       "  [[grid.zip]]         axes that advance together\n"
       "  [[grid.skip]]        combinations to leave out\n\n"
       "Later ones win: default, [base], [memories.LABEL], grid, --set. 'crosstalk new STUDY.toml' writes "
       "one to "
       "start from, 'crosstalk plan STUDY.toml' lists its runs."},
      {"memories", "the tables [memories.LABEL] of a study",
       "  [memories.mine]\n  name = \"delta\"\n  title = 'DeltaNet, $\\beta \\in (0, 2)$'\n  beta_max = 2\n\n"
       "The table's name is the label in plans, exports and figures. Labels are no part of a run: two that "
       "come to "
       "one configuration share its runs, and a study may be relabelled at any time."},
      {"grid", "the axes of a study, multiplied",
       "  [[grid]]\n  memory = [\"linear\", \"delta\"]          # labels; left out: all\n"
       "  \"task.associations\" = { range = [20, 600, 20] }     # first, last, step (last included)\n"
       "  \"model.d_key\" = { logrange = [16, 128], base = 2 }  # 16, 32, 64, 128\n\n"
       "Each block is a product of its axes and the seeds; blocks are added up, and what two blocks ask for "
       "is one "
       "run. Without [[grid]] every memory is trained once for each seed."},
      {"forms", "the equal forms of a recurrence, and which of them cover a memory", forms_text()},
      {"base_conv", "a layer of model.stack: a short convolution, gated (Zoology, arXiv 2312.04927)",
       "  model.name  = \"language\"\n  model.stack = \"base_conv memory\"     # a layer of it, then the "
       "study's memory\n\n"
       "y = conv(x) * (W x + b) + x, each channel convolved on its own over model.conv_width tokens, before "
       "the layer's "
       "MLP. It has no state besides these tokens. 'crosstalk describe model.stack' says how layers are "
       "written."},
      {"zip", "axes of a block that advance together",
       "  [[grid.zip]]\n  \"model.d_key\"         = [16, 32]\n  \"train.learning_rate\" = [3e-3, 1e-3]\n\n"
       "Lists of equal length inside the [[grid]] above: the first values go together, then the second "
       "ones."},
      {"skip", "combinations of a block to leave out",
       "  [[grid.skip]]\n  memory = \"softmax\"\n  \"task.associations\" = [500, 600]\n\n"
       "A combination that has one of the values of every key is left out of the [[grid]] above."},
      {"seeds", "how often each run is repeated",
       "  seeds = [1, 2, 3]    or    seeds = { range = [1, 5] }\n\n"
       "In [study]. A seed sets data and initial weights; data_seed and init_seed in [base] keep one of them "
       "fixed. "
       "Figures pool over seeds and nothing else. From six seeds on their intervals are confidence intervals "
       "('crosstalk describe intervals')."},
      {"record", "what a finished run leaves",
       "One line of JSON in STORE/shards: its id (a hash of the configuration and of nothing else), the "
       "whole "
       "configuration, status, steps, losses, accuracy, metrics of the task, learning curves, profiles, and "
       "where, "
       "when and by what it was made. 'crosstalk export' gives records as a table, one row a run and label; "
       "columns "
       "are the keys of the configuration and those of 'crosstalk describe COLUMN' (eval_loss, test_loss, "
       "...)."},
      {"store", "the folder of a study's records",
       "runs/NAME unless --out says otherwise. Append-only; done is what has a record. STORE/studies holds "
       "each study "
       "as it was last run, and which runs its versions asked for under which labels. Several processes may "
       "write "
       "into one store; damaged lines are left out, said, and trained again. Weights that are kept "
       "(train.keep_weights) are files of their own, see 'crosstalk describe weights'."},
      {"weights", "what a run has learned: kept, read, started from, looked into",
       "With train.keep_weights = true the final weights of every run that is done are "
       "STORE/weights/RUN.npz, "
       "in the precision that they were trained in:\n\n"
       "  import numpy\n  weights = numpy.load(\"runs/mine/weights/ct-....npz\")   # name -> array\n\n"
       "Names and shapes are the parameters that 'crosstalk describe MEMORY' lists. Keeping them changes "
       "neither a run's id nor its record; switched on later, 'crosstalk run' trains those runs again that "
       "are done without weights ('crosstalk plan' says how many), and 'crosstalk run --only RUN' just one. "
       "A run that diverged "
       "has none. Files are named by run: to copy or merge stores, copy shards/ and weights/.\n\n"
       "train.init_from = \"STORE:RUN\" (or a .npz file of your own, by numpy.savez) starts from such "
       "weights; "
       "what they are is part of a run's id, where they lie is not. 'crosstalk inspect STORE' looks into "
       "them."},
      {"language", "the language model around a memory (model.name = \"language\")",
       "Reads tasks of single tokens. Blocks over embedded tokens, a norm in front of every mixer and MLP, "
       "and behind "
       "the last:\n\n"
       "  x = E[token] (+ P[t])\n"
       "  x += mixer(norm(x)),  x += mlp(norm(x))     in every layer\n"
       "  loss = cross-entropy of W norm(x) with the answer, at the tokens at which one is due, their "
       "mean\n\n"
       "A mixer is a memory between projections of the tokens (queries, keys, values and gates; its heads "
       "joined by "
       "an output projection), or base_conv: conv(x) * (A x + a) + x, a short causal convolution of every "
       "channel "
       "(Zoology: Arora et al. 2023, arXiv 2312.04927). model.stack says which in which layer. Right is an "
       "answer "
       "whose logit is larger than every other.\n\n"
       "Parameters, for model.init and in files of weights:\n\n"
       "  embedding, positions, norm.gain, norm.bias, head (readout.weight, readout.bias with "
       "model.readout)\n"
       "  layers.N.norm.gain, .norm.bias, .mlp_norm.gain, .mlp_norm.bias\n"
       "  layers.N.query.weight, .key.weight, .value.weight, .output.weight (and .bias with model.bias)\n"
       "  layers.N.GATE.weight, .GATE.bias, .memory.NAME   as the memory calls them ('crosstalk describe "
       "MEMORY')\n"
       "  layers.N.conv.weight, .conv.bias, .projection.weight, .projection.bias   of base_conv\n"
       "  layers.N.mlp.in.weight, .mlp.gate.weight, .mlp.out.weight\n\n"
       "Zoology's block for MQAR: model.stack = \"base_conv memory\", model.mlp = \"identity\", "
       "model.embed_dropout = 0.1. The state size is that of all layers."},
      {"loss", "what is minimised and measured",
       "Half the squared error between the retrieved value and the right one (one-hot), summed over the "
       "dimensions of the value and averaged over queries:\n\n"
       "  loss = 1/2 |y - y^|^2,   0.5 for a memory that answers 0\n\n"
       "The protocol uniform averages over all queries of a fixed set of sequences; schlag2021 as the "
       "released code "
       "of that paper, with chunks of unequal weight ('crosstalk describe eval.protocol').\n\n"
       "Figures draw these bounds where they are proven for the task, the protocol and the memory:\n\n"
       "  rank bound      reads through d_dot features form a matrix of rank d_dot: with equal weights and\n"
       "                  distinct values, loss >= 0.5 (1 - d_dot / S); on reassign distinct keys and "
       "values\n"
       "                  that coincide count, with schlag2021 the weights of its queries do\n"
       "  sum-rule floor  a memory that does not see the order of writes can at best answer the mean of the "
       "m\n"
       "                  values written to a key: over all data 0.5 (1 - E[1/m]) (1 - 1/values). Figures "
       "draw\n"
       "                  what that answer costs on the sequences that the runs were evaluated on, where "
       "these\n"
       "                  are known (not with schlag2021, which draws fresh ones); else the expectation, to\n"
       "                  either side of which a run may lie"},
      {"intervals", "what bands and bars are",
       "Fewer than six seeds: the range of all of them, which covers the true median with probability "
       "1 - 2^(1-n) (75 "
       "% of three seeds, 94 % of five). From six on: the 95 % confidence interval of the median between "
       "order "
       "statistics, interpolated (Hettmansperger and Sheather 1986). Capacities: a number of associations is "
       "solved "
       "where the median loss is at most --threshold, by default twice train.stop_loss (training stops at "
       "train.stop_loss by its validation sequences, and other sequences cost a little more or less); each "
       "seed's capacity lies between its last "
       "solved number of associations and the next tested one; the interval reaches from the former of a low "
       "seed to the latter of a high "
       "one. "
       "Slopes: interval regression with the interval of the profile likelihood. Diverged runs count as the "
       "worst. "
       "The coverage of each is tested by simulation. After --best it is the interval of the chosen runs on "
       "the test split; where several choices are equally good, lucky seeds are favoured, and its "
       "coverage is up to ten per cent lower."},
      {"best", "the best value of a key, chosen on the validation split (plot and table --best KEY)",
       "  crosstalk plot accuracy runs/mine --best train.learning_rate\n\n"
       "For each line and each x value, --best picks the value of the key with the lowest median validation "
       "loss over seeds; a diverged run counts as infinite. Figures and tables then show the untouched test "
       "split (test_loss, test_accuracy), unless --metric says otherwise. Several keys are chosen together: "
       "--best train.learning_rate,train.weight_decay. The CSV's column "
       "selected says "
       "which value was taken where.\n\n"
       "A learning rate at the edge of its grid is reported on stderr and below the figure or table: with "
       "the "
       "largest or the "
       "smallest rate of the grid best, a better one may lie beyond, and the memory looks worse than it is."},
      {"threshold", "what counts as solved",
       "A run is solved where its loss is at most a threshold: --threshold X of plot and table, else twice "
       "the "
       "largest train.stop_loss of the runs shown (0.002 where none has one), on whatever sequences are "
       "shown: "
       "training stops as soon as the validation loss is at train.stop_loss, and the loss on other sequences "
       "lies on either side of it.\n\n"
       "A threshold below train.stop_loss is refused: whether the runs would get there is not known. "
       "Capacity is the largest number of associations such that it and every smaller tested number are "
       "solved."},
      {"verdict", "what became of a run's training, in one word (column verdict)", verdict_text()},
      {"published-csv", "tables of results from elsewhere", published_text()},
  };
  return all;
}

const std::vector<Topic>& columns() {
  static const std::vector<Topic> all = {
      {"id", "hash of the configuration: ct- and 32 hex digits", ""},
      {"study", "name of the study that asks for the run", ""},
      {"label", "name of its [memories.LABEL] table in that study; a run that two labels name has two rows",
       ""},
      {"status", "done, diverged (its loss became non-finite) or failed (an error)", ""},
      {"seed", "the seed of [study]", ""},
      {"study_version", "which version of the study asks for it; only where rows differ in it", ""},
      {"d_dot", "dimension of phi(k); 0 where the memory has no feature map", ""},
      {"state_size", "floats that the memory keeps of a sequence at inference", ""},
      {"steps", "training steps until the run ended", ""},
      {"verdict",
       "what became of training: solved, plateau, still_falling, ...; see 'crosstalk describe verdict'", ""},
      {"eval_loss", "loss of the last evaluation (validation split); see 'crosstalk describe loss'", ""},
      {"best_eval_loss", "smallest loss of any evaluation", ""},
      {"eval_accuracy", "share of right answers (largest value read) in the last evaluation", ""},
      {"eval_exact", "share of sequences with every answer right", ""},
      {"test_loss", "loss on the test split, which no stop rule and no selection sees; mean over all queries",
       ""},
      {"test_accuracy", "share of right answers on the test split", ""},
      {"error_oldest", "share of test queries answered with what the key was first given, and no longer has",
       ""},
      {"error_between", "... with another value that the key was given before", ""},
      {"error_newest", "... with what the key was last given, and no longer has (task swap)", ""},
      {"error_other_context", "... with a value that the same key has in another context", ""},
      {"error_other_value", "... with a value of another key of the sequence", ""},
      {"error_key", "... with the key itself, where keys can be answers", ""},
      {"error_never", "... with something that the sequence never gave to a key before the read", ""},
      {"error_tie",
       "... right, but no larger than every other answer; with test_accuracy these shares add up to 1", ""},
      {"test_exact", "share of test sequences with every answer right (tasks of single tokens)", ""},
      {"test_scaled_accuracy",
       "test_accuracy above chance: (accuracy - chance) / (1 - chance), tasks of single tokens", ""},
      {"scaled_accuracy_last_quarter",
       "accuracy on the last quarter of a test sequence, above chance: (accuracy - chance) / (1 - chance)",
       ""},
      {"test_accuracy_other_context",
       "share of answers that are the value of the asked key in another context (the one with the next id)",
       "task context_recall, shared keys"},
      {"context_gap",
       "test_accuracy minus test_accuracy_other_context: 0 for a memory that is blind to contexts",
       "task context_recall, shared keys"},
      {"parameters", "numbers that training changes", ""},
      {"stage", "stage of its curriculum that a run came to, from 1", "task with task.curriculum"},
      {"chance_accuracy",
       "accuracy of guessing among the values of the sequence; tasks of single tokens: among all answers",
       ""},
      {"chance_loss", "tasks of single tokens: cross-entropy of guessing among all answers", ""},
      {"constant_loss", "loss of answering 0", ""},
      {"optimum_loss", "loss of ridge regression, the mean given the examples: nothing comes below it",
       "task regression"},
      {"least_squares_loss", "loss of the shortest least squares solution", "task regression"},
      {"delta_rule_loss", "loss of one pass of the delta rule with keys of length 1 and beta = 1",
       "task regression"},
      {"one_step_loss", "loss of the sum rule, one step of gradient descent, with the best rate",
       "task regression"},
      {"rank_bound", "the smallest loss of any memory that reads through d_dot features; see 'describe loss'",
       ""},
      {"sum_rule_floor", "0.5 (1 - E[1/m]), as published; takes values as different", ""},
      {"sum_rule_floor_exact", "the same with values that coincide: the floor of memories blind to order",
       ""},
      {"baseline_most_recent_accuracy", "accuracy of answering the value written last", ""},
      {"baseline_first_accuracy", "accuracy of answering the first value of the sequence", ""},
      {"baseline_random_in_context_accuracy", "accuracy of answering any value of the sequence", ""},
      {"baseline_unchanged_accuracy", "accuracy of ignoring every change", ""},
      {"baseline_in_order_accuracy", "accuracy of answering the q-th query with the q-th value (mqar)", ""},
      {"baseline_any_context_accuracy",
       "accuracy of answering the key's value in any context of the sequence (context_recall)", ""},
      {"baseline_own_context_accuracy",
       "accuracy of answering any value of the context asked (context_recall)", ""},
      {"baseline_last_context_accuracy",
       "accuracy of answering the value shown last with the key, whatever the context (context_recall)", ""},
      {"baseline_latest_of_stack_accuracy",
       "accuracy of answering what was pushed last on a stack, popped or not (stacks)", ""},
      {"baseline_one_hop_accuracy", "accuracy of going one step only (k_hop, depo, reachability)", ""},
      {"baseline_itself_accuracy", "accuracy of answering what is asked (k_hop, depo)", ""},
      {"baseline_none_accuracy", "accuracy of always answering none (k_hop)", ""},
      {"baseline_most_common_accuracy", "accuracy of answering 0 (arithmetic)", ""},
      {"baseline_unused_accuracy", "accuracy of answering any value that was no answer before (mqar)", ""},
      {"provenance",
       "columns of 'export --provenance': host, cpu, device, commit, compiler, started, wall_s, ...", ""},
  };
  return all;
}

}  // namespace crosstalk::program
