# What `cmake --install` puts into a prefix: the library, its headers under include/qdq, the target qdq::qdq for
# find_package(qdq), qdq.pc for pkg-config, and the program.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/qdq)
install(TARGETS qdq_archive EXPORT qdq)
install(TARGETS qdq_program)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/qdq DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT qdq NAMESPACE qdq:: FILE qdqTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/qdqConfig.cmake.in ${PROJECT_BINARY_DIR}/qdqConfig.cmake
  INSTALL_DESTINATION ${package})
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qdqConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/qdq.pc.in ${PROJECT_BINARY_DIR}/qdq.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qdqConfig.cmake ${PROJECT_BINARY_DIR}/qdqConfigVersion.cmake DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/qdq.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
include(cmake/package.cmake)
