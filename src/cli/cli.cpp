// The command line: words in, an exit status out.
#include "cli/cli.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/memory.h"
#include "base/nearest_word.h"
#include "base/parallel.h"
#include "cli/command_line.h"
#include "cli/wrong_usage.h"

namespace qdq {

namespace {

constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2;

// The end of a sentence about a word that is not known: the word that was probably meant, and where to read on.
std::string see(const std::string& meant, const std::string& help) {
  return meant.empty() ? concat("; see ", help) : concat("; did you mean ", meant, "? See ", help);
}

// Verbs call their samples by what they do with them: the name that this verb has, where `name` is another verb's.
std::string other_word_for_samples(const std::string& name, const std::vector<std::string>& known) {
  static const std::vector<std::string> kNames = {"--calibrate", "--data", "--inputs", "--test"};
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) return {};
  const auto has = [&](const std::string& each) { return std::find(known.begin(), known.end(), each) != known.end(); };
  const auto found = std::find_if(kNames.begin(), kNames.end(), has);
  return found == kNames.end() ? "" : *found;
}

// The verbs that have this word as an option: "inspect, benchmark".
std::string verbs_with_option(const CLI::App& app, const std::string& word) {
  std::string out;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (verb->get_option_no_throw("--" + word)) out += (out.empty() ? "" : ", ") + verb->get_name();
  return out;
}

// The first word that looks like an option and is none of the verb's, and the nearest that is; empty if all are known.
std::string unknown_option(const CLI::App& verb, std::span<const std::string> args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : args) {
    const std::string name = word.substr(0, word.find('='));
    if (word == "--") break;
    if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string samples = other_word_for_samples(name, known);
    return concat(
        "qdq ", verb.get_name(), " has no option ", one_line(name),
        see(samples.empty() ? nearest_word(name, known) : samples, concat("qdq ", verb.get_name(), " --help")));
  }
  return {};
}

// CLI11's sentences about values in the form of qdq's own.
std::string in_plain_words(const CLI::ParseError& error) {
  const std::string text = one_line(error.what());
  const std::string no_number = "Could not convert: ", too_many = ": At Most 1 required", too_few = ": 1 required ";
  if (text.starts_with(no_number)) {
    const size_t end = std::min(text.find(" = "), text.size());
    const std::string option = text.substr(no_number.size(), end - no_number.size());
    return concat(option, ": found ", text.substr(std::min(end + 3, text.size())), ", wanted a number");
  }
  if (const size_t end = text.find(too_many); end != std::string::npos)
    return concat(text.substr(0, end), " is given more than once; wanted one value");
  if (const size_t end = text.find(too_few); end != std::string::npos && text.ends_with(" missing"))
    return concat(text.substr(0, end), " has no value behind it");
  return text;
}

// What is wrong with the words, and where to read on.
std::string wrong_usage(const CLI::App& app, std::span<const std::string> args, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  if (!chosen.empty())
    if (const std::string unknown = unknown_option(*chosen[0], args); !unknown.empty()) return unknown;
  if (!chosen.empty()) return concat(in_plain_words(error), "; see qdq ", chosen[0]->get_name(), " --help");
  if (args.empty() || args[0].starts_with("-")) return "a verb is missing, such as quantize; see qdq --help";
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  const std::string word = one_line(args[0]), meant = nearest_word(args[0], verbs), with = verbs_with_option(app, word);
  if (meant.empty() && !with.empty())
    return concat("there is no verb ", word, "; --", word, " is an option of ", with, "; see qdq --help");
  return concat("there is no verb ", word, see(meant, "qdq --help"));
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
  fail(ErrorCode::kUnsupported, "only the native program has --timeout; start qdq by timeout(1) here");
}

int run_cli(std::span<const std::string> given_args, Host& given_host) {
  ReadableHost host(given_host);
  try {
    const std::vector<std::string> args = with_help(given_args);
    CommandLine line(host, command_of(args));
    try {
      // CLI11 takes the words from the back.
      line.app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
      if (line.timeout) host.end_after(*line.timeout);
      set_num_threads(line.threads);
      set_memory_limit(line.memory_limit());
      line.work(host);
      return kDone;
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
  } catch (const WrongUsage& error) {
    host.print_error(concat("qdq: ", one_line(error.message), "\n"));
    return kWrongUsage;
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
