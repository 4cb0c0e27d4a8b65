// The language border: how what JavaScript holds and gives becomes C++, and back. Data crosses, not objects: programs,
// prepared programs and sessions are known to JavaScript by numbers; tensors cross as bytes, recipes and reports as
// JSON text. bindings/wasm/qdq.d.ts lists the functions of the modules: bindings/run.cpp, bindings/quantize.cpp and
// bindings/train.cpp.
#pragma once

#include <emscripten/val.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace qdq {

// What JavaScript holds by number. Its kind is the address of a variable that each type has for itself.
class Thing {
 public:
  explicit Thing(const char* kind) : kind(kind) {}
  virtual ~Thing() = default;
  const char* const kind;
};
template <class T> inline char kind_of = 0;
template <class T> class Kept final : public Thing {
 public:
  explicit Kept(T value) : Thing(&kind_of<T>), value(std::move(value)) {}
  T value;
};

int keep_thing(std::unique_ptr<Thing> thing);
Thing* find_thing(int handle);  // null if there is none
// Frees what a handle stands for. While C++ works, a callback may dispose of what is being worked on; that is put off
// until the work is done.
void dispose(int handle);

template <class T> int keep(T thing) { return keep_thing(std::make_unique<Kept<T>>(std::move(thing))); }

// Notes that the call that is under way works with a thing, until it ends. Throws Error{kInvalidArgument} if a call
// that waits for a callback works with it too, unless both only read it.
void use_thing(int handle, bool only_reads, const char* what);

// What the handle stands for; a const T is only read. Throws Error{kInvalidArgument} if it stands for nothing, or for
// something else, or if use_thing does; `what` it should be, with its article.
template <class T> T& held(int handle, const char* what) {
  using Held = std::remove_const_t<T>;
  Thing* thing = find_thing(handle);
  QDQ_CHECK(thing != nullptr && thing->kind == &kind_of<Held>, kInvalidArgument, "this is not ", what,
            ", or it has been disposed of");
  use_thing(handle, std::is_const_v<T>, what);
  return static_cast<Kept<Held>*>(thing)->value;
}

// Whether the handle stands for such a thing.
template <class T> bool holds(int handle) {
  const Thing* thing = find_thing(handle);
  return thing != nullptr && thing->kind == &kind_of<T>;
}

// Answers {value}, or {error: {code, message, node, op}}. What JavaScript code throws inside of a callback passes
// through untouched.
emscripten::val answer_of(emscripten::val (*call)(void*), void* body);
template <class Body> emscripten::val guard(Body&& body) {
  return answer_of([](void* it) { return emscripten::val((*static_cast<std::remove_reference_t<Body>*>(it))()); },
                   &body);
}

// Tensors as {dtype, shape, bytes}, those of strings as {dtype, shape, texts}, copied in and out. Throws
// Error{kInvalidArgument} if there is no such dtype or the bytes do not fit the shape.
Tensor tensor_from(const emscripten::val& raw);
emscripten::val tensor_to(const Tensor& tensor);
std::vector<Tensor> tensors_from(const emscripten::val& list);
emscripten::val tensors_to(const std::vector<Tensor>& tensors);

}  // namespace qdq
