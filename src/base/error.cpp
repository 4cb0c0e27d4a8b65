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

namespace {

void append(std::string& out, PartKind kind, const MessagePart& part) {
  char number[32];
  int size = 0;
  switch (kind) {
    case PartKind::kEnd: return;
    case PartKind::kCString: out += part.c_string; return;
    case PartKind::kString: out += *part.string; return;
    case PartKind::kView: out += *part.view; return;
    case PartKind::kCharacter: out += part.character; return;
    case PartKind::kReal: size = std::snprintf(number, sizeof number, "%g", part.real); break;
    case PartKind::kInteger: size = std::snprintf(number, sizeof number, "%" PRId64, part.integer); break;
    case PartKind::kNatural: size = std::snprintf(number, sizeof number, "%" PRIu64, part.natural); break;
  }
  out.append(number, static_cast<size_t>(size));
}

}  // namespace

std::string concat_parts(const PartKind* kinds, const MessagePart* parts) {
  std::string out;
  for (; *kinds != PartKind::kEnd; ++kinds, ++parts) append(out, *kinds, *parts);
  return out;
}

void fail_with(ErrorCode code, const PartKind* kinds, const MessagePart* parts) {
  throw Error(code, concat_parts(kinds, parts));
}

}  // namespace qdq
