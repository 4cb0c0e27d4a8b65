// What a verb is to write: that it can be written, is called what it is, and costs nothing that the verb reads.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "cli/wrong_usage.h"

namespace qdq {

namespace {

// Throws Error{kIo} where nothing can be written, as far as that is known before it is tried.
void check_place(const std::string& path, Host& host) {
  QDQ_CHECK(!host.files.is_folder(path), kIo, "cannot write ", path, ": it is a folder, wanted the name of a file");
  const size_t end = path.rfind('/');
  const std::string folder = end == std::string::npos || end == 0 ? "" : path.substr(0, end);
  QDQ_CHECK(folder.empty() || host.files.is_folder(folder), kIo, "cannot write ", path, ": there is no folder ",
            folder);
  if (host.files.is_file(path)) return;  // which may be a pipe; others tell when they are written
  const std::string reason = host.files.why_not_written(end == 0 ? "/" : folder);
  QDQ_CHECK(reason.empty(), kIo, "cannot write ", path, ": ", reason);
}

// A model is read again by its ending, so that its name needs one. Of others a name without any is the user's choice.
void check_ending(const OutputFile& output) {
  const std::vector<std::string>& endings = output.endings;
  const std::string name = file_name(output.path);
  const auto has_it = [&](const std::string& ending) { return name.ends_with(ending); };
  if (endings.empty() || std::ranges::any_of(endings, has_it)) return;
  const bool is_model = endings.size() > 1 && endings[1] == ".pt2";
  if (!is_model && endings[0] != ".npz" && name.find('.', 1) == std::string::npos) return;
  std::string wanted = endings[0];
  for (size_t i = 1; i < endings.size(); ++i) wanted += " or " + endings[i];
  throw CLI::ValidationError(concat(output.option, " ", output.path),
                             "the name says another kind of file than is written; wanted one that ends in " + wanted);
}

}  // namespace

void check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs, Host& host) {
  std::vector<const OutputFile*> given;
  for (const OutputFile& output : outputs)
    if (!output.path.empty()) given.push_back(&output);
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& [option, path, endings] = *given[i];
    check_place(path, host);
    check_ending(*given[i]);
    for (const std::string& input : inputs)
      QDQ_CHECK_USAGE(input.empty() || !host.files.is_same(path, input), option, " ", path,
                      ": this is an input file, which would be overwritten; choose another name");
    for (size_t before = 0; before < i; ++before)
      QDQ_CHECK_USAGE(!host.files.is_same(path, given[before]->path), option, " ", path, ": this is also the file of ",
                      given[before]->option, "; give one of the two another name");
  }
}

void check_onnx_options(const OnnxOptions& options, const std::string& output) {
  if (output.ends_with(".onnx")) return;
  for (const auto& [given, option] :
       {std::pair(options.opset.has_value(), "--onnx-opset"), std::pair(options.external_data, "--onnx-data"),
        std::pair(options.signed_activations, "--onnx-signed-activations"),
        std::pair(options.dedicated_pairs, "--onnx-dedicated-pairs"),
        std::pair(options.accuracy_level.has_value(), "--onnx-accuracy-level"),
        std::pair(options.groups != OnnxGroups::kDefault, "--onnx-groups"),
        std::pair(options.format != OnnxFormat::kQdq, "--onnx-format")})
    QDQ_CHECK_USAGE(!given, option, " is for .onnx files only, but the output is ", output);
}

void warn_of_onnx_options(const OnnxOptions& options, const Program& written, Host& host) {
  if (options.signed_activations && !has_int8_activations(written))
    host.print_error("qdq: warning: --onnx-signed-activations does nothing: the model has no int8 activations\n");
  if (options.dedicated_pairs && !shares_pairs(written))
    host.print_error(
        "qdq: warning: --onnx-dedicated-pairs does nothing: no two operators of this model read the same quantized "
        "value\n");
}

void check_onnx_form(const Program& form, const std::string& output, const OnnxOptions& given, const OnnxOptions& onnx,
                     Host& host) {
  save_program(form, output, onnx);
  warn_of_onnx_options(given, form, host);
}

namespace {
// A form of ONNX files that a program without such operators does not have.
struct OnnxForm {
  const char* option;
  bool (*is_given)(const OnnxOptions& options);
  void (*leave_out)(OnnxOptions& options);
};
constexpr OnnxForm kOnnxForms[] = {
    {"--onnx-format", [](const OnnxOptions& options) { return options.format != OnnxFormat::kQdq; },
     [](OnnxOptions& options) { options.format = OnnxFormat::kQdq; }},
    {"--onnx-groups", [](const OnnxOptions& options) { return options.groups != OnnxGroups::kDefault; },
     [](OnnxOptions& options) { options.groups = OnnxGroups::kDefault; }},
    {"--onnx-accuracy-level", [](const OnnxOptions& options) { return options.accuracy_level.has_value(); },
     [](OnnxOptions& options) { options.accuracy_level.reset(); }},
    {"--onnx-dedicated-pairs", [](const OnnxOptions& options) { return options.dedicated_pairs; },
     [](OnnxOptions& options) { options.dedicated_pairs = false; }}};

// save_program(), or nothing where the program does not have the form.
std::optional<ModelFiles> try_to_save(const Program& program, const std::string& output, const OnnxOptions& onnx) {
  try {
    return save_program(program, output, onnx);
  } catch (const Error& error) {
    if (error.code != ErrorCode::kInvalidArgument) throw;
    return std::nullopt;
  }
}
}  // namespace

ModelFiles save_chosen(const Program& program, const std::string& output, const OnnxOptions& onnx,
                       std::vector<std::string>* left_out) {
  if (auto files = try_to_save(program, output, onnx)) return std::move(*files);
  OnnxOptions kept = onnx;
  for (const OnnxForm& form : kOnnxForms) {
    if (!form.is_given(onnx)) continue;
    OnnxOptions alone = onnx;
    for (const OnnxForm& other : kOnnxForms)
      if (other.option != form.option) other.leave_out(alone);
    if (try_to_save(program, output, alone)) continue;
    form.leave_out(kept);
    if (left_out) left_out->emplace_back(form.option);
  }
  return save_program(program, output, kept);
}

Model open_to_write(const std::string& path, const OnnxFixed& fixed, Host& host) {
  const bool is_fixed = !fixed.values.empty() || !fixed.shapes.empty();
  QDQ_CHECK_USAGE(!is_fixed || !path.ends_with(".pt2"), "--fix is for ONNX models only, but ", path,
                  " is a .pt2 file; export the program again with ",
                  fixed.values.empty() ? fixed.shapes.begin()->first : fixed.values.begin()->first, " fixed");
  return load_model(path, host.files, false, fixed);
}

}  // namespace qdq
