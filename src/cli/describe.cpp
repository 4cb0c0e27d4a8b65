// The command line described from its own tables of verbs and options.
#include "cli/describe.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <vector>

#include "base/error.h"
#include "base/version.h"

namespace qdq {

namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0 && option.get_type_size() != 0; }

// The words of a verb's options: "--calibrate", "-o".
std::string words_of(const CLI::App& verb) {
  std::string out;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) out += concat(out.empty() ? "" : " ", "--", name);
    for (const std::string& name : option->get_snames()) out += concat(out.empty() ? "" : " ", "-", name);
  }
  return out;
}

// The text with a backslash, or what else is given, in front of some characters.
std::string escaped(const std::string& text, std::string_view characters, const std::string& before = "\\") {
  std::string out;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) out += before;
    out += c;
  }
  return out;
}

// A text between single quotes of a shell that knows no escapes there.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : verbs_of(app)) {
    verbs += concat(verbs.empty() ? "" : " ", verb->get_name());
    cases += concat("    ", verb->get_name(), ") words='",
                    verb->get_name() == "completion" ? "bash zsh fish" : words_of(*verb), "' ;;\n");
  }
  return concat(
      "# Completes qdq's words in bash: eval \"$(qdq completion bash)\"\n"
      "_qdq() {\n  local words= current=${COMP_WORDS[COMP_CWORD]}\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n    mapfile -t COMPREPLY < <(compgen -W '",
      verbs, " help' -- \"$current\")\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n", cases,
      "  esac\n  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
      "  [[ $current == -* ]] || mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$current\")\n"
      "}\ncomplete -o filenames -F _qdq qdq\n");
}

std::string zsh(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : verbs_of(app)) {
    verbs += concat("    ", quoted(concat(verb->get_name(), ":", escaped(verb->get_description(), ":"))), "\n");
    cases += concat("  ", verb->get_name(), ")\n    _arguments");
    for (const CLI::Option* option : verb->get_options()) {
      const std::string what =
          concat("[", escaped(option->get_description(), "[]:"), "]",
                 takes_value(*option) ? concat(":", escaped(option->get_type_name(), ":"), ":_files") : "");
      for (const std::string& name : option->get_lnames())
        cases += concat(" \\\n      ", quoted(concat("--", name, what)));
      for (const std::string& name : option->get_snames())
        cases += concat(" \\\n      ", quoted(concat("-", name, what)));
    }
    cases +=
        concat(" \\\n      '*:", verb->get_name() == "completion" ? "shell:(bash zsh fish)" : "file:_files", "' ;;\n");
  }
  return concat(
      "#compdef qdq\n# Completes qdq's words in zsh: qdq completion zsh >FOLDER/_qdq, for a FOLDER in $fpath\n"
      "_qdq() {\n  local -a verbs=(\n",
      verbs,
      "  )\n  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\n  fi\n"
      "  local verb=$words[2]\n  (( CURRENT-- ))\n  shift words\n  case $verb in\n",
      cases, "  esac\n}\n[ \"$funcstack[1]\" = _qdq ] && _qdq \"$@\" || compdef _qdq qdq\n");
}

std::string fish(const CLI::App& app) {
  const auto text = [](const std::string& words) { return concat("'", escaped(words, "\\'"), "'"); };
  std::string out = "# Completes qdq's words in fish: qdq completion fish | source\n";
  for (const CLI::App* verb : verbs_of(app)) {
    out += concat("complete -c qdq -n __fish_use_subcommand -f -a ", verb->get_name(), " -d ",
                  text(verb->get_description()), "\n");
    for (const CLI::Option* option : verb->get_options()) {
      if (option->get_lnames().empty()) continue;
      out += concat("complete -c qdq -n '__fish_seen_subcommand_from ", verb->get_name(), "' -l ",
                    option->get_lnames()[0]);
      for (const std::string& name : option->get_snames()) out += concat(" -s ", name);
      out += concat(takes_value(*option) ? " -r" : "", " -d ", text(option->get_description()), "\n");
    }
  }
  return out + "complete -c qdq -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
}

// A text for man: no hyphen becomes a dash, and no line begins with a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

}  // namespace

std::string completions(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return bash(app);
  if (shell == "zsh") return zsh(app);
  QDQ_CHECK(shell == "fish", kInvalidArgument, "there is no shell ", shell, "; wanted bash, zsh or fish");
  return fish(app);
}

std::string man_page(const CLI::App& app) {
  std::string out = concat(".TH QDQ 1 \"\" \"qdq ", QDQ_VERSION, "\"\n.SH NAME\nqdq \\- ", roff(app.get_description()),
                           "\n.SH SYNOPSIS\n.B qdq\n.I VERB\n[\n.I OPTIONS\n]\n.SH VERBS\n");
  for (const CLI::App* verb : verbs_of(app)) {
    out += concat(".SS \"qdq ", roff(verb->get_name()));
    for (const CLI::Option* option : verb->get_options())
      if (option->get_positional())
        out += concat(" ", option->get_name(true), option->get_expected_max() > 1 ? " ..." : "");
    out += concat("\"\n", roff(verb->get_description()), ".\n");
    if (!verb->get_footer().empty()) out += concat(".PP\n.nf\n", roff(verb->get_footer()), "\n.fi\n");
    for (const CLI::Option* option : verb->get_options()) {
      std::string names;
      for (const std::string& name : option->get_snames()) names += concat(names.empty() ? "" : ", ", "-", name);
      for (const std::string& name : option->get_lnames()) names += concat(names.empty() ? "" : ", ", "--", name);
      if (names.empty()) names = option->get_name(true);
      else if (takes_value(*option)) names += " " + option->get_type_name();
      out += concat(".TP\n.B ", roff(names), "\n", roff(option->get_description()), "\n");
    }
  }
  return out +
         ".SH EXIT STATUS\n0: done. 1: the work failed, and one line on the standard error output says why. "
         "2: wrong usage.\n.SH ENVIRONMENT\n.TP\n.B NO_COLOR\nIf it is set, warnings and errors have no colors.\n"
         ".TP\n.B SOURCE_DATE_EPOCH\nThe time that reports tell, in seconds since 1970.\n";
}

}  // namespace qdq
