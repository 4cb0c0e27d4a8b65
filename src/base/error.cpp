#include "base/error.h"

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

}  // namespace qdq
