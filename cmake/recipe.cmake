# The form of recipes is compiled in as text, without what only readers of the source need.
set(recipe ${CMAKE_CURRENT_SOURCE_DIR}/src/recipe)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${recipe}/recipe.schema.json)
file(READ ${recipe}/recipe.schema.json QDQ_RECIPE_SCHEMA)
string(REGEX REPLACE "\n *" "" QDQ_RECIPE_SCHEMA "${QDQ_RECIPE_SCHEMA}")
configure_file(${recipe}/recipe_template.cpp.in ${PROJECT_BINARY_DIR}/recipe_template.cpp @ONLY)
target_sources(qdq_recipe PRIVATE ${PROJECT_BINARY_DIR}/recipe_template.cpp)
