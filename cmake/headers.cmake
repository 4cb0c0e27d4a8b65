# cmake -DSOURCE=src -DDESTINATION=include/qdq -P headers.cmake copies the headers that programs include, as
# <qdq/qdq.h>. There they include each other as "qdq/base/error.h", so that users get one folder on their include path
# and no names in it but qdq's.
file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/*.h)
list(FILTER headers EXCLUDE REGEX "^cli/")
foreach(header ${headers})
  file(READ ${SOURCE}/${header} text)
  string(REGEX REPLACE "(\n#include \")([a-z_]+/)" "\\1qdq/\\2" text "${text}")
  string(REPLACE "\"qdq/hwy/" "\"hwy/" text "${text}")
  set(before "")
  if(EXISTS ${DESTINATION}/${header})
    file(READ ${DESTINATION}/${header} before)
  endif()
  if(NOT text STREQUAL before)
    file(WRITE ${DESTINATION}/${header} "${text}")
  endif()
endforeach()
