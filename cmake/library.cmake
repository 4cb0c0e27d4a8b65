# The library that programs link, natively: one archive of all rooms but the command line, which asks nothing of its
# users but the folder of headers. `qdq::qdq` is its name in a project that has qdq by add_subdirectory, and in one that
# finds it installed.
set(objects ${rooms})
list(REMOVE_ITEM objects qdq_cli)
list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
add_library(qdq_archive STATIC ${objects})
add_library(qdq::qdq ALIAS qdq_archive)
set_target_properties(qdq_archive PROPERTIES OUTPUT_NAME qdq EXPORT_NAME qdq LINKER_LANGUAGE CXX)
target_compile_features(qdq_archive INTERFACE cxx_std_20)
target_link_libraries(qdq_archive INTERFACE dnnl hwy OpenMP::OpenMP_CXX Threads::Threads ${CMAKE_DL_LIBS})

set(include ${PROJECT_BINARY_DIR}/include)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.h)
add_custom_command(OUTPUT ${include}/qdq.stamp
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/src -DDESTINATION=${include}/qdq
    -P ${PROJECT_SOURCE_DIR}/cmake/headers.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${include}/qdq.stamp
  DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/cmake/headers.cmake COMMENT "" VERBATIM)
add_custom_target(qdq_headers DEPENDS ${include}/qdq.stamp)
add_dependencies(qdq_archive qdq_headers)
include(GNUInstallDirs)
target_include_directories(qdq_archive INTERFACE $<BUILD_INTERFACE:${include}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
