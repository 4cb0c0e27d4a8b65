// The DATA of the command line: arrays or images as batches of a program's inputs.
#include "data/data.h"

#include <optional>

#include "data/file_names.h"
#include "data/samples.h"
#include "format/json.h"

namespace qdq {

namespace {

std::vector<Input> inputs_of(const Program& program) {
  std::vector<Input> inputs;
  for (const Node* node : program.graph->placeholders()) {
    const TensorMeta* meta = node->meta.val.tensor();
    QDQ_CHECK(meta != nullptr, kUnsupported, "input ", node->name(),
              " of the program is not a tensor, so data cannot be read for it");
    inputs.push_back({node->name(), meta, node->meta.extra_of(kOnnxValue)});
  }
  QDQ_CHECK(!inputs.empty(), kInvalidArgument, "the program has no inputs, so there is nothing to give it");
  return inputs;
}

}  // namespace

bool Input::is_one_image() const {
  const SymShape& sizes = meta->sizes;
  return sizes.size() == 3 && (sizes[0] == SymInt(1) || sizes[0] == SymInt(3));
}

std::optional<int64_t> Input::fixed_batch() const {
  if (is_one_image()) return 1;
  return meta->sizes.empty() ? std::nullopt : meta->sizes[0].constant();
}

std::string names_of(const std::vector<Input>& inputs) {
  std::string names;
  for (const Input& input : inputs) names += (names.empty() ? "" : ", ") + input.shown();
  return names;
}

ReadPreprocess read_preprocess(const std::string& path, Files& files) {
  const format::Json json = format::parse_json(format::text_of(files.read(path)), path);
  return {format::parse_preprocess(json, path), format::print_json(json)};
}

std::string name_problem_of_data(const std::string& path) {
  for (const char* ending : {".npz", ".npy", ".tar"})
    if (ends_with(path, ending)) return "";
  if (path == "-") return "";
  return path +
         " is not data that qdq reads; wanted an .npz, an .npy, a folder of images or a .tar of images, or - for "
         "arrays on the standard input";
}

std::unique_ptr<Data> open_data(const std::string& path, const Program& program, const DataOptions& options,
                                Files& files) {
  QDQ_CHECK(options.batch_size >= 1, kInvalidArgument, "the batch size is ", options.batch_size,
            "; it must be at least 1");
  QDQ_CHECK(options.limit >= 0, kInvalidArgument, "the limit is ", options.limit,
            " samples; it must be at least 1 (0: all)");
  const std::vector<Input> inputs = inputs_of(program);
  for (const Input& input : inputs) {
    const auto fixed = input.fixed_batch();
    QDQ_CHECK(!options.is_batch_size_wanted || !fixed || *fixed == options.batch_size, kInvalidArgument, "input ",
              input.shown(), " has a fixed batch of ", fixed.value_or(0), ", so that it cannot have ",
              options.batch_size, " samples per batch");
  }
  if (files.is_folder(path) || ends_with(path, ".tar")) return open_images(path, inputs, options, files);
  // A file that is not there is told first, whatever its ending.
  const auto source = std::make_shared<format::FileSource>(files, path);
  bool is_npz = ends_with(path, ".npz");
  const std::string problem = name_problem_of_data(path);
  QDQ_CHECK(problem.empty(), kInvalidArgument, problem);
  if (path == "-") is_npz = source->size() > 1 && source->read(0, 2).text() == "PK";
  return open_arrays(source, is_npz, inputs, options, path, files);
}

Tensor join_batches(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts[0];
  Shape sizes = parts[0].sizes();
  QDQ_CHECK(!sizes.empty(), kInvalidArgument, "a tensor without axes cannot be joined over ", parts.size(),
            " batches; give all samples in one batch (--batch-size)");
  sizes[0] = 0;
  for (const Tensor& part : parts) sizes[0] += part.size(0);
  const Tensor out = Tensor::empty(sizes, parts[0].dtype());
  int64_t at = 0;
  for (const Tensor& part : parts) {
    out.slice(0, at, at + part.size(0)).copy_from(part);
    at += part.size(0);
  }
  return out;
}

}  // namespace qdq
