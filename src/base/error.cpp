#include "base/error.h"

#include <cinttypes>
#include <cstdio>

namespace qdq {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "InvalidArgument";
    case ErrorCode::kBadFile: return "BadFile";
    case ErrorCode::kUnsupported: return "Unsupported";
    case ErrorCode::kNotCalibrated: return "NotCalibrated";
    case ErrorCode::kOutOfMemory: return "OutOfMemory";
    case ErrorCode::kCancelled: return "Cancelled";
    case ErrorCode::kIo: return "Io";
    case ErrorCode::kInternal: return "Internal";
  }
  return "Internal";
}

void MessagePart::append_to(std::string& out) const {
  char number[32];
  int size = 0;
  switch (kind_) {
    case Kind::kCString: out += c_string_; return;
    case Kind::kString: out += *string_; return;
    case Kind::kView: out.append(view_.data, view_.size); return;
    case Kind::kCharacter: out += character_; return;
    case Kind::kReal: size = std::snprintf(number, sizeof number, "%g", real_); break;
    case Kind::kSigned: size = std::snprintf(number, sizeof number, "%" PRId64, signed_); break;
    case Kind::kUnsigned: size = std::snprintf(number, sizeof number, "%" PRIu64, unsigned_); break;
  }
  out.append(number, static_cast<size_t>(size));
}

std::string concat(std::initializer_list<MessagePart> parts) {
  std::string out;
  for (const MessagePart& part : parts) part.append_to(out);
  return out;
}

void fail(ErrorCode code, std::initializer_list<MessagePart> parts) { throw Error(code, concat(parts)); }

}  // namespace qdq
