# What shows a report is compiled in as text: one HTML file with its style and its modules, without what only readers of
# the sources need. A browser gets the modules as one script, so their names differ and the order is that of their
# imports.
set(report ${CMAKE_CURRENT_SOURCE_DIR}/src/report/html)
set(scripts dom charts graph-layout graph-view result-view report)
list(TRANSFORM scripts REPLACE "(.+)" "${report}/\\1.js")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts} ${report}/index.html ${report}/style.css)
set(QDQ_REPORT_SCRIPT "")
foreach(script ${scripts})
  file(READ ${script} text)
  string(APPEND QDQ_REPORT_SCRIPT "\n${text}")
endforeach()
# Types of expressions first: the code goes on behind them.
string(REGEX REPLACE "/\\*\\*[^*\n]*\\*/ " "" QDQ_REPORT_SCRIPT "${QDQ_REPORT_SCRIPT}")
string(REGEX REPLACE "\n *(//|/\\*|\\*|import )[^\n]*" "" QDQ_REPORT_SCRIPT "${QDQ_REPORT_SCRIPT}")
string(REGEX REPLACE "\n[ \n]*" "\n" QDQ_REPORT_SCRIPT "${QDQ_REPORT_SCRIPT}")
string(REPLACE "\nexport " "\n" QDQ_REPORT_SCRIPT "${QDQ_REPORT_SCRIPT}")
if(QDQ_REPORT_SCRIPT MATCHES "\n[^\n]*(import |export |from \"\\./)[^\n]*")
  message(FATAL_ERROR "src/report/html: imports and exports must begin a line and end on it, so that modules can be "
    "joined; found:${CMAKE_MATCH_0}")
endif()
file(READ ${report}/style.css QDQ_REPORT_STYLE)
configure_file(${report}/index.html ${CMAKE_BINARY_DIR}/report.html @ONLY)
file(READ ${CMAKE_BINARY_DIR}/report.html QDQ_REPORT_TEMPLATE)
configure_file(${report}/template.cpp.in ${CMAKE_BINARY_DIR}/report_template.cpp @ONLY)
target_sources(qdq_report PRIVATE ${CMAKE_BINARY_DIR}/report_template.cpp)
