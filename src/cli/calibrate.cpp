// `qdq calibrate` and `qdq merge`: calibration in parts, and the parts together.
#include <algorithm>

#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "format/bytes.h"
#include "format/json.h"
#include "io/model.h"
#include "quant/layer_statistics.h"
#include "quant/pt2e.h"
#include "quant/qat.h"
#include "state/state_file.h"

namespace qdq {

namespace {

// Says so where the mergeable class replaces PyTorch's though the recipe asks for neither.
void warn_of_other_class(const format::Json& recipe, const std::vector<ObserverGroup>& observers, Host& host) {
  const auto is_histogram = [](const ObserverGroup& group) {
    return group.observer->class_name() == "MergeableHistogramObserver";
  };
  if (!recipe.contains("mergeable") && recipe.dump().find("MergeableHistogramObserver") == std::string::npos &&
      std::any_of(observers.begin(), observers.end(), is_histogram))
    host.print_error(
        "qdq: warning: MergeableHistogramObserver takes the place of HistogramObserver, whose histogram depends on the "
        "order of the batches; scales differ a little from those of quantize --calibrate on the samples\n");
}

bool is_one_shard(const std::string& text) {
  try {
    const Shards shards = parse_shards(text, "--shard");
    return shards.ranges.size() == 1 && shards.ranges[0].first == shards.ranges[0].second;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void calibrate(const CalibrateOptions& options, Host& host) {
  const double began = host.now_seconds();
  check_outputs({{"-o", options.output, {".json"}}},
                {options.model, options.data, options.quantizer.recipe, options.data_options.preprocess}, host);
  check_preprocess(options.data_options, {options.data});
  const Shards shards = parse_shards(options.shard, "--shard");
  const int64_t k = shards.ranges[0].first;
  Model model = open_to_write(options.model, options.fixed, host);
  check_ops(*model.program.graph);
  if (options.allow_training_mode && !move_exported_model_to_eval(model.program))
    host.print_error("qdq: warning: the model was not exported in training mode; --allow-training-mode does nothing\n");
  const format::Json recipe = read_recipe(options.quantizer, host);
  const std::unique_ptr<Quantizer> quantizer =
      open_recipe(mergeable_recipe(recipe, options.quantizer), options.quantizer);
  const std::unique_ptr<Data> data = open_samples(options.data, model.program, options.data_options, host);
  Prepared prepared = prepare_pt2e(std::move(model.program), *quantizer);
  for (const std::string& warning : prepared.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
  check_mergeable(prepared);
  QDQ_CHECK(prepared.needs_data() || options.recover, kInvalidArgument,
            "this recipe takes no ranges from samples in this model, so there is nothing to calibrate; quantize it "
            "without --calibrate");
  if (options.recover) observe_layers(prepared);
  warn_of_other_class(recipe, prepared.observers(), host);
  const auto [begin, end] = batches_of_shard(data->num_batches(), k, shards.of);
  if (begin == end)
    host.print_error(concat("qdq: warning: --shard ", options.shard, " has none of the ",
                            counted(data->num_batches(), "batches"), ": there are more shards than batches\n"));
  {
    Progress progress(host, "calibrating", end - begin, "batches");
    data->expect(begin, end);
    for (int64_t i = begin; i < end; ++i) {
      prepared.run(data->batch(i));
      progress.advance();
    }
  }
  const CalibrationState state = state_of(prepared, {data->id(), data->num_samples(), data->num_batches()}, shards);
  const std::string text = print_state(state);
  host.files.write(options.output, format::bytes_of(text));
  const double seconds = host.now_seconds() - began;
  print_summary(
      concat("wrote ", options.output, "\n  shard             ", to_string(shards), ": ", end - begin, " of ",
             counted(data->num_batches(), "batches"), " (", counted(data->num_samples(), "samples"),
             " in all)\n  observers         ", state.observers.size(),
             options.recover ? concat("\n  layers            ", state.layers.size()) : "", "\n  size              ",
             human_bytes(text.size()), "\n  time              ", human_seconds(seconds), "\n"),
      {{"output", options.output},
       {"shard", to_string(shards)},
       {"batches", {{"shard", end - begin}, {"all", data->num_batches()}}},
       {"samples", data->num_samples()},
       {"observers", state.observers.size()},
       {"layers", state.layers.size()},
       {"bytes", text.size()},
       {"seconds", seconds}},
      options.json, host);
}

namespace {

// The files that are meant: folders stand for the .json files in them.
std::vector<std::string> part_files(const std::vector<std::string>& words, Files& files) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    if (!files.is_folder(word)) {
      out.push_back(word);
      continue;
    }
    std::vector<std::string> inside;
    for (const std::string& name : files.list(word))
      if (name.ends_with(".json")) inside.push_back(word + "/" + name);
    QDQ_CHECK(!inside.empty(), kInvalidArgument, "the folder ", word, " has no parts; wanted *.json of qdq calibrate");
    std::sort(inside.begin(), inside.end());
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

}  // namespace

void merge(const MergeOptions& options, Host& host) {
  const double began = host.now_seconds();
  const std::vector<std::string> files = part_files(options.parts, host.files);
  check_outputs({{"-o", options.output, {".json"}}}, {}, host);  // the sum may take the place of its parts
  StateMerger merger;
  {
    Progress progress(host, "merging", std::ssize(files), "parts");
    for (const std::string& file : files) {
      merger.add(parse_state(format::text_of(host.files.read(file)), file), file);
      progress.advance();
    }
  }
  const CalibrationState state = merger.finish(options.partial);
  if (options.partial && state.shards.all())
    host.print_error("qdq: warning: --partial does nothing: no part is missing\n");
  const std::string text = print_state(state);
  host.files.write(options.output, format::bytes_of(text));
  const double seconds = host.now_seconds() - began;
  const std::string shards = state.shards.all() ? "all" : to_string(state.shards);
  print_summary(concat("wrote ", options.output, "\n  parts             ", files.size(), "\n  shards            ",
                       shards, "\n  samples           ", state.data.samples, state.shards.all() ? "" : " in all",
                       "\n  size              ", human_bytes(text.size()), "\n  time              ",
                       human_seconds(seconds), "\n"),
                {{"output", options.output},
                 {"parts", files.size()},
                 {"shards", shards},
                 {"samples", state.data.samples},
                 {"bytes", text.size()},
                 {"seconds", seconds}},
                options.json, host);
}

void add_calibrate(CommandLine& line) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* verb = line.verb("calibrate", "calibrate on one part of the samples and write the statistics, for merge",
                             "qdq calibrate model.onnx --data samples.npz --shard 1/2 -o part1.json",
                             [options](Host& host) { calibrate(*options, host); });
  verb->add_option("MODEL", options->model, "the float model (.pt2 or .onnx)")->required();
  verb->add_option("--data", options->data, "samples to calibrate on: .npz, .npy, or images in a folder or a .tar")
      ->required()
      ->type_name("DATA");
  verb->add_option("--shard", options->shard,
                   "calibrate on the K-th of N parts of the batches, counted from 1 (1/1: all)")
      ->check([](const std::string& text) -> std::string {
        return text.empty() || is_one_shard(text)
                   ? ""
                   : concat("found ", one_line(text), ", wanted one shard, counted from 1, such as 3/16");
      })
      ->type_name("K/N");
  verb->add_option("-o,--output", options->output, "the file to write the statistics to")
      ->required()
      ->type_name("PART.json");
  verb->add_flag("--recover", options->recover,
                 "also write statistics of the layers' inputs, which quantize --recover and --gptq need");
  add_quantizer_options(*verb, options->quantizer);
  add_data_options(*verb, options->data_options);
  add_fix_option(*verb, options->fixed);
  verb->add_flag("--allow-training-mode", options->allow_training_mode,
                 "accept a model that was exported in training mode, in its inference form");
  add_json_flag(*verb, options->json);
}

void add_merge(CommandLine& line) {
  const auto options = std::make_shared<MergeOptions>();
  CLI::App* verb =
      line.verb("merge", "merge the statistics that calibrate wrote, for quantize --calibrate",
                "qdq merge part1.json part2.json -o statistics.json", [options](Host& host) { merge(*options, host); });
  verb->add_option("PART", options->parts, "the parts, in any order; a folder means all *.json files in it")
      ->required();
  verb->add_option("-o,--output", options->output,
                   "the file to write the merged statistics to; one process would write the same bytes")
      ->required()
      ->type_name("OUT.json");
  verb->add_flag("--partial", options->partial,
                 "merge although parts are missing; the result is a part that can be merged");
  add_json_flag(*verb, options->json);
}

}  // namespace qdq
