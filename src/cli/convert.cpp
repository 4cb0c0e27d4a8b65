// `qdq convert`: a model as another kind of file; `qdq fuse`: one whose batch norms are folded.
#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "format/json.h"
#include "io/model.h"
#include "quant/fx/fuse_fx.h"

namespace qdq {

namespace {

void add_output(CLI::App& verb, std::string& output) {
  verb.add_option("OUT,-o,--output", output,
                  "the file to write, as the second argument or by -o; its ending says the kind: .pt2 or .onnx")
      ->required();
}

}  // namespace

void convert(const ConvertFileOptions& options, Host& host) {
  check_outputs({{"OUT", options.output, kModelEndings}}, {options.input}, host);
  check_onnx_options(options.onnx, options.output);
  const Model model = open_to_write(options.input, options.fixed, host);
  const ModelFiles written = save_program(model.program, options.output, options.onnx);
  warn_of_onnx_options(options.onnx, model.program, host);
  written.write(host.files);
  if (!written.warning.empty()) host.print_error(concat("qdq: warning: ", written.warning, "\n"));
  print_summary(concat("wrote ", options.output, "\n  size              ", human_bytes(model.file_bytes), " -> ",
                       human_bytes(written.size()), "\n", note_line(written.note)),
                {{"output", options.output},
                 {"bytes", {{"before", model.file_bytes}, {"after", written.size()}}},
                 {"note", written.note}},
                options.json, host);
}

void add_convert(CommandLine& line) {
  const auto options = std::make_shared<ConvertFileOptions>();
  CLI::App* verb = line.verb("convert", "write a model as .pt2 or .onnx", "qdq convert model.pt2 model.onnx",
                             [options](Host& host) { convert(*options, host); });
  verb->add_option("IN", options->input, "the model (.pt2 or .onnx)")->required();
  add_output(*verb, options->output);
  add_onnx_options(*verb, options->onnx);
  add_fix_option(*verb, options->fixed);
  add_json_flag(*verb, options->json);
}

void fuse(const FuseOptions& options, Host& host) {
  check_outputs({{"OUT", options.output, kModelEndings}}, {options.input}, host);
  check_onnx_options(options.onnx, options.output);
  const BackendConfig& backend = get_backend_config(options.backend);
  Model model = open_to_write(options.input, options.fixed, host);
  const int64_t folded = fuse_fx(model.program, backend);
  const ModelFiles written = save_program(model.program, options.output, options.onnx);
  warn_of_onnx_options(options.onnx, model.program, host);
  written.write(host.files);
  print_summary(concat("wrote ", options.output, "\n  batch norms folded  ", folded, "\n  size                ",
                       human_bytes(model.file_bytes), " -> ", human_bytes(written.size()), "\n"),
                {{"output", options.output},
                 {"folded", folded},
                 {"bytes", {{"before", model.file_bytes}, {"after", written.size()}}}},
                options.json, host);
}

void add_fuse(CommandLine& line) {
  const auto options = std::make_shared<FuseOptions>();
  CLI::App* verb = line.verb("fuse", "fold a float model's batch norms into the layers in front",
                             "qdq fuse model.pt2 fused.pt2", [options](Host& host) { fuse(*options, host); });
  verb->add_option("IN", options->input, "the float model (.pt2 or .onnx)")->required();
  add_output(*verb, options->output);
  verb->add_option("--fx", options->backend, "the backend config whose fusions to apply (native)")
      ->check(one_of({"native", "fbgemm", "x86", "qnnpack", "onednn", "executorch", "tensorrt"}))
      ->type_name("BACKEND");
  add_onnx_options(*verb, options->onnx);
  add_fix_option(*verb, options->fixed);
  add_json_flag(*verb, options->json);
}

}  // namespace qdq
