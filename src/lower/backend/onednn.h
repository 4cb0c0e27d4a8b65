// What the files on oneDNN share: one engine, one stream, and errors that are ours.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"

namespace qdq::onednn {

inline dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

inline dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

// Runs oneDNN calls; their errors become ours.
template <class Body> auto guarded(Body&& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    throw Error(error.status == dnnl_out_of_memory ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
                concat("oneDNN refused: ", error.what()));
  }
}

}  // namespace qdq::onednn
