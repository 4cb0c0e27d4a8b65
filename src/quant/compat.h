// Whose rules a quantizer and the passes around it follow.
#pragma once

namespace qdq {

// Whose matching rules hold: qdq's own, which do what the user meant, or those of PyTorch 2.6 to the node
// (docs/compatibility.md).
enum class Compat { kNone, kTorch26 };

}  // namespace qdq
