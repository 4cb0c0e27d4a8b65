// What opens a program and runs it: all of the module `qdq-run`, and a part of `qdq`.
#include <emscripten/bind.h>

#include <map>
#include <new>

#include "base/memory.h"
#include "base/readable.h"
#include "base/parallel.h"
#include "border.h"
#include "report/graph_report.h"
#include "format/json.h"
#include "io/pt2.h"
#include "lower/decoder.h"
#include "lower/lower.h"
#include "op/custom.h"
#include "source.h"
#include "tensor/strings.h"

namespace qdq {

using emscripten::val;

namespace {

std::map<int, std::unique_ptr<Thing>>& things() {
  static std::map<int, std::unique_ptr<Thing>> things;
  return things;
}

// That C++ works; what is disposed of meanwhile waits. A call from a callback is inside of another.
class Busy {
 public:
  Busy() : outer_(uses_of_outer_) {
    ++depth_;
    uses_of_outer_ = uses().size();
  }
  ~Busy() {
    uses().resize(uses_of_outer_);
    uses_of_outer_ = outer_;
    if (--depth_ > 0) return;
    for (const int handle : put_off()) things().erase(handle);
    put_off().clear();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  static void dispose(int handle) {
    if (depth_ > 0) put_off().push_back(handle);
    else things().erase(handle);
  }

  static void use(int handle, bool only_reads, const char* what) {
    for (size_t i = 0; i < uses_of_outer_; ++i)
      QDQ_CHECK(uses()[i].handle != handle || (uses()[i].only_reads && only_reads), kInvalidArgument,
                "a callback cannot use ", what, " that the work uses which has called it; wait until that has ended");
    uses().push_back({handle, only_reads});
  }

 private:
  struct Use {
    int handle;
    bool only_reads;
  };
  static std::vector<Use>& uses() {
    static std::vector<Use> uses;
    return uses;
  }
  const size_t outer_;
  static inline size_t uses_of_outer_ = 0;  // the first of uses(), of the calls that wait for this one
  static std::vector<int>& put_off() {
    static std::vector<int> handles;
    return handles;
  }
  static inline int depth_ = 0;
};

val error_value(std::string_view code, const std::string& message, const std::string& node = "",
                const std::string& op = "") {
  val error = val::object();
  error.set("code", std::string(code));
  error.set("message", message);
  error.set("node", node);
  error.set("op", op);
  val answer = val::object();
  answer.set("error", error);
  return answer;
}

}  // namespace

int keep_thing(std::unique_ptr<Thing> thing) {
  static int last = 0;
  things().emplace(++last, std::move(thing));
  return last;
}

Thing* find_thing(int handle) {
  const auto found = things().find(handle);
  return found == things().end() ? nullptr : found->second.get();
}

void dispose(int handle) { Busy::dispose(handle); }
void use_thing(int handle, bool only_reads, const char* what) { Busy::use(handle, only_reads, what); }

val answer_of(val (*call)(void*), void* body) {
  const Busy busy;
  try {
    val answer = val::object();
    answer.set("value", call(body));
    return answer;
  } catch (const Error& error) {
    const auto shown = [](const std::string& text) { return readable(text, kLongestMessage); };
    return error_value(to_string(error.code), shown(error.message), shown(error.node), shown(error.op));
  } catch (const std::bad_alloc&) {
    return error_value("OutOfMemory",
                       concat("this does not fit into ", memory_in_words(), ", or dispose of what is not needed"));
  } catch (const std::exception& error) {
    return error_value("Internal", concat("internal error: ", error.what(), "; please report it"));
  }
}

namespace {

DType dtype_of(const val& raw) {
  const auto name = raw["dtype"].as<std::string>();
  if (name == to_string(DType::kString)) return DType::kString;
  const auto dtype = dtype_from_name(name);
  QDQ_CHECK(dtype.has_value(), kInvalidArgument, "there is no dtype ", name);
  return *dtype;
}

}  // namespace

Tensor tensor_from(const val& raw) {
  const DType dtype = dtype_of(raw);
  Shape shape;
  for (const double size : emscripten::vecFromJSArray<double>(raw["shape"]))
    shape.push_back(static_cast<int64_t>(size));
  if (dtype == DType::kString) return string_tensor(shape, emscripten::vecFromJSArray<std::string>(raw["texts"]));
  const Tensor tensor = Tensor::empty(shape, dtype);
  const val bytes = raw["bytes"];
  const auto length = static_cast<uint64_t>(bytes["length"].as<double>());
  QDQ_CHECK(length == tensor.nbytes(), kInvalidArgument, "a tensor of shape ", to_string(shape), " needs ",
            tensor.nbytes(), " bytes, found ", length);
  val(emscripten::typed_memory_view(tensor.nbytes(), reinterpret_cast<uint8_t*>(tensor.raw())))
      .call<void>("set", bytes);
  return tensor;
}

val tensor_to(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous();
  val shape = val::array();
  for (const int64_t size : flat.sizes()) shape.call<void>("push", static_cast<double>(size));
  val raw = val::object();
  raw.set("dtype", std::string(to_string(flat.dtype())));
  raw.set("shape", shape);
  if (flat.dtype() == DType::kString) {
    val texts = val::array();
    for (const std::string_view text : texts_of(flat)) texts.call<void>("push", std::string(text));
    raw.set("texts", texts);
  } else {
    raw.set("bytes", bytes_to({flat.raw(), flat.nbytes()}));
  }
  return raw;
}

std::vector<Tensor> tensors_from(const val& list) {
  std::vector<Tensor> tensors;
  for (const val& raw : emscripten::vecFromJSArray<val>(list)) tensors.push_back(tensor_from(raw));
  return tensors;
}

val tensors_to(const std::vector<Tensor>& tensors) {
  val list = val::array();
  for (const Tensor& tensor : tensors) list.call<void>("push", tensor_to(tensor));
  return list;
}

namespace {

val load(const val& file) {
  return guard([&] { return keep(load_pt2(source_from(file))); });
}

val hold_file() {
  return guard([&] { return keep(std::make_shared<format::HeldSource>()); });
}

val append_to_file(int file, const val& bytes) {
  return guard([&] {
    held<HeldFile>(file, "a file")->append(bytes_from(bytes));
    return val::null();
  });
}

val describe_program(int program) {
  return guard([&] { return format::print_json(program_report(held<const Program>(program, "a program"))); });
}

LowerOptions lower_options(const std::string& backend, bool bf16, bool fuse) {
  LowerOptions options;
  options.backends = {backend};
  options.bf16 = bf16;
  options.fuse = fuse;
  return options;
}

val lower_program(int program, const std::string& backend, bool bf16, bool fuse) {
  return guard(
      [&] { return keep(lower(held<const Program>(program, "a program"), lower_options(backend, bf16, fuse))); });
}

val reset_session(int session) {
  return guard([&] {
    held<Session>(session, "a session").reset();
    return val::null();
  });
}

val lower_decoder(int program, const std::string& backend, bool bf16, bool fuse) {
  return guard(
      [&] { return keep(Decoder(held<const Program>(program, "a program"), lower_options(backend, bf16, fuse))); });
}

// 0: not known.
val capacity_of_decoder(int decoder) {
  return guard([&] { return static_cast<double>(held<const Decoder>(decoder, "a decoder").capacity().value_or(0)); });
}

val start_decoder(int decoder, const val& prompt, double most, double temperature, double top_k, double seed) {
  return guard([&] {
    std::vector<int64_t> ids;
    for (const double id : emscripten::vecFromJSArray<double>(prompt)) ids.push_back(static_cast<int64_t>(id));
    held<Decoder>(decoder, "a decoder")
        .start(ids, static_cast<int64_t>(most),
               {temperature, static_cast<int64_t>(top_k), static_cast<uint64_t>(seed)});
    return val::null();
  });
}

val next_token(int decoder) {
  return guard([&] { return static_cast<double>(held<Decoder>(decoder, "a decoder").next()); });
}

val run_session(int session, const val& inputs) {
  return guard([&] { return tensors_to(held<Session>(session, "a session").run(tensors_from(inputs))); });
}

// Arguments of an operator as JavaScript gets them. `tensor` makes a tensor, or what is known of one.
template <class T> val value_to(const BasicValue<T>& value, val (*tensor)(const T&)) {
  return std::visit(
      [&](const auto& held) -> val {
        using U = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<U, T>) {
          return tensor(held);
        } else if constexpr (std::is_same_v<U, typename BasicValue<T>::List>) {
          val list = val::array();
          for (const BasicValue<T>& element : held) list.call<void>("push", value_to<T>(element, tensor));
          return list;
        } else if constexpr (std::is_same_v<U, int64_t>) {
          return val(static_cast<double>(held));
        } else if constexpr (std::is_same_v<U, bool> || std::is_same_v<U, double> || std::is_same_v<U, std::string>) {
          return val(held);
        } else if constexpr (std::is_same_v<U, DType>) {
          return val(std::string(to_string(held)));
        } else {
          return val::null();
        }
      },
      value.variant());
}

template <class T> val arguments_to(const Call<T>& call, val (*tensor)(const T&)) {
  val list = val::array();
  for (size_t i = 0; i < call.size(); ++i) list.call<void>("push", value_to<T>(call[i], tensor));
  return list;
}

// Sizes that are not known are text, which SymInt::parse reads again.
val signature_to(const TensorMeta& meta) {
  val shape = val::array();
  for (const SymInt& size : meta.sizes) {
    if (const auto known = size.constant()) shape.call<void>("push", static_cast<double>(*known));
    else shape.call<void>("push", size.to_srepr());
  }
  val raw = val::object();
  raw.set("dtype", std::string(to_string(meta.dtype)));
  raw.set("shape", shape);
  return raw;
}

MetaValue signature_from(const val& raw) {
  TensorMeta meta;
  meta.dtype = dtype_of(raw);
  for (const val& size : emscripten::vecFromJSArray<val>(raw["shape"])) {
    if (size.isNumber()) meta.sizes.emplace_back(static_cast<int64_t>(size.as<double>()));
    else meta.sizes.push_back(SymInt::parse(size.as<std::string>()));
  }
  return meta;
}

// One result, or a list of several.
template <class T> BasicValue<T> results_of(const OpDef& op, typename BasicValue<T>::List results) {
  QDQ_CHECK(!results.empty(), kInvalidArgument, op.target, " gave no result");
  if (op.schema->num_returns == 1 && !op.schema->returns_list) return results[0];
  return results;
}

val register_custom(const std::string& schema, const val& callbacks) {
  return guard([&] {
    register_operator({schema,
                       [callbacks](const Call<TensorMeta>& call) {
                         MetaValue::List results;
                         const val raw = callbacks.call<val>("infer", arguments_to<TensorMeta>(call, signature_to));
                         for (const val& one : emscripten::vecFromJSArray<val>(raw))
                           results.push_back(signature_from(one));
                         return results_of<TensorMeta>(call.op(), std::move(results));
                       },
                       [callbacks](const Call<Tensor>& call) {
                         Value::List results;
                         const val raw = callbacks.call<val>("evaluate", arguments_to<Tensor>(call, tensor_to));
                         for (Tensor& one : tensors_from(raw)) results.emplace_back(std::move(one));
                         return results_of<Tensor>(call.op(), std::move(results));
                       }});
    return val::null();
  });
}

val set_threads(int count) {
  return guard([&] {
    set_num_threads(count);
    return val::null();
  });
}

val set_max_memory(double bytes) {
  return guard([&] {
    set_memory_limit(MemoryLimit(static_cast<uint64_t>(bytes), "that configure({ maxMemory }) allows"));
    return val::null();
  });
}

val capabilities() {
  return guard([&] {
    val answer = val::object();
    answer.set("integerProducts", std::string(integer_products()));
    answer.set("threads", num_threads());
    return answer;
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(qdq_run) {
  emscripten::function("loadPt2", &load);
  emscripten::function("holdFile", &hold_file);
  emscripten::function("appendToFile", &append_to_file);
  emscripten::function("describeProgram", &describe_program);
  emscripten::function("lower", &lower_program);
  emscripten::function("runSession", &run_session);
  emscripten::function("resetSession", &reset_session);
  emscripten::function("lowerDecoder", &lower_decoder);
  emscripten::function("capacityOfDecoder", &capacity_of_decoder);
  emscripten::function("startDecoder", &start_decoder);
  emscripten::function("nextToken", &next_token);
  emscripten::function("dispose", &dispose);
  emscripten::function("registerOperator", &register_custom);
  emscripten::function("setThreads", &set_threads);
  emscripten::function("setMaxMemory", &set_max_memory);
  emscripten::function("capabilities", &capabilities);
}

}  // namespace qdq
