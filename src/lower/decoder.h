// The loop that generates: a decoder's tokens one after the other, its state kept between runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lower/lower.h"

namespace qdq {

// How a token is chosen by the logits of the last place.
struct Sampling {
  // 0: the token with the largest logit, of equal ones the first. Else one of softmax(logits / temperature) by chance.
  double temperature = 0;
  int64_t top_k = 0;  // only among the `top_k` largest logits; 0: among all
  uint64_t seed = 0;  // equal seeds give equal tokens in every build
};

// A program that takes token ids and gives logits. What it takes is known by name and dtype:
//   token ids            integers [1, T] or [T]: the input called "input_ids", "tokens" or "ids", or the first one
//   places               integers [T], [1, T] or, of the first token alone, [1]: "position" or "pos" in the name
//   a mask               integers or bools [1, places so far and new ones], all 1: "mask" in the name
//   past keys and values floats of four axes: "past" in the name, and each has an output with "present" in the place
//                        of "past", "past_key_values" or "past_key_value"; empty at first, then taken over by name.
//                        Where outputs have no names, as in .pt2 files, those of four axes are taken in their order
//   use_cache_branch     a bool: whether there is a past
// A cache in buffers that the program writes to is state of its session. T is open, or 1: then a prompt goes in token
// by token. The logits are the output "logits" or the first of floats but a "present": [1, T, V], [T, V] or [V].
class Decoder {
 public:
  // Throws Error{kUnsupported} naming the input or output that it cannot serve, and what lower() throws.
  explicit Decoder(const Program& program, const LowerOptions& options = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // How many tokens the cache holds, where it is in buffers: the smallest size along which they are written. Nothing
  // where it grows, or where that is not known.
  std::optional<int64_t> capacity() const;

  // Forgets what came before and reads a prompt, of which `most` tokens are to follow. Throws Error{kInvalidArgument}
  // for an empty prompt, ids that are no tokens, a sampling that makes no sense, and more tokens than the cache holds:
  // all but the last are kept.
  void start(std::span<const int64_t> prompt, int64_t most, const Sampling& sampling = {});
  // The next token. Throws Error{kInvalidArgument} before start(), after `most` tokens, and for logits that are NaN.
  int64_t next();

  const Session& session() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qdq
