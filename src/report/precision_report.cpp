#include "report/precision_report.h"

#include "format/bytes.h"
#include "format/json.h"
#include "format/sha256.h"

namespace qdq {

using format::Fields;
using format::Json;

namespace {

constexpr const char* kFormat = "qdq precision search 1";

Json list_of(const std::vector<PrecisionTrial>& trials, double sign) {
  Json out = Json::array();
  for (const PrecisionTrial& trial : trials) out.push_back(precision_trial_report(trial, sign));
  return out;
}

Json json_of(const Sensitivity& each) {
  return format::json_object({{"node", each.node},
                              {"module", each.module},
                              {"op", each.op},
                              {"own", each.own},
                              {"alone", each.alone},
                              {"without", each.without}});
}

Sensitivity sensitivity_of(const Json& json, const std::string& what) {
  const Fields fields(json, what);
  Sensitivity out{fields.required<std::string>("node"), fields.required<std::string>("module"),
                  fields.required<std::string>("op"),   fields.required<double>("own"),
                  fields.required<double>("alone"),     fields.required<double>("without")};
  fields.reject_unknown();
  return out;
}

PrecisionTrial trial_of(const Json& json, const std::string& what) {
  const Fields fields(json, what);
  PrecisionTrial out;
  out.precision = precision_from_name(fields.required<std::string>("precision"));
  out.operators = fields.required<int64_t>("operators");
  out.others = precision_from_name(fields.optional<std::string>("others", "int8"));
  out.score = format::number_of_json(fields.required<Json>("score"), fields.where("score"));
  if (fields.find("bytes") != nullptr) {
    const auto bytes = fields.required<int64_t>("bytes");
    QDQ_CHECK(bytes >= 0, kInvalidArgument, fields.where("bytes"), " is ", bytes, "; wanted a number of bytes");
    out.bytes = static_cast<uint64_t>(bytes);
  }
  if (fields.find("seconds") != nullptr) out.seconds = fields.required<double>("seconds");
  fields.optional<bool>("front", false);
  fields.reject_unknown();
  return out;
}

}  // namespace

Json precision_trial_report(const PrecisionTrial& trial, double sign) {
  Json out = format::json_object({{"precision", to_string(trial.precision)},
                                  {"operators", trial.operators},
                                  {"score", format::json_of_number(sign * trial.score)}});
  if (trial.others != Precision::kInt8) out["others"] = to_string(trial.others);
  if (trial.bytes) out["bytes"] = *trial.bytes;
  if (trial.seconds) out["seconds"] = *trial.seconds;
  if (trial.is_on_front) out["front"] = true;
  return out;
}

Json precision_report(const PrecisionResult& result, double sign) {
  Json operators = Json::array();
  for (size_t i = 0; i < result.nodes.size(); ++i)
    operators.push_back(format::json_object({{"node", result.nodes[i]}, {"module", result.modules[i]}}));
  return format::json_object({{"reached", result.reached},
                              {"precision", to_string(result.after.precision)},
                              {"before", format::json_of_number(sign * result.before.score)},
                              {"after", format::json_of_number(sign * result.after.score)},
                              {"best", precision_trial_report(result.best, sign)},
                              {"operators", std::move(operators)},
                              {"trials", list_of(result.trials, sign)}});
}

std::string print_search(const PrecisionSearch& search, const std::string& identity) {
  Json operators = Json::array();
  for (const Sensitivity& each : search.sensitivities) operators.push_back(json_of(each));
  return format::print_json(format::json_object({{"format", kFormat},
                                                 {"identity", identity},
                                                 {"sensitivities", std::move(operators)},
                                                 {"trials", list_of(search.trials, 1)}}),
                            1) +
         "\n";
}

PrecisionSearch parse_search(const std::string& text, const std::string& identity, const std::string& path) {
  const Json json = format::parse_json(text, path);
  const Fields fields(json, path);
  QDQ_CHECK(fields.optional<std::string>("format", "") == kFormat, kInvalidArgument, path,
            " is not a file that --search wrote; give one that it wrote, or a new name");
  QDQ_CHECK(
      fields.required<std::string>("identity") == identity, kInvalidArgument, path,
      " is the search of another program: model, recipe, samples, remedies and target must be those that it began "
      "with; give a new name");
  PrecisionSearch out;
  for (const Json& each : fields.required<std::vector<Json>>("sensitivities"))
    out.sensitivities.push_back(sensitivity_of(each, concat("a sensitivity of ", path)));
  for (const Json& each : fields.required<std::vector<Json>>("trials"))
    out.trials.push_back(trial_of(each, concat("a trial of ", path)));
  fields.reject_unknown();
  return out;
}

std::string identity_of_search(Recovery& recovery, const std::string& measures) {
  format::Sha256 hash;
  const auto add = [&](const Tensor& tensor) {
    const Tensor whole = tensor.contiguous();
    hash.add({static_cast<const std::byte*>(whole.raw()), static_cast<size_t>(whole.nbytes())});
  };
  const Program converted = convert_pt2e(recovery.prepared());
  hash.add(format::bytes_of(to_text(*converted.graph)));
  for (const Attribute& attribute : converted.attributes) add(attribute.tensor);
  for (const std::vector<Tensor>& outputs : recovery.outputs())
    for (const Tensor& output : outputs) add(output);
  hash.add(format::bytes_of(measures));
  return hash.finish();
}

}  // namespace qdq
