// What the files on oneDNN share: one engine, one stream, and errors that are ours.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"

namespace qdq::onednn {

dnnl::engine& engine();

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

// The bytes of a core's share of the data cache of this level, from 1 to 3, where oneDNN finds `found`; 0 beyond. Some
// virtual machines hide the caches of their processor. oneDNN 3.7 then takes each for a byte: its blocks are tiny, and
// 1x1 convolutions of 512 to 1024 channels end the program by a division by zero. There the caches that one core has
// for itself are as large as the C library says (`told`; 0: it does not know), and others have the sizes that oneDNN
// takes for processors that it does not know.
unsigned cache_bytes(int level, unsigned found, long told);

}  // namespace qdq::onednn
