// The engine of quantizers: tables of patterns, from which come the annotations, the reasons that explain() gives, and
// what quantization_capabilities() tells. docs/quantizers.md shows a quantizer made of one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/quantizers/positions.h"
#include "quant/quantizers/quantization_config.h"

namespace qdq {

// The operators of a pattern, first to last, each of which reads the one in front of it.
using PatternChain = std::vector<Node*>;

// Operators are named by words with blanks between: "aten.conv2d.default aten.relu". A word without an overload stands
// for all overloads, and for the in-place forms too.
std::vector<std::string_view> words_of(std::string_view operators);
bool stands_for(std::string_view word, std::string_view name);  // ("aten.relu", "aten.relu_.default")
bool is_one_of(const Node& node, std::string_view operators);

// What becomes of those tensors that an operator reads from outside of its pattern.
enum class Inputs : uint8_t {
  // By their roles: activations, weight and bias by the specs of the config. Those of a list share that of the first if
  // the output does, too. The weights of normalisations stay float.
  kQuantized,
  kLikeProducer,  // as kQuantized, but in the terms of their producer where its output is quantized
  kHandedOn,      // in the terms of their producer, whose output must be quantized
  // As kLikeProducer, where the output of one of the producers at least is quantized, and no operand is a number.
  kBehindQuantized,
  // The same where the outputs of all producers are quantized; constants count as such.
  kAllBehindQuantized,
  kBehindContinued,  // as kQuantized, where all of them are outputs of patterns that are continued
  kFloat,            // nothing: they stay float
  kFolded,           // nothing; between two others it is a batch norm, of which conversion leaves nothing
};

// Who else may read the value that an operator takes from the one in front of it.
enum class Readers : uint8_t { kNobody, kNobodyUnsaid, kAnybody };  // unsaid: no reason is given for a refusal

struct PatternPlace {
  std::string_view operators = {};
  Inputs inputs = Inputs::kQuantized;
  Readers others = Readers::kNobody;
  bool may_be_missing = false;  // of the last place: the pattern is tried without it as well
};

// How the output of the last operator is annotated.
enum class Output : uint8_t {
  kQuantized,  // by the config's spec for outputs
  kLikeInput,  // shared with the first input
  kFloat,      // not at all: who reads it quantizes it, or nobody does
  kContinued,  // not at all, but marked so that patterns with Inputs::kBehindContinued may follow
  kQuantizedAndContinued,
  kLikeInputAndContinued,
};

// When a pattern is used: bits of what a config asks for.
inline constexpr uint8_t kStatic = 1, kDynamic = 2, kQat = 4, kDynamicQat = 8;
inline constexpr uint8_t kAnyMode = kStatic | kDynamic | kQat | kDynamicQat;

class PatternAnnotator;

// An obstacle of a PatternRow: why the operator does not average over the height and width of images and keep them as
// 1 x 1; "" if it does.
std::string why_not_global_pool(const Node& last);

struct PatternRow {
  std::string_view name;
  std::array<PatternPlace, 4> places;  // the first one that names no operators ends the pattern
  Output output = Output::kQuantized;
  std::optional<FixedQParamsQuantizationSpec> fixed_output = std::nullopt;  // if given, the output's in place of that
  uint8_t modes = kStatic | kQat;
  std::string_view note = {};  // a condition in words, for quantization_capabilities()
  bool says_note = false;      // which stands in reasons too
  // Operands must be float32, and single numbers not so large that PyTorch's histc fails on them.
  bool only_float32 = false;
  // Why the pattern is not applied to a call of its last operator; empty: it is.
  std::string (*obstacle)(const Node& last) = nullptr;
  // Settings and annotations of the first operator decide about all of them, and reasons name the second alone.
  bool first_decides = false;
  // The annotation adds to one that another quantizer wrote without claiming the node, as PyTorch's _annotate_linear
  // does, which looks at the linear alone.
  bool adds = false;
  // In the place of the engine, for what is no chain of operators. The places then only say what it is about.
  void (*annotate)(PatternAnnotator& annotator, const PatternRow& row) = nullptr;
};

// How patterns are matched. The defaults are qdq's own way; torch26.h has those of PyTorch 2.6.
struct MatchingRules {
  // Chains for the first `length` places of a row, where they are not found by operators; `passes` says what a setting
  // reaches. Returns nothing for rows that are. Null: all are.
  std::optional<std::vector<PatternChain>> (*find)(const Graph& graph, const PatternRow& row, size_t length,
                                                   const NodeFilter& passes) = nullptr;
  bool parameters_are_members = false;  // weights and biases are taken with a pattern, by one pattern alone
  bool fuses_what_others_read = false;  // activations are computed along with what others read too
  bool refuses_numbers = false;         // an addition of a number behind a quantized operator is an error
  bool asks_for_readers_first = false;  // who reads a value is asked before whether a setting reaches the pattern
  bool takes_positions = false;         // positions, sizes and masks are quantized as features are
  bool takes_computed_weights =
      false;  // weights that inputs decide get a range of samples, though activations get none
  void (*check_recurrent)(const SourcePartition& call) = nullptr;  // throws for a call that is refused
};

// A quantizer as data.
struct PatternPolicy {
  std::string_view quantizer;
  std::span<const PatternRow> rows;  // in the order in which they are tried
  MatchingRules rules = {};
  bool claims_parameters = true;  // weights and biases that are computed are not quantized as activations
  bool claims_folded = true;      // other quantizers leave folded batch norms alone
  bool members_count = true;      // operators of a pattern count as quantized even if none of their tensors is observed
};

// What the policy is applied to: a config, where it holds, and what reasons call it.
struct PatternSetting {
  const std::optional<QuantizationConfig>* config;  // nothing in it: what the setting reaches stays float
  std::string words;                                // "the global setting"
  bool is_dynamic = false;
  NodeFilter reaches = {};                                         // operators one by one
  std::function<bool(const PatternChain&)> reaches_together = {};  // and those of a pattern
};

// Annotates a program under one setting.
class PatternAnnotator {
 public:
  // Annotations with an id up to `began` are those of other quantizers.
  PatternAnnotator(const PatternPolicy& policy, PatternSetting setting, Program& program, Annotations& annotations,
                   uint64_t began)
      : policy_(policy), setting_(std::move(setting)), program_(program), annotations_(annotations), began_(began),
        positions_(*program.graph, divides()) {}

