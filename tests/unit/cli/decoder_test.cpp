// Decoders that generate: tests/golden/programs/decoder.npz, made by its make_decoder.py.
#include "lower/decoder.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "format/json.h"
#include "golden_bytes.h"
#include "io/model.h"
#include "io/onnx.h"
#include "lower/plan.h"
#include "message_of.h"
#include "op/facts.h"
#include "unit/cli/cli_fixture.h"

namespace qdq::decoder_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct DecoderCase {
  std::vector<std::byte> model;
  std::vector<std::vector<Tensor>> inputs, outputs;  // by run
  std::vector<int64_t> prompt, tokens;
};

const std::map<std::string, DecoderCase>& decoders() {
  static const std::map<std::string, DecoderCase> cases = [] {
    std::map<std::string, DecoderCase> out;
    for (const format::NamedTensor& array : format::read_npz(golden_bytes("programs/decoder.npz"), "decoder.npz")) {
      const size_t slash = array.name.find('/');
      DecoderCase& one = out[array.name.substr(0, slash)];
      const std::string what = array.name.substr(slash + 1);
      const Tensor& tensor = array.tensor;
      const auto ids = [&] {
        return std::vector<int64_t>(tensor.span<int64_t>().begin(), tensor.span<int64_t>().end());
      };
      if (what == "model") one.model.assign(tensor.raw(), tensor.raw() + tensor.nbytes());
      else if (what == "prompt") one.prompt = ids();
      else if (what == "tokens") one.tokens = ids();
      else {
        auto& runs = what.starts_with("input") ? one.inputs : one.outputs;
        const size_t run = std::stoul(what.substr(what.find('_') + 1));
        runs.resize(std::max(runs.size(), run + 1));
        runs[run].push_back(tensor);
      }
    }
    return out;
  }();
  return cases;
}

Program program_of(const std::string& name) {
  const std::vector<std::byte>& model = decoders().at(name).model;
  return name.starts_with("onnx") ? load_onnx(model) : load_pt2(model);
}

std::vector<int64_t> tokens_of(Decoder& decoder, const std::vector<int64_t>& prompt, int64_t count,
                               const Sampling& sampling = {}) {
  decoder.start(prompt, count, sampling);
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(decoder.next());
  return tokens;
}

void expect_runs(Session& session, const DecoderCase& wanted) {
  for (size_t run = 0; run < wanted.inputs.size(); ++run) {
    SCOPED_TRACE(run);
    const Tensor found = session.run(wanted.inputs[run]).at(0).contiguous(), other = wanted.outputs[run].at(0);
    ASSERT_EQ(to_string(found.sizes()), to_string(other.sizes()));
    for (int64_t i = 0; i < found.numel(); ++i)
      ASSERT_NEAR(found.data<float>()[i], other.data<float>()[i], 2e-5) << "element " << i;
  }
}

std::vector<std::string> pt2_decoders() { return {"functional", "grouped", "in_place"}; }

TEST(DecoderGolden, RunsComputeWhatPyTorchComputesRunByRun) {
  for (const std::string& name : pt2_decoders())
    for (const bool fuse : {true, false}) {
      SCOPED_TRACE(name + (fuse ? ", fused" : ", node by node"));
      const Program program = program_of(name);
      Session session = lower(program, {.backends = {}, .fuse = fuse}), other = lower(program);
      expect_runs(session, decoders().at(name));
      session.reset();
      expect_runs(session, decoders().at(name));
      expect_runs(other, decoders().at(name));  // whose state is its own
      for (const Attribute& attribute : program.attributes) {
        if (attribute.name.find("cache") == std::string::npos) continue;
        const Tensor values = attribute.tensor.contiguous();
        for (const float value : values.span<float>()) ASSERT_EQ(value, 0) << attribute.name;
      }
    }
}

TEST(DecoderGolden, MutationsAreWrittenAgain) {
  const Program program = program_of("functional");
  ASSERT_EQ(program.buffer_mutations.size(), 5U);
  const Program again = load_pt2(save_pt2(program));
  ASSERT_EQ(again.buffer_mutations.size(), 5U);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(again.buffer_mutations[i].buffer, program.buffer_mutations[i].buffer);
  Session session = lower(again);
  expect_runs(session, decoders().at("functional"));
}

TEST(DecoderGolden, TokensAreThoseOfPyTorchAndOnnxRuntime) {
  ASSERT_EQ(decoders().size(), 5U);
  for (const auto& [name, wanted] : decoders())
    for (const LowerOptions& options :
         {LowerOptions{}, LowerOptions{.backends = {"simd"}}, LowerOptions{.backends = {"reference"}, .fuse = false}}) {
      SCOPED_TRACE(name);
      Decoder decoder(program_of(name), options);
      const auto count = static_cast<int64_t>(wanted.tokens.size());
      EXPECT_EQ(tokens_of(decoder, wanted.prompt, count), wanted.tokens);
      EXPECT_EQ(tokens_of(decoder, wanted.prompt, count), wanted.tokens);  // nothing is left of the first time
    }
}

