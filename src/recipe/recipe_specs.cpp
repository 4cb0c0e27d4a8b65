// Reading quantization specs and annotations.
#include "recipe/recipe_specs.h"

namespace qdq {

namespace {

using format::Fields;
using format::Json;
using format::json_as;

std::optional<int64_t> optional_integer(const Fields& fields, std::string_view key) {
  const Json* value = fields.find_value(key);
  return value ? std::optional<int64_t>(json_as<int64_t>(*value, fields.where(key))) : std::nullopt;
}

std::optional<QScheme> qscheme_of(const Fields& fields) {
  const Json* value = fields.find_value("qscheme");
  return value ? std::optional<QScheme>(qscheme_from_name(json_as<std::string>(*value, fields.where("qscheme"))))
               : std::nullopt;
}

ObserverCtr observer_of(const Fields& spec, const RecipeExtensions& extensions) {
  ObserverCtr out;
  const Fields fields = spec.object("observer");
  if (const Json* number = fields.find("custom")) {
    QDQ_CHECK(extensions.observer, kInvalidArgument, spec.where("observer"),
              " is a function, which only JavaScript can give");
    out.custom = [make = extensions.observer, n = json_as<int64_t>(*number, fields.where("custom"))](
                     const ObserverArgs& args) { return make(n, args); };
    fields.reject_unknown();
    return out;
  }
  out.class_name = fields.required<std::string>("class");
  QDQ_CHECK(!out.class_name.starts_with("FixedQParams"), kInvalidArgument, spec.where("observer"), " is ",
            out.class_name,
            ", which cannot work with a spec that has no scale; wanted \"spec\": \"fixed_qparams\" with scale and "
            "zero_point");
  if (fields.find("args")) {
    const Fields args = fields.object("args");
    out.eps = args.optional<double>("eps", out.eps);
    if (args.find("averaging_constant")) out.averaging_constant = args.required<double>("averaging_constant");
    out.bins = optional_integer(args, "bins");
    out.group_size = args.optional<int64_t>("group_size", 0);
    if (args.find("percentile")) {
      QDQ_CHECK(out.class_name == "PercentileObserver", kInvalidArgument, args.where("percentile"),
                " is for PercentileObserver only, but the observer is ", out.class_name);
      out.percentile = args.required<double>("percentile");
    }
    out.reduce_range = args.optional<bool>("reduce_range", false);
    out.use_grad_scaling = args.optional<bool>("use_grad_scaling", false);
    if (args.find("observer")) {
      const Fields inner = args.object("observer");
      out.inner_class = inner.required<std::string>("class");
      if (inner.find("args")) {
        const Fields inner_args = inner.object("args");
        out.eps = inner_args.optional<double>("eps", out.eps);
        if (inner_args.find("averaging_constant"))
          out.averaging_constant = inner_args.required<double>("averaging_constant");
        inner_args.reject_unknown();
      }
      inner.reject_unknown();
    }
    args.reject_unknown();
    const std::string unread(unread_argument(out));
    QDQ_CHECK(unread.empty(), kInvalidArgument, args.where(unread), " is given, and ", out.class_name,
              out.inner_class.empty() ? "" : " with " + out.inner_class,
              " does not read it; leave it out, or name a class that does");
  }
  fields.reject_unknown();
  return out;
}

void derive_by_function(const Fields& spec, DerivedQuantizationSpec& out, const RecipeExtensions& extensions) {
  QDQ_CHECK(extensions.derive, kInvalidArgument, spec.where("rule"), " is a function, which only JavaScript can give");
  const Fields fields = spec.object("rule");
  out.rule = "a function";
  out.derive_qparams = [derive = extensions.derive,
                        n = fields.required<int64_t>("custom")](const std::vector<std::shared_ptr<Observer>>& sources) {
    std::vector<QParams> qparams;
    for (const auto& source : sources) qparams.push_back(source->calculate_qparams_or_default());
    return derive(n, qparams);
  };
  fields.reject_unknown();
}

// Refuses an axis of channels of a spec without channels.
void check_ch_axis(const Fields& fields, std::optional<int64_t> ch_axis, std::optional<QScheme> qscheme,
                   bool is_per_channel_class) {
  const bool reads = qscheme ? is_per_channel(*qscheme) : is_per_channel_class;
  QDQ_CHECK(!ch_axis || reads, kInvalidArgument, fields.where("ch_axis"), " is given, and a spec ",
            qscheme ? concat("of the qscheme ", to_string(*qscheme)) : std::string("without a qscheme"),
            " does not read it; leave it out, or name a qscheme per channel");
}

bool is_per_channel_class(const ObserverCtr& ctr) {
  return ctr.custom || ctr.class_name.find("PerChannel") != std::string::npos ||
         ctr.class_name.find("PerGroup") != std::string::npos;
}

// Refuses one bound of the integers without the other.
void check_bounds(const Fields& fields) {
  const bool has_min = fields.find_value("quant_min"), has_max = fields.find_value("quant_max");
  QDQ_CHECK(has_min == has_max, kInvalidArgument, fields.where(has_min ? "quant_min" : "quant_max"),
            " bounds only one of quant_min and quant_max, which does nothing; give both, or none for all integers of "
            "the dtype");
}

}  // namespace

NamedEdgeOrNode edge_or_node_of(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  NamedEdgeOrNode out;
  if (fields.find("edge")) {
    const auto edge = fields.required<std::vector<std::string>>("edge");
    out = {edge[0], edge[1]};
  } else {
    out = {fields.required<std::string>("node"), ""};
  }
  fields.reject_unknown();
  return out;
}

DType dtype_of(const Fields& fields) {
  const auto name = fields.required<std::string>("dtype");
  const auto dtype = dtype_from_name(name);
  QDQ_CHECK(dtype, kInvalidArgument, fields.where("dtype"), " is '", name,
            "', which is not a data type; wanted int8, uint8, int16, int32, float16, ...");
  return *dtype;
}

NamedQSpec spec_of(const Json& json, const std::string& where, const RecipeExtensions& extensions) {
  if (json.is_null()) return {};
  const Fields fields(json, where);
  const auto kind = fields.required<std::string>("spec");
  NamedQSpec out;
  if (kind == "quantization") {
    QuantizationSpec spec;
    spec.dtype = dtype_of(fields);
    spec.observer = observer_of(fields, extensions);
    spec.quant_min = optional_integer(fields, "quant_min");
    spec.quant_max = optional_integer(fields, "quant_max");
    spec.qscheme = qscheme_of(fields);
    spec.ch_axis = optional_integer(fields, "ch_axis");
    check_ch_axis(fields, spec.ch_axis, spec.qscheme, is_per_channel_class(spec.observer));
    spec.is_dynamic = fields.optional<bool>("is_dynamic", false);
    out = std::move(spec);
  } else if (kind == "shared") {
    out = NamedSharedSpec{edge_or_node_of(fields.required<Json>("with"), fields.where("with"))};
  } else if (kind == "fixed_qparams") {
    FixedQParamsQuantizationSpec spec;
    spec.dtype = dtype_of(fields);
    spec.scale = fields.required<double>("scale");
    spec.zero_point = fields.required<int64_t>("zero_point");
    spec.quant_min = optional_integer(fields, "quant_min");
    spec.quant_max = optional_integer(fields, "quant_max");
    spec.qscheme = qscheme_of(fields);
    fields.find("is_dynamic");
    out = spec;
  } else {
    NamedDerivedSpec spec;
    for (const Json& from : fields.required<std::vector<Json>>("from"))
      spec.from.push_back(edge_or_node_of(from, fields.where("from")));
    if (fields.required<Json>("rule").is_object()) derive_by_function(fields, spec.spec, extensions);
    else spec.spec.rule = fields.required<std::string>("rule");
    spec.spec.dtype = dtype_of(fields);
    spec.spec.quant_min = optional_integer(fields, "quant_min");
    spec.spec.quant_max = optional_integer(fields, "quant_max");
    spec.spec.qscheme = qscheme_of(fields);
    spec.spec.ch_axis = optional_integer(fields, "ch_axis");
    check_ch_axis(fields, spec.spec.ch_axis, spec.spec.qscheme, false);
    out = std::move(spec);
  }
  fields.reject_unknown();
  const auto* named = std::get_if<QuantizationSpec>(&out);
  if (named == nullptr || !named->observer.custom) check_bounds(fields);
  return out;
}

std::vector<NamedAnnotation> annotations_of(const Json& list, const std::string& what,
                                            const RecipeExtensions& extensions) {
  std::vector<NamedAnnotation> out;
  for (const Json& entry : list) {
    const Fields fields(entry, concat("entry ", out.size(), " of ", what));
    NamedAnnotation annotation;
    annotation.node = fields.required<std::string>("node");
    const std::string where = "the annotation of " + annotation.node;
    if (const Json* inputs = fields.find_value("inputs")) {
      for (const Json& input : *inputs) {
        const auto producer = input[0].get<std::string>();
        annotation.inputs.emplace_back(
            producer, spec_of(input[1], concat("the spec of (", producer, ", ", annotation.node, ")"), extensions));
      }
    }
    if (const Json* output = fields.find("output"))
      annotation.output = spec_of(*output, "the output spec of " + annotation.node, extensions);
    annotation.allow_implicit_sharing = fields.optional<bool>("allow_implicit_sharing", true);
    annotation.annotated = fields.optional<bool>("annotated", true);
    annotation.reason = fields.optional<std::string>("reason", "");
    fields.reject_unknown();
    out.push_back(std::move(annotation));
  }
  return out;
}

}  // namespace qdq
