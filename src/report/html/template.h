// The HTML around a report's data: the files of src/report/html/, which the build puts into one text.
#pragma once

namespace qdq {

const char* report_template();

}  // namespace qdq