// What a token costs: one step for each norm, rotary embedding and attention, and no copy of a cache.
// A .pt2 file does not name its outputs: the pasts are continued in their order.
TEST(DecoderGolden, PastsAreContinuedWithoutNames) {
  int64_t tried = 0;
  for (const auto& [name, wanted] : decoders()) {
    Program program = program_of(name);
    if (program.output_names.empty()) continue;
    SCOPED_TRACE(name);
    program.output_names.clear();
    Decoder decoder(program);
    EXPECT_EQ(tokens_of(decoder, wanted.prompt, std::ssize(wanted.tokens)), wanted.tokens);
    ++tried;
  }
  EXPECT_EQ(tried, 2);
}

TEST(Decoder, WhatIsInFrontOfProductsIsFused) {
  for (const std::string& name : pt2_decoders()) {
    SCOPED_TRACE(name);
    Session session = lower(program_of(name));
    std::map<std::string, int> kinds;
    for (const Plan& plan : session.plans())
      for (const PlanStep& step : plan.steps) ++kinds[std::string(to_string(step.kind()))];
    EXPECT_EQ(kinds["layer_norm"], 5);
    EXPECT_EQ(kinds["rotary"], 4);
    EXPECT_EQ(kinds["attention"], 2);
    int writes = 0;
    for (const Node* node : session.program().graph->nodes())
      if (node->op() == Node::Op::kCallFunction && base_name(node->target()).ends_with("_")) ++writes;
    EXPECT_EQ(writes + static_cast<int>(session.program().buffer_mutations.size()), 5);
    EXPECT_GE(writes, 4);
  }
}

TEST(Decoder, SaysInOneSentenceWhatDoesNotFit) {
  Decoder decoder(program_of("in_place"));
  EXPECT_EQ(decoder.capacity(), 24);
  EXPECT_EQ(message_of([&] { decoder.next(); }), "no prompt was given; start again");
  EXPECT_EQ(message_of([&] { decoder.start(std::vector<int64_t>{}, 1); }),
            "the prompt is empty: give it at least one token id");
  EXPECT_EQ(message_of([&] { decoder.start(std::vector<int64_t>{1, 64}, 1); }),
            "the prompt's id 64 is not a token of the decoder; it has those from 0 to 63");
  EXPECT_EQ(
      message_of([&] { decoder.start(std::vector<int64_t>{1, 2}, 24); }),
      "a prompt of 2 tokens and 24 new ones do not fit into the decoder's cache of 24 places; ask for at most 23");
  EXPECT_THAT(message_of([&] { decoder.start(std::vector<int64_t>{1}, 1, {.temperature = -1}); }),
              HasSubstr("temperature must be 0 or more"));
  EXPECT_THAT(message_of([&] { decoder.start(std::vector<int64_t>{1}, 1, {.top_k = 3}); }),
              HasSubstr("give a temperature"));
  EXPECT_EQ(tokens_of(decoder, {1, 2}, 23).size(), 23U);
  EXPECT_EQ(message_of([&] { decoder.next(); }), "all tokens that were asked for have been made; start again");
  EXPECT_THAT(message_of([] { Decoder none(classifier()); }), HasSubstr("the model takes no token ids"));
}

TEST(Decoder, EqualSeedsGiveEqualTokens) {
  Decoder decoder(program_of("functional"), {.backends = {"simd"}});
  const Sampling sampling{.temperature = 2, .top_k = 20, .seed = 5};
  const std::vector<int64_t> tokens = tokens_of(decoder, {5, 9}, 12, sampling);
  EXPECT_EQ(tokens_of(decoder, {5, 9}, 12, sampling), tokens);
  EXPECT_NE(tokens_of(decoder, {5, 9}, 12, {.temperature = 2, .top_k = 20, .seed = 6}), tokens);
  EXPECT_EQ(tokens_of(decoder, {5, 9}, 12, {.temperature = 2, .top_k = 1, .seed = 6}), tokens_of(decoder, {5, 9}, 12));
}

struct DecoderCli : CliTest {
  DecoderCli() {
    for (const auto& [name, one] : decoders())
      host.contents[name + (name.starts_with("onnx") ? ".onnx" : ".pt2")] = one.model;
  }
};

