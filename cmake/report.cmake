# What shows a report is compiled in as text: one HTML file with its style and its modules, without what only readers of
# the sources need. A browser gets the modules as one script, so their names differ and the order is that of their
# imports.
set(report ${CMAKE_CURRENT_SOURCE_DIR}/src/report/html)
set(scripts dom charts graph-layout graph-facts graph-boxes graph-camera graph-minimap graph-gestures graph-view
  result-view remedies-view front-view report)
list(TRANSFORM scripts REPLACE "(.+)" "${report}/\\1.js")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts} ${report}/index.html ${report}/tokens.css
  ${report}/style.css)
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
file(READ ${report}/tokens.css tokens)
file(READ ${report}/style.css QDQ_REPORT_STYLE)
string(PREPEND QDQ_REPORT_STYLE "${tokens}")
# The SHA-256 of a text in base64, by which a Content-Security-Policy allows it.
function(qdq_hash text out)
  set(letters ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  string(SHA256 digits "${text}")
  set(base64 "")
  # 32 bytes and one of padding are eleven groups of three.
  string(REGEX MATCHALL "......" groups "${digits}00")
  foreach(group ${groups})
    foreach(shift 18 12 6 0)
      math(EXPR place "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING ${letters} ${place} 1 letter)
      string(APPEND base64 ${letter})
    endforeach()
  endforeach()
  string(REGEX REPLACE "A$" "=" base64 ${base64})
  set(${out} ${base64} PARENT_SCOPE)
endfunction()
qdq_hash("${QDQ_REPORT_STYLE}" QDQ_REPORT_STYLE_HASH)
qdq_hash("${QDQ_REPORT_SCRIPT}" QDQ_REPORT_SCRIPT_HASH)
configure_file(${report}/index.html ${PROJECT_BINARY_DIR}/report.html @ONLY)
file(READ ${PROJECT_BINARY_DIR}/report.html QDQ_REPORT_TEMPLATE)
configure_file(${report}/template.cpp.in ${PROJECT_BINARY_DIR}/report_template.cpp @ONLY)
target_sources(qdq_report PRIVATE ${PROJECT_BINARY_DIR}/report_template.cpp)
