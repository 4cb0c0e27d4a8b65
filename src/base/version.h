// The version of qdq, as in CMakeLists.txt and package.json.
#pragma once

#define QDQ_VERSION_MAJOR 0
#define QDQ_VERSION_MINOR 1
#define QDQ_VERSION_PATCH 0
#define QDQ_VERSION "0.1.0"
