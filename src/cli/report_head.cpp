// What reports say of themselves.
#include "base/version.h"
#include "cli/machine.h"
#include "cli/verbs.h"
#include "format/json.h"

namespace qdq {

format::Json made_by(const std::string& command, Host& host) {
  format::Json out = {{"by", "qdq " QDQ_VERSION}, {"machine", machine_text()}};
  if (const std::string date = host.date(); !date.empty()) out["date"] = date;
  if (!command.empty()) out["command"] = command;
  return out;
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of("/\\") + 1); }

}  // namespace qdq
