// `qdq convert`: a model as another kind of file.
#include "cli/progress.h"
#include "cli/verbs.h"
#include "format/json.h"
#include "io/model.h"

namespace qdq {

void convert(const ConvertFileOptions& options, Host& host) {
  check_model_output(options.output, options.input, host);
  const Model model = load_model(options.input, host.files, false, options.fixed);
  const ModelFiles written = save_program(model.program, options.output, options.onnx);
  written.write(host.files);
  if (!written.warning.empty()) host.print_error(concat("qdq: warning: ", written.warning, "\n"));
  print_summary(concat("wrote ", options.output, "\n  size              ", human_bytes(model.file_bytes), " -> ",
                       human_bytes(written.size()), "\n"),
                {{"output", options.output}, {"bytes", {{"before", model.file_bytes}, {"after", written.size()}}}},
                options.json, host);
}

}  // namespace qdq
