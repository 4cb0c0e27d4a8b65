// The HTML around a report's data: the files of src/cli/report/, which the build puts into one text.
#pragma once

#include <string_view>

namespace qdq {

std::string_view report_template();

}  // namespace qdq
