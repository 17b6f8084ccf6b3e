// crosstalk submit slurm: a study as an array of workers on a cluster.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "experiments/common/exit_codes.h"
#include "experiments/common/requests.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/planning/estimate.h"
#include "experiments/sharing/python_package.h"
#include "experiments/sharing/session.h"
#include "experiments/sharing/session_options.h"
#include "experiments/training/foreign_memory.h"
#include "results/printable.h"
#include "results/store/files.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// What a worker needs at the end of its allocation: to save what is unfinished, and to leave.
constexpr int kSignalBefore = 120;
/// Seconds of work that are worth a worker: it waits in the queue and starts for less, and few runs fill a GPU badly.
constexpr double kWorthAWorker = 1800;

/// "4:00:00" for 4 hours, as Slurm takes it.
std::string slurm_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// A word of a line that begins with #SBATCH: there double quotes hold blanks together, and a backslash takes the meaning of
/// a quote, of another backslash and of # away, also between quotes.
std::string sbatch_quote(const std::string& word) {
  if (word.find_first_of(" '\"\\#") == std::string::npos) return word;
  std::string quoted = "\"";
  for (const char c : word) {
    if (std::string_view("\"\\#").find(c) != std::string_view::npos) quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

/// A folder in a pattern of names of files, where % stands before a letter.
std::string pattern_of(const fs::path& folder) {
  std::string pattern;
  for (const char c : folder.string()) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  return pattern;
}

/// What a script is made of stands in lines; one that ends early would make lines, and commands, of its rest.
void check_characters(const std::string& what, const std::string& text) {
  const auto bad =
      std::ranges::find_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (bad != text.end())
    throw UsageError(fmt::format("{} '{}' has the control character 0x{:02x}, which no batch script can hold",
                                 what, printable_line(text), static_cast<unsigned char>(*bad)));
}

struct Job {
  std::string program, name;
  fs::path store;
  std::string each;  ///< worker has: "gpus" one GPU, "nodes" a node with all of its GPUs, "cpus" no GPU
  int workers = 1;
  int at_once = 0;                  ///< 0: all
  int cores = 0;                    ///< a worker; 0: as the cluster gives them
  double time = 0;                  ///< seconds
  std::vector<std::string> before;  ///< commands of bash
  std::vector<std::string> extra;   ///< the user's options for sbatch
  std::vector<std::string> work;    ///< options of crosstalk work
};

std::string script_of(const Job& job) {
  const auto directive = [](const std::string& text) { return "#SBATCH " + sbatch_quote(text) + "\n"; };
  std::string script = "#!/bin/bash\n";
  script += fmt::format(
      "# {} by {} of 'crosstalk work' on one store. Yours to edit: 'sbatch' this file again\n"
      "# whenever you like, also while workers run.\n",
      job.name, plural(job.workers, "worker"));
  script += directive("--job-name=" + job.name);
  script += directive(
      fmt::format("--array=0-{}{}", job.workers - 1, job.at_once > 0 ? fmt::format("%{}", job.at_once) : ""));
  script += directive("--ntasks=1");
  if (job.each == "gpus") script += directive("--gpus-per-task=1");
  if (job.each == "nodes")  // with all of its cores and GPUs; --mem=0 is all of its memory
    for (const char* option : {"--nodes=1", "--exclusive", "--mem=0"}) script += directive(option);
  if (job.cores > 0) script += directive(fmt::format("--cpus-per-task={}", job.cores));
  script += directive("--time=" + slurm_time(job.time));
  script += directive("--requeue");
  script += directive("--open-mode=append");
  script += directive("--output=" + pattern_of(job.store / "logs") + "/%A_%a.log");
  script += fmt::format("# To the batch shell (B:), for one to a plain child of it never arrives.\n");
  script += directive(fmt::format("--signal=B:USR1@{}", kSignalBefore));
  for (const std::string& option : job.extra) script += directive(option);
  // Through eval, so that nothing in it, such as an open quote, reaches into the lines below.
  for (const std::string& command : job.before)
    script += fmt::format(
        "\neval {} || {{ code=$?; echo 'no worker starts: --before ended with code' $code >&2; exit $code; }}",
        shell_quote(command));
  std::vector<std::string> words = {job.program, "work", job.store.string()};
  words.insert(words.end(), job.work.begin(), job.work.end());
  script += fmt::format(R"sh(
worker=$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID
# Minds the time, too: Slurm's signal comes up to a minute early, its end sometimes late.
{} &
pid=$!
requeue=true
trap 'kill -TERM $pid' USR1                       # the time is up: the worker saves what is unfinished, ends with 75
trap 'requeue=ask; kill -TERM $pid' TERM INT      # cancelled, or preempted with a time of grace
while :; do
  wait $pid
  code=$?
  # A signal ends the wait before the worker has ended.
  kill -0 $pid 2>/dev/null || break
done
case $code in
  75 | 143) # stopped (143: before it had begun), and to be gone on with. A cancelled job no longer runs; a preempted one
    # does until its grace is over.
    if [ $requeue = ask ] && [ "$(squeue -h -j "$worker" -o %T 2>/dev/null)" = RUNNING ]; then requeue=true; fi
    if [ $requeue = true ]; then scontrol requeue "$worker"; fi
    ;;
  4) echo "worker $worker on $(hostname): this device is left out; the other workers take its runs over" >&2 ;;
esac
exit $code
)sh",
                        shell_quote(words));
  return script;
}

