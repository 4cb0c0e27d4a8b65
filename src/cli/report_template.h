// The HTML around a report's data: the text of src/cli/report.html, which the build turns into a source file.
#pragma once

#include <string_view>

namespace qdq {

std::string_view report_template();

}  // namespace qdq
