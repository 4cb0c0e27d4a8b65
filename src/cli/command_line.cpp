#include "cli/command_line.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/version.h"
#include "cli/describe.h"
#include "cli/machine.h"

namespace qdq {

namespace {

// Words in lines of at most `width` letters; a word that is longer has a line of its own.
std::string in_lines(std::string_view text, size_t width) {
  std::string out;
  size_t used = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (used > 0) out += used + 1 + word.size() > width ? '\n' : ' ';
    used = out.empty() || out.back() == '\n' ? word.size() : used + 1 + word.size();
    out += word;
  }
  return out;
}

// "not with --fx, --for"; empty if there are none.
std::string named(const char* words, const std::set<CLI::Option*>& options) {
  std::string out;
  for (const CLI::Option* option : options) out += concat(out.empty() ? words : ",", " ", option->get_name());
  return out;
}

// Help for a terminal of 80 columns. What an option needs and what it does not go with follows its description.
struct HelpFormatter : CLI::Formatter {
  static constexpr size_t kColumns = 80;
  static constexpr const char* kEveryVerb = "General";

  std::string make_subcommand(const CLI::App* verb) const override {
    std::ostringstream out;
    const size_t indent = get_column_width();
    CLI::detail::format_help(out, verb->get_name(), in_lines(verb->get_description(), kColumns - indent), indent);
    return out.str();
  }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return make_expanded(app);
    return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) + by_headings(app) +
           make_subcommands(app, mode) + make_footer(app);
  }

  // The options under their headings, those of every verb last.
  std::string by_headings(const CLI::App* app) const {
    std::string out, last;
    for (const std::string& heading : app->get_groups()) {
      const std::vector<const CLI::Option*> options = app->get_options(
          [&](const CLI::Option* option) { return option->get_group() == heading && option->nonpositional(); });
      if (!options.empty()) (heading == kEveryVerb ? last : out) += make_group(heading, false, options);
    }
    return out + last;
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string out;
    if (!option->get_positional()) out += " " + option->get_type_name();
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) out += " ...";
    return option->get_required() ? out + " (required)" : out;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string limits = named("needs", option->get_needs());
    const std::string others = named("not with", option->get_excludes());
    if (!limits.empty() && !others.empty()) limits += "; ";
    limits += others;
    const std::string& text = option->get_description();
    return in_lines(limits.empty() ? text : concat(text, " (", limits, ")"), kColumns - get_column_width());
  }
};

}  // namespace

CommandLine::CommandLine(ReadableHost& host, std::string command) : host(host), command(std::move(command)) {
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "print this help");
  app.formatter(std::make_shared<HelpFormatter>());
  for (const auto& [theirs, ours] : {std::pair("SUBCOMMAND", "VERB"), std::pair("Positionals", "Arguments")})
    app.get_formatter()->label(theirs, ours);
  app.set_version_flag(
      "--version", [] { return concat("qdq ", QDQ_VERSION, " (", machine_text(), ")"); },
      "print the version, and what the processor can do");
  for (const auto add : {add_quantize, add_calibrate, add_merge, add_train, add_run, add_evaluate, add_compare,
                         add_sensitivity, add_benchmark, add_inspect, add_recipe, add_convert, add_fuse})
    add(*this);
  add_descriptions();
  // of this alone: verbs inherit what is there when they are added
  app.footer("qdq VERB --help lists the options of a verb.");
}

CLI::App* CommandLine::verb(const char* name, const char* description, const char* example,
                            std::function<void(Host&)> body, std::function<void()> check) {
  CLI::App* verb = app.add_subcommand(name, description)->group("Verbs");
  verb->add_option("--threads", threads, "threads to use (1); results do not depend on it")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  verb->add_flag("-q,--quiet", host.quiet, "print only requested results, warnings and errors");
  verb->add_option(
          "--max-memory", max_memory_,
          "refuse work that needs more memory: 500MB, 2GiB (default: the machine's memory; 4GiB in WebAssembly)")
      ->type_name("SIZE")
      ->check([](const std::string& text) {
        return bytes_in(text) ? "" : "found " + text + ", wanted a size such as 500MB, 1.5GB or 2GiB";
      });
  verb->add_option("--timeout", timeout, "end with an error after this many seconds (native program only)")
      ->type_name("SECONDS")
      ->check([](const std::string& text) {
        constexpr double kMost = 1e9;
        char* end = nullptr;
        const double seconds = std::strtod(text.c_str(), &end);
        const bool fits = end != text.c_str() && *end == 0 && seconds > 0 && seconds <= kMost;
        return fits ? "" : "found " + text + ", wanted a number of seconds above 0, such as 30 or 0.5";
      });
  for (CLI::Option* option : verb->get_options(nullptr)) option->group(HelpFormatter::kEveryVerb);
  verb->footer(concat("Example:\n  ", example));
  verb->callback([this, verb, body = std::move(body), check = std::move(check)] {
    // What a shell's variable gives that is not set.
    for (const CLI::Option* option : verb->get_options())
      for (const std::string& value : option->results())
        if (value.empty())
          throw CLI::ValidationError(option->get_name(false, false), "found nothing, wanted a value; or leave it out");
    if (check) check();
    work = body;
  });
  return verb;
}

// The command line's own words, for a shell and for `man`.
void CommandLine::add_descriptions() {
  CLI::App* completion = app.add_subcommand("completion", "print a shell's completion script for qdq");
  completion->add_option("SHELL", shell_, "bash, zsh or fish")->required()->check([](const std::string& name) {
    return name == "bash" || name == "zsh" || name == "fish" ? "" : "found " + name + ", wanted bash, zsh or fish";
  });
  completion->callback([this] { work = [this](Host& to) { to.print(completions(app, shell_)); }; });
  app.add_subcommand("man", "print the manual page: qdq man | man -l -")->callback([this] {
    work = [this](Host& to) { to.print(man_page(app)); };
  });
  for (const char* name : {"completion", "man"}) app.get_subcommand(name)->group("Descriptions");
}

std::optional<MemoryLimit> CommandLine::memory_limit() const {
  if (!max_memory_.empty()) return MemoryLimit(*bytes_in(max_memory_), "that --max-memory allows");
  const std::optional<uint64_t> machine = host.machine_memory();
  if (!machine) return std::nullopt;
  return MemoryLimit(*machine, "that this machine has", "allow more by --max-memory");
}

}  // namespace qdq