/// Hands the script to sbatch and waits for it. Returns its exit code, or throws.
int call_sbatch(const fs::path& script) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) {
    ::execlp("sbatch", "sbatch", script.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// Of the study's runs in its store.
struct States {
  StateCounts counts;
  std::vector<const Run*> missing;  ///< without PyTorch models, whose time nobody knows
};
States states_of(const Study& study, const fs::path& store, Console& console) {
  const StoreContents contents = load_heads(store, console).contents;
  const std::set<std::string> again = lacking_weights(study.runs, contents, store);
  States states;
  for (const Run& run : study.runs) {
    const std::string state = again.count(run.id) != 0 ? "missing" : state_of(run, contents);
    states.counts.add(state);
    if (state == "missing" && !is_foreign(run.config)) states.missing.push_back(&run);
  }
  return states;
}

/// How long the job's workers have to train, and how many of them are worth it; "" where that is not known.
std::string sensible_workers(const Job& job, const std::vector<const Run*>& missing) {
  TrainingOptions training;
  training.device = job.each == "cpus" ? Device::cpu : Device::cuda;
  training.threads = job.cores;
  const TimeForecast time = missing.empty() ? TimeForecast{} : estimate_time(missing, training);
  if (!time.seconds) return "";
  const auto most =
      std::min<std::int64_t>(std::ssize(missing), static_cast<std::int64_t>(*time.seconds / kWorthAWorker));
  const std::string one = job.each == "cpus"
                              ? fmt::format("a worker with {} like these",
                                            plural(job.cores > 0 ? job.cores : available_cores(), "core"))
                              : "one GPU (H100 or H200)";
  const std::string worth =
      most > 1 ? fmt::format("{} or fewer are sensible, with half an hour of work each", most)
               : "1 is sensible: half an hour of work is worth a worker";
  const double share = *time.seconds / job.workers;
  return fmt::format(
      "'crosstalk plan' says about {} for {}: {}", duration(*time.seconds), one,
      job.each == "nodes" ? fmt::format("of the GPUs of all nodes together, {}", worth)
      : job.workers > std::max<std::int64_t>(most, 1)
          ? fmt::format("about {} for each of {}; {}", duration(share), plural(job.workers, "worker"), worth)
          : fmt::format("about {} for each of {}{}", duration(share), plural(job.workers, "worker"),
                        share > job.time - kSignalBefore ? ", requeued whenever its time is up" : ""));
}

/// What stands behind "--" on the command line is sbatch's.
std::vector<std::string> behind_dashes(const Console& console) {
  const auto dashes = std::ranges::find(console.arguments, "--");
  return dashes == console.arguments.end() ? std::vector<std::string>()
                                           : std::vector<std::string>(dashes + 1, console.arguments.end());
}

int run_submit(const Arguments& arguments, Console& console) {
  if (arguments.positional.at(0) != "slurm")
    throw UsageError(fmt::format(
        "submit knows the launcher 'slurm', not '{}'; for others see 'crosstalk work' and 'run --shard', and docs/cluster.md",
        arguments.positional[0]));
  Job job;
  job.extra = behind_dashes(console);
  if (arguments.positional.size() != 2 + job.extra.size())
    throw UsageError(
        "submit slurm takes one study file; options of sbatch stand behind '--': crosstalk submit "
        "slurm my.toml --gpus 16 --time 4:00:00 -- --partition=gpu");
  for (const std::string& option : job.extra)
    if (option.rfind('-', 0) != 0)
      throw UsageError(fmt::format(
          "'{}' is no option of sbatch; write them as one word, such as --partition=gpu", option));
    else
      check_characters("the option of sbatch", option);
  for (const char* each : {"gpus", "nodes", "cpus"}) {
    if (!arguments.has(each)) continue;
    if (!job.each.empty())
      throw UsageError(fmt::format("--{} or --{}: workers are of one kind; leave one out", job.each, each));
    job.each = each;
  }
  if (job.each.empty())
    throw UsageError(
        "submit slurm needs --gpus N (a worker for each GPU), --nodes N (a worker for each node and all of its GPUs) or "
        "--cpus N (workers on CPUs)");
  job.workers = static_cast<int>(arguments.integer(job.each, 1, 1, 100000));
  job.at_once = static_cast<int>(arguments.integer("at-once", 0, 1, 100000));
  job.cores = static_cast<int>(arguments.integer("cores", 0, 1, 4096));
  if (job.each == "nodes" && job.cores > 0)
    throw UsageError(
        "--cores is of --gpus and --cpus; a node of --nodes is given whole, with all of its cores");
  job.before = arguments.all("before");
  for (const std::string& command : job.before) check_characters("--before", command);
  if (!arguments.has("time")) throw UsageError("submit slurm needs --time, such as --time 4:00:00");
  job.time = seconds_of(arguments.get("time"), "--time");
  if (job.time < 2 * kSignalBefore)
    throw UsageError(fmt::format(
        "--time {} is {}, of which a worker needs {} at its end; give at least {} (a number without a unit is seconds)",
        arguments.get("time"), duration(job.time), duration(kSignalBefore), duration(2 * kSignalBefore)));

  Arguments of_study = arguments;
  of_study.positional = {arguments.positional[1]};
  const Study study = study_of(of_study);
  job.name = study.name;
  job.store = fs::absolute(store_path_of(arguments, study)).lexically_normal();
  std::error_code ignored;
  job.program = fs::read_symlink("/proc/self/exe", ignored).string();
  if (job.program.empty()) job.program = console.program;
  check_characters("the store", job.store.string());
  check_characters("the program", job.program);
  if (job.store.string().find('\\') != std::string::npos)
    throw UsageError(fmt::format(
        "the path of the store, {}, has a backslash, after which Slurm puts no numbers in the names of logs; give another --out",
        job.store.string()));
  if (job.each != "gpus") job.work = {"--device", job.each == "nodes" ? "cuda:all" : "cpu"};
  if (job.each == "cpus" && job.cores > 0)
    job.work.insert(job.work.end(), {"--threads", std::to_string(job.cores)});
  if (std::ranges::any_of(study.runs, [](const Run& run) { return is_foreign(run.config); })) {
    const PackagePython python = package_python(arguments);
    if (python.path.empty())
      print_note(console,
                 fmt::format("{}; where a node has none either, workers leave the runs of PyTorch models",
                             python.why_none));
    if (!python.path.empty() || arguments.has("python"))
      job.work.insert(job.work.end(), {"--python", python.path.empty() ? "none" : python.path});
  } else if (arguments.has("python")) {
    throw UsageError("--python: the study has no PyTorch models, which it is for; leave it out");
  }
  job.work.insert(job.work.end(), {"--time-limit", fmt::format("{:.0f}s", job.time - kSignalBefore)});
  const std::string script = script_of(job);
  const bool dry = arguments.has("dry-run");
  if (dry) {
    console.out << script;
    if (!fs::exists(job.store, ignored))
      print_note(console,
                 fmt::format("its store is not made yet; without --dry-run this makes {0} and writes the "
                             "script to {0}/{1}.sbatch, where you may edit it and sbatch it again",
                             job.store.string(), job.name));
  }

  const fs::path path = job.store / (study.name + ".sbatch");
  if (!dry) {
    SessionOptions options;
    options.request = Request{study.name, study.text, arguments.all("set")};
    check_store_path(job.store);
    make_store(study, job.store, options);
    make_folders(FileSystem::real(), job.store / "logs");
    write_whole(FileSystem::real(), path, script);
  }
  const States states = states_of(study, job.store, console);
  print_note(console,
             fmt::format("{} in {}: {} to train{}", study.product, job.store.string(), states.counts.missing,
                         states.counts.failed > 0
                             ? fmt::format("; {} failed before, which only 'crosstalk retry' trains again",
                                           states.counts.failed)
                             : ""));
  if (const std::string text = sensible_workers(job, states.missing); !text.empty())
    print_note(console, text);
  if (dry) return exit_done;
  if (states.counts.missing == 0) {
    print_note(console, fmt::format("no worker is started for it; the script is {}", path.string()));
    return exit_done;
  }
  const int code = call_sbatch(path);
  if (code == 127)
    throw UsageError(
        fmt::format("sbatch is not here; the store and its script are made, so where it is: sbatch {}",
                    shell_quote(path.string())));
  if (code != 0)
    throw UsageError(
        fmt::format("sbatch refused (exit code {}), so no worker was started. Mend what stands behind "
                    "'--' and submit again, or edit {} and sbatch that",
                    code, path.string()));
  print_note(console, fmt::format("watch it: crosstalk status {} --watch", shell_quote(job.store.string())));
  return exit_done;
}

}  // namespace

extern const Command submit_command = {
    "submit",
    "train a study on a cluster: an array of workers on one store",
    "slurm STUDY.toml (--gpus N | --nodes N | --cpus N) --time TIME [--out STORE] [--dry-run] [OPTIONS] [-- SBATCH OPTIONS]",
    "Makes the store on the shared folder, writes a script for sbatch into it and submits the script:\n"
    "an array of N workers ('crosstalk work STORE') with one GPU each (--nodes: with a node and all of\n"
    "its GPUs). It says how many workers are worth it. Slurm may start workers later,\n"
    "preempt them, lose them with their node or end them at their time; results do not change. What\n"
    "they saved is resumed, what they claimed is taken over, and they are requeued.\n"
    "--dry-run shows the script and does nothing else; it is yours to edit. docs/cluster.md says what a\n"
    "cluster needs, and how to do the same without Slurm.\n\n"
    "Examples:\n"
    "  crosstalk submit slurm my.toml --gpus 16 --time 4:00:00 --out /shared/me/first\n"
    "  crosstalk submit slurm my.toml --gpus 16 --at-once 4 --time 2h --dry-run\n"
    "  crosstalk submit slurm my.toml --nodes 2 --time 4h --before 'module load cuda' -- --account=mine\n"
    "  crosstalk submit slurm my.toml --cpus 8 --cores 4 --time 1h -- --partition=short --mem=8G\n",
    2,
    -1,
    "needs a launcher and a study file, for example: crosstalk submit slurm my.toml --gpus 4 --time 2h",
    joined(
        {study_options(),
         {
             {"out,o", "STORE", "Folder of the results, seen by all nodes (default ./runs/<study>)"},
             {"gpus", "N", "Workers, one GPU each"},
             {"nodes", "N", "Workers with a whole node each: all of its GPUs, cores and memory"},
             {"cpus", "N", "Workers on CPUs instead"},
             {"cores", "N", "Cores for each worker (default: as the cluster gives them)"},
             {"at-once", "N", "Workers at a time, at most (default: all)"},
             {"time", "TIME", "Time of each worker (30m, 4h, HH:MM:SS, D-HH:MM:SS); then it is requeued"},
             {"before", "COMMAND",
              "What bash does before the worker starts, such as 'module load cuda'; may be repeated", true},
             {"dry-run,n", "", "Only print the script, and what there is to train"},
             python_option(),
         }}),
    run_submit,
    "sbatch",
};

}  // namespace crosstalk::program
