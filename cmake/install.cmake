# What `cmake --install` puts into a prefix: one archive of all rooms but the command line, the headers under
# include/qdq, the target qdq::qdq for find_package(qdq), qdq.pc for pkg-config, and the program.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(objects ${rooms})
list(REMOVE_ITEM objects qdq_cli)
list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
add_library(qdq_archive STATIC ${objects})
set_target_properties(qdq_archive PROPERTIES OUTPUT_NAME qdq EXPORT_NAME qdq LINKER_LANGUAGE CXX)
target_compile_features(qdq_archive INTERFACE cxx_std_20)
target_include_directories(qdq_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/qdq>)
target_link_libraries(qdq_archive INTERFACE dnnl hwy OpenMP::OpenMP_CXX Threads::Threads ${CMAKE_DL_LIBS})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/qdq)
install(TARGETS qdq_archive EXPORT qdq)
install(TARGETS qdq_program)
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qdq FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE
  PATTERN html EXCLUDE)
install(EXPORT qdq NAMESPACE qdq:: FILE qdqTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/qdqConfig.cmake.in ${CMAKE_BINARY_DIR}/qdqConfig.cmake
  INSTALL_DESTINATION ${package})
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/qdqConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/qdq.pc.in ${CMAKE_BINARY_DIR}/qdq.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/qdqConfig.cmake ${CMAKE_BINARY_DIR}/qdqConfigVersion.cmake DESTINATION ${package})
install(FILES ${CMAKE_BINARY_DIR}/qdq.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
