// `qdq run` and `qdq evaluate`: models at work.
#include <algorithm>
#include <cstdio>

#include "cli/progress.h"
#include "cli/verbs.h"
#include "format/npz.h"
#include "io/model.h"
#include "lower/lower.h"
#include "report/evaluation.h"

#include "format/json.h"

namespace qdq {

namespace {

struct Score {
  std::string model;
  uint64_t bytes = 0;
  double top1 = 0, top5 = 0, agreement = 0;  // percent
  double seconds = 0;                        // in the model
  Answers answers;
};

Score evaluate_one(const std::string& model, const EvaluateOptions& options, Host& host) {
  const auto [program, file_bytes] = load_model(model, host.files);
  Session session = open_session(program, options.session, host);
  const auto data = open_data(options.data, program, options.data_options, host.files);
  Classes classes = read_classes(options.classes, count_classes(program), host.files);
  const std::vector<int64_t> labels = read_labels(options.labels, *data, classes, host.files);
  Score score;
  score.model = model;
  score.bytes = file_bytes;
  Progress progress(host, "evaluating " + model, data->num_batches(), "batches");
  for (int64_t i = 0; i < data->num_batches(); ++i) {
    const std::vector<Tensor> inputs = data->batch(i);
    const double began = host.now_seconds();
    const std::vector<Tensor> outputs = session.run(inputs);
    score.seconds += host.now_seconds() - began;
    score.answers.add(outputs, model);
    progress.advance();
  }
  const size_t samples = score.answers.all().size();
  QDQ_CHECK(samples == labels.size(), kInvalidArgument, model, " gave ", samples, " predictions for ", labels.size(),
            " samples");
  score.top1 = score.answers.top(1, labels);
  score.top5 = score.answers.top(5, labels);
  return score;
}

std::string table(const std::vector<Score>& scores) {
  size_t width = 5;
  for (const Score& score : scores) width = std::max(width, score.model.size());
  std::string out =
      concat("model", std::string(width - 5, ' '), "     top-1     top-5    agree     ties       size      time\n");
  for (const Score& score : scores) {
    char line[96];
    std::snprintf(line, sizeof line, "  %6.2f %%  %6.2f %%  %5.1f %%  %5.1f %%  %9s  %8s\n", score.top1, score.top5,
                  score.agreement, score.answers.ties(), human_bytes(score.bytes).c_str(),
                  human_seconds(score.seconds).c_str());
    out += score.model + std::string(width - score.model.size(), ' ') + line;
  }
  return out;
}

}  // namespace

void check_output(const std::string& path, Host& host) {
  if (path.empty()) return;
  QDQ_CHECK(!host.files.is_folder(path), kIo, "cannot write ", path, ": it is a folder, wanted the name of a file");
  const size_t end = path.rfind('/');
  const std::string folder = end == std::string::npos || end == 0 ? "" : path.substr(0, end);
  QDQ_CHECK(folder.empty() || host.files.is_folder(folder), kIo, "cannot write ", path, ": there is no folder ",
            folder);
}

void check_model_output(const std::string& path, const std::string& input, Host& host) {
  check_output(path, host);
  QDQ_CHECK(path.ends_with(".onnx") || path.ends_with(".pt2"), kInvalidArgument, "the kind of file that ", path,
            " shall be is unknown; wanted a name that ends in .onnx or .pt2");
  QDQ_CHECK(!host.files.is_same(path, input), kInvalidArgument, path,
            " is the model that is read, and would be lost; give the new one another name");
}

void check_preprocess(const DataOptions& options, std::initializer_list<std::string> samples) {
  if (options.preprocess.empty()) return;
  std::string names;
  for (const std::string& path : samples) {
    if (path.empty()) continue;
    if (!path.ends_with(".json")) return;  // those of arrays are checked with the arrays
    names += (names.empty() ? "" : " and ") + path;
  }
  fail(ErrorCode::kInvalidArgument, "--preprocess says how images become inputs, but ",
       names.empty() ? "no samples are given" : names + " holds statistics", "; leave it out");
}

Session open_session(const Program& program, const SessionOptions& options, Host& host) {
  LowerOptions lowering;
  if (!options.backend.empty()) lowering.backends = {options.backend};
  lowering.fuse = !options.node_by_node;
  lowering.bf16 = options.bf16;
  Session session = lower(program, lowering);
  for (const std::string& warning : session.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
  return session;
}

void run(const RunOptions& options, Host& host) {
  QDQ_CHECK(options.output.ends_with(".npz"), kInvalidArgument, options.output,
            " is no name for outputs, which are written as .npz");
  check_output(options.output, host);
  check_preprocess(options.data_options, {options.inputs});
  const Program program = load_model(options.model, host.files).program;
  Session session = open_session(program, options.session, host);
  const auto data = open_data(options.inputs, program, options.data_options, host.files);
  std::vector<std::vector<Tensor>> parts;
  {
    Progress progress(host, "running", data->num_batches(), "batches");
    for (int64_t i = 0; i < data->num_batches(); ++i) {
      const std::vector<Tensor> outputs = session.run(data->batch(i));
      parts.resize(outputs.size());
      for (size_t o = 0; o < outputs.size(); ++o) parts[o].push_back(outputs[o]);
      progress.advance();
    }
  }
  std::vector<format::NamedTensor> arrays;
  std::string shapes;
  for (size_t o = 0; o < parts.size(); ++o) {
    arrays.push_back({"output_" + std::to_string(o), join_batches(parts[o])});
    shapes += concat("  ", arrays[o].name, ": ", to_string(arrays[o].tensor.dtype()),
                     to_string(arrays[o].tensor.sizes()), "\n");
  }
  host.files.write(options.output, format::write_npz(arrays));
  host.print(concat("wrote ", options.output, "\n", shapes));
}

void evaluate(const EvaluateOptions& options, Host& host) {
  std::vector<Score> scores;
  for (const std::string& model : options.models) {
    scores.push_back(evaluate_one(model, options, host));
    const size_t samples = scores.back().answers.all().size(), before = scores[0].answers.all().size();
    QDQ_CHECK(samples == before, kInvalidArgument, model, " was evaluated on ", samples, " samples, ", scores[0].model,
              " on ", before);
    scores.back().agreement = scores.back().answers.agreement(scores[0].answers);
  }
  if (!options.json) {
    host.print(table(scores));
    return;
  }
  format::Json out = format::Json::array();
  for (const Score& score : scores)
    out.push_back({{"model", score.model},
                   {"top1", score.top1},
                   {"top5", score.top5},
                   {"agreement", score.agreement},
                   {"ties", score.answers.ties()},
                   {"samples", score.answers.all().size()},
                   {"bytes", score.bytes},
                   {"seconds", score.seconds}});
  host.print(format::print_json(out, 1) + "\n");
}

}  // namespace qdq
