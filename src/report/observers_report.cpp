// Observers as JSON, and from there into another prepared program.
#include "report/observers_report.h"

#include <algorithm>
#include <map>

#include "format/json.h"
#include "report/graph_report.h"

namespace qdq {

using format::Json;
using format::json_as;
using format::json_object;

namespace {

Json settings_json(const Observer& observer) {
  const ObserverArgs& args = observer.args();
  Json out = json_object({{"dtype", to_string(args.dtype)},
                          {"qscheme", to_string(args.qscheme)},
                          {"quant_min", observer.quant_min()},
                          {"quant_max", observer.quant_max()},
                          {"reduce_range", args.reduce_range},
                          {"eps", args.eps},
                          {"is_dynamic", args.is_dynamic}});
  const std::string_view name = observer.class_name();
  if (is_per_channel(args.qscheme)) out["ch_axis"] = args.ch_axis;
  if (name.find("MovingAverage") != std::string_view::npos) out["averaging_constant"] = args.averaging_constant;
  if (args.group_size != 0) out["group_size"] = args.group_size;
  if (name == "HistogramObserver") out["bins"] = args.bins;
  return out;
}

void add_qparams(Json& out, const Observer& observer) {
  try {
    const QParams qparams = observer.calculate_qparams();
    out["scale"] = Json::array();
    for (const float scale : qparams.scale) out["scale"].push_back(format::json_of_number(scale));
    if (qparams.float_zero_point.empty()) {
      out["zero_point"] = qparams.zero_point;
    } else {
      out["zero_point"] = Json::array();
      for (const float zero_point : qparams.float_zero_point)
        out["zero_point"].push_back(format::json_of_number(zero_point));
    }
  } catch (const Error& error) {
    out["no_qparams"] = error.message;
  }
}

// What an observer is, without what it saw.
Json observer_identity(const ObserverGroup& group) {
  Json out = json_object({{"class", group.observer->class_name()},
                          {"settings", settings_json(*group.observer)},
                          {"covers", Json::array()}});
  for (const EdgeOrNode& place : group.covers) out["covers"].push_back(json_of(place));
  return out;
}

}  // namespace

Json observers_report(const Prepared& prepared) {
  const std::vector<ObserverGroup>& groups = prepared.observers();
  std::map<const Observer*, size_t> ids;
  for (size_t i = 0; i < groups.size(); ++i) ids[groups[i].observer.get()] = i;
  Json out = Json::array();
  for (size_t i = 0; i < groups.size(); ++i) {
    const ObserverGroup& group = groups[i];
    const Observer& observer = *group.observer;
    const Json identity = observer_identity(group);
    Json entry = json_object({{"id", i}, {"class", identity["class"]}, {"settings", identity["settings"]}});
    Json state = Json::object();
    for (const auto& [name, tensor] :
         {std::pair("min_val", observer.min_val()), std::pair("max_val", observer.max_val()),
          std::pair("histogram", observer.histogram())})
      if (tensor.defined()) state[name] = json_of(tensor);
    entry["state"] = std::move(state);
    add_qparams(entry, observer);
    entry["covers"] = identity["covers"];
    entry["inserted_as"] = group.inserted_as;
    entry["derived_from"] = Json::array();
    for (const auto& source : group.derived_from)
      if (const auto id = ids.find(source.get()); id != ids.end()) entry["derived_from"].push_back(id->second);
    out.push_back(std::move(entry));
  }
  return out;
}

void load_observers(Prepared& prepared, const Json& report, const std::string& what) {
  const std::vector<ObserverGroup>& groups = prepared.observers();
  QDQ_CHECK(report.is_array() && report.size() == groups.size(), kInvalidArgument, what,
            " is not the statistics of this model's ", groups.size(),
            " observers; wanted what --observers wrote for the same model and recipe");
  for (size_t i = 0; i < groups.size(); ++i) {
    const Json& entry = report[i];
    const Json wanted = observer_identity(groups[i]);
    for (const char* field : {"class", "settings", "covers"}) {
      const auto found = entry.is_object() ? entry.find(field) : entry.end();
      QDQ_CHECK(found != entry.end() && *found == wanted[field], kInvalidArgument, what, ", observer ", i, ": the ",
                field, " is ", found == entry.end() ? "missing" : found->dump(), ", the recipe needs ",
                wanted[field].dump(), "; statistics belong to one model and recipe");
    }
    const auto state = entry.find("state");
    const auto tensor = [&](const char* name) {
      if (state == entry.end() || !state->is_object() || !state->contains(name)) return Tensor();
      const Json& value = (*state)[name];
      const std::string where = concat(name, " of observer ", i, " in ", what);
      if (!value.is_array()) return Tensor::scalar(static_cast<float>(format::number_of_json(value, where)));
      const bool is_whole = std::all_of(value.begin(), value.end(), [](const Json& each) {
        return each.is_number_integer() && each.get<int64_t>() >= 0;
      });
      if (is_whole && !value.empty()) {
        const auto counts = json_as<std::vector<int64_t>>(value, where);
        return Tensor::of<int64_t>({std::ssize(counts)}, std::span<const int64_t>(counts));
      }
      std::vector<float> values;
      for (const Json& each : value) values.push_back(static_cast<float>(format::number_of_json(each, where)));
      return Tensor::of<float>({static_cast<int64_t>(values.size())}, std::span<const float>(values));
    };
    const ObserverState seen{tensor("min_val"), tensor("max_val"), tensor("histogram")};
    try {
      prepared.set_state(i, seen);
    } catch (const Error& error) {
      fail(ErrorCode::kInvalidArgument, what, ", observer ", i, " at ", entry["covers"].dump(), ": ", error.message);
    }
  }
}

}  // namespace qdq
