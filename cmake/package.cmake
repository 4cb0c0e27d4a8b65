# What `cpack` makes of an installation: a .deb for Debian 13 with the program, the library and its headers, and a
# tarball of the same that brings the libraries which it needs besides the C library, so that it runs where they are not
# installed. Its folder lib/qdq is where the program looks first.
set_target_properties(qdq_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/qdq")
install(CODE "set(program $<TARGET_FILE:qdq_program>)
  set(folder \"${CMAKE_INSTALL_LIBDIR}/qdq\")" COMPONENT bundle EXCLUDE_FROM_ALL)
install(CODE [[
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} RESOLVED_DEPENDENCIES_VAR libraries
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread)\\.so")
  file(INSTALL ${libraries} DESTINATION ${CMAKE_INSTALL_PREFIX}/${folder} FOLLOW_SYMLINK_CHAIN)
  # Their terms, as Debian has them beside each package.
  foreach(library ${libraries})
    file(REAL_PATH ${library} real)
    execute_process(COMMAND dpkg-query --search ${real} OUTPUT_VARIABLE owner ERROR_QUIET)
    string(REGEX REPLACE "[:,].*" "" owner "${owner}")
    if(EXISTS /usr/share/doc/${owner}/copyright)
      file(INSTALL /usr/share/doc/${owner}/copyright DESTINATION ${CMAKE_INSTALL_PREFIX}/share/doc/qdq/${owner})
    else()
      message(FATAL_ERROR "nothing says under which terms ${library} may be passed on")
    endif()
  endforeach()
]] COMPONENT bundle EXCLUDE_FROM_ALL)

# What the program says of itself: its manual page, and what completes its words in shells.
set(descriptions ${PROJECT_BINARY_DIR}/descriptions)
add_custom_command(OUTPUT ${descriptions}/qdq.1
  COMMAND ${CMAKE_COMMAND} -E make_directory ${descriptions}
  COMMAND qdq_program man > ${descriptions}/qdq.1
  COMMAND qdq_program completion bash > ${descriptions}/qdq
  COMMAND qdq_program completion zsh > ${descriptions}/_qdq
  COMMAND qdq_program completion fish > ${descriptions}/qdq.fish
  COMMAND qdq_program recipe --schema > ${descriptions}/recipe.schema.json
  DEPENDS qdq_program VERBATIM)
add_custom_target(qdq_descriptions DEPENDS ${descriptions}/qdq.1)
install(FILES ${descriptions}/qdq.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT package EXCLUDE_FROM_ALL)
install(FILES ${descriptions}/qdq DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  COMPONENT package EXCLUDE_FROM_ALL)
install(FILES ${descriptions}/_qdq DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
  COMPONENT package EXCLUDE_FROM_ALL)
install(FILES ${descriptions}/qdq.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  COMPONENT package EXCLUDE_FROM_ALL)
install(FILES ${descriptions}/recipe.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/qdq
  COMPONENT package EXCLUDE_FROM_ALL)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/qdq RENAME copyright COMPONENT package EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME qdq)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "the authors of qdq")
set(CPACK_PACKAGE_CONTACT "the authors of qdq")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "int8 quantization of PyTorch and ONNX models")
set(CPACK_PACKAGE_DESCRIPTION "The command line, the C++ library and its headers.
 qdq turns float models (.pt2, .onnx) into int8 models by PyTorch's export flow, without Python.")
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL Unspecified package)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/cpack.cmake)
set(CPACK_PACKAGE_FILE_NAME qdq-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_QDQ_PROGRAM ${PROJECT_BINARY_DIR}/qdq)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# What programs that link the library need besides.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, libdnnl-dev, libhwy-dev, nlohmann-json3-dev")
include(CPack)
