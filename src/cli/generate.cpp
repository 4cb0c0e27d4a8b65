// `qdq run --generate`: a decoder's tokens, printed as they are made.
#include <algorithm>
#include <charconv>
#include <optional>

#include "cli/options.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "cli/wrong_usage.h"
#include "format/json.h"
#include "format/npz.h"
#include "io/model.h"
#include "lower/decoder.h"

namespace qdq {

namespace {

// Whole numbers between blanks, commas, brackets and line breaks; nothing for a text of anything else.
std::optional<std::vector<int64_t>> ids_in(std::string_view text) {
  std::vector<int64_t> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (std::string_view(" ,[]\n\r\t").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    int64_t id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error != std::errc()) return std::nullopt;
    ids.push_back(id);
    at = rest;
  }
  return ids;
}

// The ids that --prompt gives, or those of the file that it names: text, or an array (.npy).
std::vector<int64_t> prompt_of(const std::string& prompt, Host& host) {
  if (const auto ids = ids_in(prompt)) return *ids;
  const std::vector<std::byte> bytes = host.files.read(prompt);
  if (prompt.ends_with(".npy")) {
    const Tensor array = format::read_npy(bytes, prompt);
    QDQ_CHECK(array.dtype() == DType::kS64 || array.dtype() == DType::kS32, kInvalidArgument, "the prompt ", prompt,
              " is ", to_string(array.dtype()), ", wanted token ids in int64 or int32");
    const Tensor ids = array.to(DType::kS64).contiguous();
    return {ids.data<int64_t>(), ids.data<int64_t>() + ids.numel()};
  }
  const auto ids = ids_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  QDQ_CHECK_USAGE(ids.has_value(), "the prompt ", prompt,
                  " holds something other than token ids; wanted whole numbers separated by commas or blanks");
  return *ids;
}

}  // namespace

void generate(const RunOptions& options, Host& host) {
  QDQ_CHECK_USAGE(!options.prompt.empty(), "--generate needs --prompt: token ids (1,2,3), or a file with them");
  const std::vector<int64_t> prompt = prompt_of(options.prompt, host);
  const Program program = load_model(options.model, host.files).program;
  Decoder decoder(program, lower_options(options.session));
  for (const std::string& warning : decoder.session().warnings())
    host.print_error(concat("qdq: warning: ", warning, "\n"));
  decoder.start(prompt, options.generate, options.sampling);
  std::vector<int64_t> tokens;
  const double began = host.now_seconds();
  double first = began;
  for (int64_t i = 0; i < options.generate; ++i) {
    const int64_t token = tokens.emplace_back(decoder.next());
    if (i == 0) first = host.now_seconds();
    if (!options.json) host.print(concat(i == 0 ? "" : " ", token));
    if (std::find(options.stop.begin(), options.stop.end(), token) != options.stop.end()) break;
  }
  const double prompt_seconds = first - began, seconds = host.now_seconds() - first;
  const double rate = tokens.size() > 1 && seconds > 0 ? static_cast<double>(tokens.size() - 1) / seconds : 0;
  if (options.json) {
    const format::Json out = {{"prompt", prompt},
                              {"tokens", tokens},
                              {"prompt_seconds", format::json_of_number(prompt_seconds)},
                              {"tokens_per_second", format::json_of_number(rate)}};
    host.print(format::print_json(out, 1) + "\n");
    return;
  }
  host.print("\n");
  if (host.is_quiet()) return;
  host.print_error(concat("prompt of ", prompt.size(), " in ", human_seconds(prompt_seconds), "; then ",
                          std::to_string(static_cast<int64_t>(rate + 0.5)), " tokens a second\n"));
}

void add_generate_options(CLI::App& verb, RunOptions& options, const std::vector<CLI::Option*>& of_samples) {
  const OptionsUnder heading(verb, "Tokens of a decoder");
  CLI::Option* generate = verb.add_option("--generate", options.generate,
                                          "for decoders: print the ids of the N tokens that follow the prompt")
                              ->type_name("N")
                              ->check(whole_number(1));
  for (CLI::Option* option : of_samples) generate->excludes(option);
  verb.add_option("--prompt", options.prompt, "the prompt's token ids (1,2,3), or a file of them: text or .npy")
      ->needs(generate)
      ->type_name("IDS");
  verb.add_option("--temperature", options.sampling.temperature,
                  "draw tokens at random from softmax(logits / T); 0: take the most likely token (0)")
      ->needs(generate)
      ->type_name("T");
  verb.add_option("--top-k", options.sampling.top_k, "draw among the K most likely tokens only (all)")
      ->needs(generate)
      ->type_name("K")
      ->check(whole_number(1));
  verb.add_option("--seed", options.sampling.seed, "the seed of --temperature (0); equal seeds give equal tokens")
      ->needs(generate)
      ->type_name("S")
      ->check(whole_number(0));
  verb.add_option("--stop", options.stop, "stop after this token; may be repeated")->needs(generate)->type_name("ID");
}

}  // namespace qdq
