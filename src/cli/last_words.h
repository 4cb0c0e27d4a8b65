// What the native program says where no exception can say it.
#pragma once

namespace qdq {

// Where an allocation fails in the midst of what may not throw, as parts of the JSON and the command-line libraries
// may not, the process ends with one sentence and status 1; outputs are as after a kill.
void say_last_words();

}  // namespace qdq
