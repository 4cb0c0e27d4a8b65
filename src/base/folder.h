// Lists the names in a folder on the disk.
#pragma once

#include <functional>
#include <string>

namespace qdq {

// Calls `take` with the name of each file and folder in a folder but "." and "..", in any order. Returns 0, or the
// errno of what the system refused. (The standard library's iterator crashes where its memory ends.)
int for_each_name_in(const std::string& folder, const std::function<void(const char*)>& take);

}  // namespace qdq
