// A header of the foreign project's own, which qdq's of that name must not hide.
#pragma once

inline int errors_of_my_own() { return 7; }
