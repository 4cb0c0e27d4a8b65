// The command line: words in, an exit status out.
#include "cli/cli.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "base/nearest_word.h"
#include "base/parallel.h"
#include "cli/command_line.h"

namespace qdq {

namespace {

constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2;

// The first word that looks like an option and is none of the verb's, and the nearest that is; empty if all are known.
std::string unknown_option(const CLI::App& verb, std::span<const std::string> args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : args) {
    const std::string name = word.substr(0, word.find('='));
    if (word == "--") break;
    if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string meant = nearest_word(name, known);
    return concat("qdq ", verb.get_name(), " has no option ", one_line(name),
                  meant.empty() ? "" : ", did you mean " + meant + "?", "; see qdq ", verb.get_name(), " --help");
  }
  return {};
}

// What is wrong with the words, and where to read on.
std::string wrong_usage(const CLI::App& app, std::span<const std::string> args, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  if (!chosen.empty())
    if (const std::string unknown = unknown_option(*chosen[0], args); !unknown.empty()) return unknown;
  if (!chosen.empty()) return concat(one_line(error.what()), "; see qdq ", chosen[0]->get_name(), " --help");
  if (args.empty() || args[0].starts_with("-")) return concat(one_line(error.what()), "; see qdq --help");
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  const std::string meant = nearest_word(args[0], verbs);
  return concat("there is no verb ", one_line(args[0]), meant.empty() ? "" : ", did you mean " + meant + "?",
                "; see qdq --help");
}

// `qdq help` is `qdq --help`, `qdq help quantize` is `qdq quantize --help`.
std::vector<std::string> with_help(std::span<const std::string> args) {
  std::vector<std::string> words(args.begin(), args.end());
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

// The words as a report shows them: without the folders that files lie in.
std::string command_of(std::span<const std::string> args) {
  std::string out = "qdq";
  for (std::string word : args) {
    while (word.size() > 1 && word.ends_with('/')) word.pop_back();
    out += " " + word.substr(word.find_last_of("/\\") + 1);
  }
  return out;
}

}  // namespace

void Host::end_after(double /*seconds*/) {
  fail(ErrorCode::kUnsupported, "--timeout is of the native program; here let timeout(1) start qdq");
}

int run_cli(std::span<const std::string> given_args, Host& given_host) {
  ReadableHost host(given_host);
  try {
    const std::vector<std::string> args = with_help(given_args);
    CommandLine line(host, command_of(args));
    try {
      // CLI11 takes the words from the back.
      line.app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    } catch (const CLI::CallForHelp& error) {
      // CLI11 looks for --help before it looks at words that are no verb.
      if (!args[0].starts_with("-") && line.app.get_subcommands().empty()) {
        host.print_error(concat("qdq: ", wrong_usage(line.app, args, error), "\n"));
        return kWrongUsage;
      }
      host.print(line.app.help());
      return kDone;
    } catch (const CLI::CallForVersion&) {
      host.print(line.app.version() + "\n");
      return kDone;
    } catch (const CLI::ParseError& error) {
      host.print_error(concat("qdq: ", wrong_usage(line.app, args, error), "\n"));
      return kWrongUsage;
    }
    if (line.timeout) host.end_after(*line.timeout);
    set_num_threads(line.threads);
    set_memory_limit(line.memory_limit());
    line.work(host);
    return kDone;
  } catch (const Error& error) {
    std::string message = error.message;
    // An error inside the graph names its node, unless its sentence does.
    if (!error.node.empty() && message.find(error.node) == std::string::npos)
      message += concat(" (node ", error.node, ")");
    host.print_error(concat("qdq: ", one_line(message), "\n"));
  } catch (const std::bad_alloc&) {
    host.print_error(concat("qdq: this does not fit into ", memory_in_words(), "\n"));
  } catch (const std::exception& error) {
    host.print_error(concat("qdq: internal error: ", one_line(error.what()), "; please report it\n"));
  }
  return kFailed;
}

}  // namespace qdq