  // All rows in their order, as far as the setting's mode has them.
  void run();
  void annotate(const PatternRow& row);

  // For rows that annotate by themselves.
  const Graph& graph() const { return *program_.graph; }
  Annotations& annotations() { return annotations_; }
  const QuantizationConfig* config() const { return *setting_.config ? &**setting_.config : nullptr; }
  const PatternSetting& setting() const { return setting_; }
  const MatchingRules& rules() const { return policy_.rules; }
  bool reaches(const Node& node) const { return !setting_.reaches || setting_.reaches(node); }
  // Whether the pattern does not apply to these operators because the setting does not reach them, or they are taken.
  // Says why, except of what the setting does not reach, or what this quantizer itself has taken.
  bool skip(const PatternRow& row, const PatternChain& members);
  // A new annotation of the node, with the reason for it.
  QuantizationAnnotation& write(Node* node, const PatternRow& row, std::string reason);
  void refuse(const Node* node, const PatternRow& row, std::string reason);
  // Claims the operators, so that later settings leave them alone.
  void leave_float(const PatternChain& chain);
  // Inputs::kHandedOn, for an operator that nobody has taken: false, with the reason, if its producer's output is not
  // quantized.
  bool hand_on(Node* node, const PatternRow& row);

 private:
  // Whether a row takes divisions.
  bool divides() const;
  std::vector<PatternChain> chains(const PatternRow& row, size_t length) const;
  void take(const PatternRow& row, const PatternChain& chain);
  bool is_behind_quantized(const PatternRow& row, Node* first);
  bool is_behind_continued(const PatternRow& row, const Node* first);
  bool is_read_by_others(const PatternRow& row, const PatternChain& chain, size_t place);
  bool has_operands(const PatternPlace& place, const Node& node, const Node* in_front) const;
  bool parameters_are_taken(const PatternRow& row, const PatternChain& members);
  bool set_inputs(const PatternRow& row, const PatternPlace& place, Node* node, const Node* in_front,
                  QuantizationAnnotation& to);
  bool is_observable(const PatternRow& row, const Node* node, const Node* operand);
  bool has_channels(const PatternRow& row, const Node* node, const Node* weight);
  bool has_known_range(const PatternRow& row, const Node* node, const Node* weight);
  bool has_observable_output(const PatternRow& row, const Node* last);
  QSpec spec_of_output(const PatternRow& row, Node* last) const;
  std::string asked(const PatternRow& row, const PatternChain& chain) const;

  const PatternPolicy& policy_;
  PatternSetting setting_;
  Program& program_;
  Annotations& annotations_;
  uint64_t began_;
  const Positions positions_;
};

// Notes why nothing has looked at them, for all operators about which no decision was made since `mark`.
void note_rest(std::string_view quantizer, const Program& program, Annotations& annotations, size_t mark,
               const std::function<std::string(const Node&)>& reason);

QuantizationCapabilities capabilities_of(std::string_view quantizer, std::span<const PatternRow> rows);

}  // namespace qdq
