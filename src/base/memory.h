// How much memory there is, where that is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace qdq {

// The bytes that can still be allocated: what 32-bit addresses (WebAssembly) leave. Nothing where no limit is known.
std::optional<uint64_t> available_memory();

// Throws Error{kOutOfMemory} if that many bytes are not to be had. `what` is what needs them: "a run of the program". For large pieces of
// work before they begin; whatever is refused later is refused by the allocation itself.
void check_memory(uint64_t bytes, std::string_view what, std::optional<uint64_t> available = available_memory());

}  // namespace qdq