TEST_F(DecoderCli, QuantizedWeightsKeepTheState) {
  for (const std::string& name : pt2_decoders())
    for (const std::vector<std::string>& how :
         {std::vector<std::string>{"--weights-only"}, {"--weights-only", "--group-size", "8", "--weight-bits", "4"}}) {
      SCOPED_TRACE(name);
      std::vector<std::string> words{"quantize", name + ".pt2", "-o", "small.pt2"};
      words.insert(words.end(), how.begin(), how.end());
      ASSERT_EQ(run(words), 0) << host.err;
      const Program program = load_pt2(host.contents.at("small.pt2"));
      EXPECT_EQ(program.buffer_mutations.size(), program_of(name).buffer_mutations.size());
      Decoder fused(program), plain(program, {.backends = {"reference"}, .fuse = false});
      EXPECT_EQ(tokens_of(fused, {5, 9, 33}, 8), tokens_of(plain, {5, 9, 33}, 8));
    }
}

TEST_F(DecoderCli, QuantizeSaysInOneLineWhatStaysInFloatForOneReason) {
  for (const std::string model : {"in_place.pt2", "functional.pt2"}) {
    SCOPED_TRACE(model);
    const std::vector<std::string> groups{"--group-size", "8", "--weight-bits", "4"};
    const auto quantize = [&](const std::string& how) {
      std::vector<std::string> words{"quantize", model, "-o", "small.pt2", how};
      words.insert(words.end(), groups.begin(), groups.end());
      return run(words);
    };
    ASSERT_EQ(quantize("--dynamic"), 0) << host.err;
    EXPECT_THAT(host.out,
                ContainsRegex("\n    [^\n]*embedding[^\n]* and [0-9]+ more [^\n]*aten.embedding.default[^\n]*: "
                              "XNNPACKQuantizer quantizes only linear dynamically\n  size"));
    EXPECT_THAT(host.out, Not(HasSubstr("in float here")));  // tokens and packed weights are multiplied as integers
    ASSERT_EQ(quantize("--weights-only"), 0) << host.err;
    EXPECT_THAT(host.out, ContainsRegex("\n    embedding in [^\n]*: XNNPACKQuantizer has no pattern for"));
    EXPECT_THAT(host.out, HasSubstr("more: only its weight is quantized\n"));
  }
}

TEST_F(DecoderCli, GeneratePrintsTheIdsThatFollow) {
  std::string ids;
  for (const int64_t token : decoders().at("functional").tokens)
    ids += (ids.empty() ? "" : " ") + std::to_string(token);
  host.add("prompt.txt", "[5, 9, 33, 2]\n");
  for (const std::string model : {"functional.pt2", "in_place.pt2"})
    for (const std::string prompt : {"5,9,33,2", "prompt.txt"}) {
      ASSERT_EQ(run({"run", model, "--generate", "16", "--prompt", prompt}), 0) << host.err;
      EXPECT_EQ(host.out, ids + "\n");
      EXPECT_THAT(host.err, HasSubstr("prompt of 4 in"));
    }
  ASSERT_EQ(run({"run", "onnx_grouped.onnx", "--generate", "3", "--prompt", "5 9 33 2", "--json"}), 0) << host.err;
  const format::Json json = format::Json::parse(host.out);
  const std::vector<int64_t>& wanted = decoders().at("onnx_grouped").tokens;
  EXPECT_EQ(json["tokens"].get<std::vector<int64_t>>(), std::vector<int64_t>(wanted.begin(), wanted.begin() + 3));
  ASSERT_EQ(run({"run", "in_place.pt2", "--generate", "9", "--prompt", "5,9,33,2", "--stop",
                 std::to_string(decoders().at("in_place").tokens[0])}),
            0);
  EXPECT_EQ(host.out, std::to_string(decoders().at("in_place").tokens[0]) + "\n");
}

TEST_F(DecoderCli, GenerateRefusesWhatItCannotDo) {
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "in_place.pt2"});
    EXPECT_NE(run(words), 0);
    return host.err;
  };
  EXPECT_THAT(refusal({"--generate", "4"}), HasSubstr("--generate needs --prompt"));
  EXPECT_THAT(refusal({"--generate", "40", "--prompt", "1"}), HasSubstr("the decoder's cache of 24 places"));
  EXPECT_THAT(refusal({"--prompt", "1"}), HasSubstr("--generate"));
  EXPECT_THAT(refusal({"--generate", "4", "--prompt", "1", "-o", "y.npz"}), HasSubstr("--generate"));
  EXPECT_THAT(refusal({"-o", "y.npz"}), HasSubstr("give --inputs, or --generate and --prompt for a decoder"));
  host.add("words.txt", "Once upon a time");
  EXPECT_THAT(refusal({"--generate", "4", "--prompt", "words.txt"}), HasSubstr("something other than token ids"));
}

}  // namespace
}  // namespace qdq::decoder_test
