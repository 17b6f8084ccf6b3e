// crosstalk reference, completion, man: pages made from what the program knows of itself.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/common/version.h"
#include "experiments/program/help/memory_tables.h"
#include "experiments/program/help/topics.h"
#include "experiments/search/search_file.h"
#include "experiments/training/training.h"
#include "kernels/base/text/options.h"
#include "models/memory.h"
#include "plots/figure.h"
#include "tasks/task.h"

namespace crosstalk::program {
namespace {

/// Names of an option: "count,n" -> {"--count", "-n"}.
std::vector<std::string> flags_of(const CommandOption& option) {
  const auto comma = option.name.find(',');
  std::vector<std::string> flags = {fmt::format("--{}", option.name.substr(0, comma))};
  if (comma != std::string::npos) flags.push_back(fmt::format("-{}", option.name.substr(comma + 1)));
  return flags;
}

std::string options_table(const std::string& prefix, const std::vector<OptionSpec>& options) {
  static constexpr const char* types[] = {"boolean", "integer", "number", "string"};
  if (options.empty()) return "No options.\n\n";
  std::string text = "| key | default | type | |\n|---|---|---|---|\n";
  for (const OptionSpec& spec : options) {
    std::string help = spec.help;
    if (!spec.choices.empty()) help += fmt::format(". One of {}", join(spec.choices, ", "));
    text += fmt::format("| `{}.{}` | `{}` | {} | {} |\n", prefix, spec.name,
                        cell(to_text(spec.default_value)), types[spec.default_value.index()], cell(help));
  }
  return text + "\n";
}

/// Rows of a table of names and summaries.
template <class Kinds>
std::string summary_rows(const Kinds& kinds) {
  std::string text;
  for (const auto& kind : kinds) text += fmt::format("| `{}` | {} |\n", kind.name, cell(kind.summary));
  return text;
}

std::string topic_text(const Topic& topic) {
  // Lines that begin with a space are shown as they are.
  std::string text, block;
  const auto close = [&] {
    if (!block.empty()) text += fmt::format("```text\n{}```\n", block);
    block.clear();
  };
  for (std::size_t begin = 0; begin <= topic.text.size();) {
    const std::size_t end = std::min(topic.text.find('\n', begin), topic.text.size());
    const std::string line = topic.text.substr(begin, end - begin);
    if (line.starts_with("  ")) {
      block += fmt::format("{}\n", line.substr(2));
    } else {
      close();
      text += fmt::format("{}\n", line);
    }
    begin = end + 1;
  }
  close();
  return text;
}

std::string reference() {
  std::string text =
      "# Reference\n\nEverything that the program knows of itself: `ninja -C build/cpu documents` makes this page, a test keeps it current. "
      "`crosstalk describe NAME` says the same of one name, `crosstalk help COMMAND` of a command.\n\n## Studies, records, figures\n\n";
  for (const Topic& topic : topics())
    text +=
        fmt::format("### {}\n\n{}{}.\n\n{}\n", topic.name, static_cast<char>(std::toupper(topic.summary[0])),
                    topic.summary.substr(1), topic_text(topic));
  text +=
      "## Columns of an export\n\nBeside these, every key of the configuration by its dotted name.\n\n| column | |\n|---|---|\n";
  text += summary_rows(columns());
  text += "\n## Keys of every run\n\n";
  text += "### model\n\n";
  text += options_table("model", model_options());
  text += "### train\n\n";
  text += options_table("train", train_options());
  text += "### eval\n\n";
  text += options_table("eval", eval_options());
  text += "## Keys of a search\n\n" + options_table("search", search::search_options());
  text += "## Tasks\n\n";
  for (const TaskKind& kind : task_kinds())
    text += fmt::format("### {}\n\n{}.\n\n{}\n\n", kind.name, kind.summary, kind.description) +
            options_table("task", kind.options);
  text += "## Memories\n\n";
  for (const Memory& kind : all_memories())
    text += fmt::format("### {}\n\n{}.\n\n{}\n\n", kind.name, kind.summary, kind.description()) +
            options_table("memory", kind.options);
  text += "## Feature maps\n\n| name | phi(k) | d_dot | source |\n|---|---|---|---|\n";
  for (const FeatureMapInfo& info : feature_map_infos())
    text += fmt::format("| `{}` | {} | {} | {} |\n", info.name, cell(info.formula), cell(info.d_dot),
                        cell(info.source));
  text +=
      "\n## Figures and tables\n\n`crosstalk plot FIGURE STORE`, `crosstalk table TABLE STORE`\n\n| figure | |\n|---|---|\n";
  text += summary_rows(figure_kinds()) + "\n| table | |\n|---|---|\n" + summary_rows(table_kinds());
  text += "\n## Commands\n\n| command | |\n|---|---|\n";
  for (const Command* command : commands())
    text += fmt::format("| `{}` | {} |\n", command->name, cell(command->summary));
  return text;
}

/// Words after `option` of a command, for shells: its choices, or nothing.
std::string bash_completion() {
  std::string cases;
  for (const Command* command : commands()) {
    std::string flags = "--help", choices;
    for (const CommandOption& option : command->options) {
      if (option.help.empty()) continue;
      for (const std::string& flag : flags_of(option)) flags += fmt::format(" {}", flag);
      if (!option.choices.empty())
        choices += fmt::format("        {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                               join(flags_of(option), "|"), join(option.choices, " "));
    }
    std::string words;
    if (command->name == "plot") words = " " + join(names_of(figure_kinds()), " ");
    if (command->name == "table") words = " " + join(names_of(table_kinds()), " ");
    if (command->name == "list") words = " tasks memories feature-maps figures studies";
    if (command->name == "completion") words = " bash zsh fish";
    if (command->name == "sample") words = " " + join(names_of(task_kinds()), " ");
    cases += fmt::format("    {})\n      case $before in\n{}      esac\n      flags=\"{}\" words=\"{}\" ;;\n",
                         command->name, choices, flags, words);
  }
  return fmt::format(
      "# bash completion of crosstalk: source <(crosstalk completion bash)\n"
      "_crosstalk() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} flags= words=\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  case $word in\n"
      "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\")) ;;\n"
      "  esac\n"
      "}}\n"
      "complete -o filenames -F _crosstalk crosstalk\n",
      join(names_of(commands()), " "), cases);
}

std::string fish_quoted(const std::string& text) {
  std::string out(1, '\'');
  for (const char c : text) {
    if (c == '\'' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('\'');
  return out;
}

std::string fish_completion() {
  std::string text = "# fish completion of crosstalk: crosstalk completion fish | source\n";
  for (const Command* command : commands()) {
    text += fmt::format("complete -c crosstalk -n __fish_use_subcommand -a {} -d {}\n", command->name,
                        fish_quoted(command->summary));
    for (const CommandOption& option : command->options) {
      if (option.help.empty()) continue;
      const auto comma = option.name.find(',');
      text += fmt::format("complete -c crosstalk -n '__fish_seen_subcommand_from {}' -l {}", command->name,
                          option.name.substr(0, comma));
      if (comma != std::string::npos) text += fmt::format(" -s {}", option.name.substr(comma + 1));
      if (!option.choices.empty())
        text += fmt::format(" -x -a {}", fish_quoted(join(option.choices, " ")));
      else if (!option.value.empty())
        text += " -r";
      text += fmt::format(" -d {}\n", fish_quoted(option.help));
    }
  }
  return text;
}

int run_reference(const Arguments& arguments, Console& console) {
  const std::string page = arguments.positional.empty() ? "" : arguments.positional[0];
  if (page.empty())
    console.out << reference();
  else if (page == "memories")
    console.out << memories_table();
  else if (page == "families")
    console.out << families_table();
  else if (page == "tasks")
    console.out << tasks_table();
  else if (page == "comparable")
    console.out << comparable_table();
  else if (page == "layers")
    console.out << layers_table();
  else if (page == "apply")
    console.out << apply_table();
  else if (page == "search")
    console.out << options_table("search", search::search_options());
  else
    throw UsageError(fmt::format(
        "reference: '{}' is none of tasks, families, memories, comparable, layers, apply and search", page));
  return exit_done;
}

int run_completion(const Arguments& arguments, Console& console) {
  const std::string& shell = arguments.positional.at(0);
  if (shell == "bash")
    console.out << bash_completion();
  else if (shell == "zsh")  // zsh understands bash's
    console.out << "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n" << bash_completion();
  else if (shell == "fish")
    console.out << fish_completion();
  else
    throw UsageError(fmt::format("completion: '{}' is none of bash, zsh and fish", shell));
  return exit_done;
}

/// A line of text in troff.
std::string troff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out.push_back(c);
    line_start = c == '\n';
  }
  return out;
}

int run_man(const Arguments&, Console& console) {
  console.out << fmt::format(
      ".TH CROSSTALK 1 \"\" \"crosstalk {}\"\n.SH NAME\ncrosstalk \\- measure how much sequence "
      "memories can hold\n.SH SYNOPSIS\n.B crosstalk\nCOMMAND [ARGUMENTS]\n.SH COMMANDS\n",
      version().version);
  for (const Command* command : commands()) {
    console.out << fmt::format(".SS \"crosstalk {} {}\"\n.nf\n{}.fi\n", command->name,
                               troff(command->synopsis), troff(command->summary + ".\n\n" + command->text));
    for (const CommandOption& option : command->options) {
      if (option.help.empty()) continue;
      console.out << fmt::format(
          ".TP\n.B {}{}\n{}\n", troff(join(flags_of(option), ", ")),
          option.value.empty() ? std::string() : fmt::format(" {}", troff(option.value)), troff(option.help));
    }
  }
  return exit_done;
}

}  // namespace

extern const Command reference_command = {
    "reference",
    "print every key, column, figure, task and memory as one page",
    "[tasks|families|memories|comparable|layers|apply|search]",
    "Markdown on stdout; docs/reference.md is made by it. With 'tasks' and 'families' the tables that\n"
    "README has, with 'memories' that of docs/memories.md, with 'comparable' and 'layers' those of\n"
    "docs/comparable.md, with 'apply' that of docs/apply.md: inputs, equations and states; with 'search'\n"
    "that of docs/search.md.\n\n"
    "Example:\n  crosstalk reference > reference.md\n",
    0,
    1,
    "",
    {},
    run_reference,
};
extern const Command completion_command = {
    "completion",
    "print completion for bash, zsh or fish",
    "bash|zsh|fish",
    "Example:\n  source <(crosstalk completion bash)\n  crosstalk completion fish | source\n",
    1,
    1,
    "needs a shell: bash, zsh or fish",
    {},
    run_completion,
};
extern const Command man_command = {
    "man", "print the man page", "", "Example:\n  crosstalk man | man -l -\n", 0, 0, "", {}, run_man,
};

}  // namespace crosstalk::program
