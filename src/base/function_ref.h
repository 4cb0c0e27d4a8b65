// A reference to a function, for a callee that calls it before it returns.
#pragma once

#include <type_traits>
#include <utility>

namespace qdq {

// std::function without memory of its own: each of hundreds of callers would have code that makes, copies and frees it.
template <class Signature> class FunctionRef;
template <class Result, class... Arguments> class FunctionRef<Result(Arguments...)> {
 public:
  template <class Function>
    requires(!std::is_same_v<Function, FunctionRef>)
  FunctionRef(const Function& function)  // Implicit: callers pass a lambda
      : function_(&function), call_([](const void* called, Arguments... arguments) -> Result {
          return (*static_cast<const Function*>(called))(std::forward<Arguments>(arguments)...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(function_, std::forward<Arguments>(arguments)...); }

 private:
  const void* function_;
  Result (*call_)(const void*, Arguments...);
};

}  // namespace qdq
