# The WASM modules. Three programs: `qdq` does everything, `qdq-run` opens programs and runs them, `qdq-cli` is the
# command line of npx. Each is linked for every engine and, as -relaxed, for those with relaxed SIMD, which validation
# keeps apart. Of the two that pages load there is one of one thread, since shared memory is only for isolated pages,
# and one with threads; the command line always can have threads. That makes ten links of the same objects.
# With QDQ_MEMORY64 there are two others, for addresses of 64 bits: qdq-memory64 and qdq-cli-memory64, which take
# relaxed SIMD for granted. bindings/pack.mjs makes an ES module and a CommonJS module of the glue.
set(run_library qdq_io qdq_lower qdq_report)
set(library ${run_library} qdq_train qdq_recover qdq_state qdq_recipe qdq_profile qdq_data)

# embind has thread-local variables, so its users are compiled once for one thread and once for many.
function(qdq_bindings target libraries)
  add_library(${target} OBJECT ${ARGN})
  target_link_libraries(${target} PUBLIC ${libraries} embind)
  target_compile_options(${target} PRIVATE -Oz)
endfunction()
qdq_bindings(qdq_run_bindings "${run_library}" bindings/run.cpp)
qdq_bindings(qdq_run_ops "${run_library}" bindings/run_ops.cpp)
set(quantize bindings/quantize.cpp bindings/javascript_quantizer.cpp bindings/train.cpp bindings/recover.cpp
  bindings/state.cpp)
list(TRANSFORM quantize PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
if(QDQ_UNITY)
  qdq_join(quantize bindings 16 ${quantize})
endif()
qdq_bindings(qdq_quantize_bindings "${library}" ${quantize})
qdq_bindings(qdq_run_threads_bindings "${run_library}" bindings/run.cpp)
qdq_bindings(qdq_quantize_threads_bindings "${library}" ${quantize})
qdq_bindings(qdq_cli_bindings qdq_cli bindings/cli.cpp)
foreach(target qdq_run_threads_bindings qdq_quantize_threads_bindings qdq_cli_bindings)
  target_compile_options(${target} PRIVATE -pthread)
endforeach()

# The doors bring the compiled module and its threads' workers, so the glue needs neither files nor fetch, and is the
# same for Node and the browser. Without eval it runs under a strict content policy. FACTORY names the function of the
# glue; -Oz for what pages download, -O1 for what is read from the disk, where the link's time counts for more than
# size.
function(qdq_module file factory optimization libraries)
  cmake_parse_arguments(MODULE "THREADS;RELAXED" "" "BINDINGS" ${ARGN})
  string(REPLACE "-" "_" target ${file}_wasm)
  add_executable(${target})
  foreach(bindings ${MODULE_BINDINGS})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${bindings}>)
  endforeach()
  set(glue ${CMAKE_CURRENT_SOURCE_DIR}/bindings/memory.js)
  target_link_libraries(${target} PRIVATE ${libraries} embind)
  target_link_options(${target} PRIVATE ${optimization} -sMODULARIZE=1 -sEXPORT_NAME=${factory} -sENVIRONMENT=web,worker
    -sFILESYSTEM=0 -sDYNAMIC_EXECUTION=0 -sINCOMING_MODULE_JS_API=instantiateWasm
    -sEXPORTED_RUNTIME_METHODS=stackSave,stackRestore "SHELL:--js-library ${glue}")
  if(optimization STREQUAL "-Oz")
    # What cannot throw needs no handler: a search of the whole program finds 2 kB of them.
    target_link_options(${target} PRIVATE -sBINARYEN_EXTRA_PASSES=--generate-global-effects,--vacuum)
  endif()
  if(MODULE_RELAXED)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:qdq_relaxed>)
  endif()
  if(MODULE_THREADS)
    # Workers are there before the first call, which blocks: a thread more than there are workers is refused.
    list(APPEND glue ${CMAKE_CURRENT_SOURCE_DIR}/bindings/threads.js)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:qdq_threads>)
    target_link_options(${target} PRIVATE -pthread -sPTHREAD_POOL_SIZE=Module.workers -sPTHREAD_POOL_SIZE_STRICT=2
      -Wno-pthreads-mem-growth "SHELL:--pre-js ${CMAKE_CURRENT_SOURCE_DIR}/bindings/threads.js")
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file} SUFFIX .js LINK_DEPENDS "${glue}")
  set_property(GLOBAL APPEND PROPERTY QDQ_MODULES ${target})
endfunction()
if(QDQ_MEMORY64)
  qdq_module(qdq-memory64 createQdq -Oz "${library}" BINDINGS qdq_run_bindings qdq_quantize_bindings RELAXED)
  qdq_module(qdq-cli-memory64 createQdqCli -O1 qdq_cli BINDINGS qdq_cli_bindings THREADS RELAXED)
else()
  set(run BINDINGS qdq_run_bindings)
  set(run_threads BINDINGS qdq_run_threads_bindings THREADS)
  set(whole ${run} qdq_quantize_bindings)
  set(whole_threads BINDINGS qdq_run_threads_bindings qdq_quantize_threads_bindings THREADS)
  qdq_module(qdq createQdq -Oz "${library}" ${whole})
  qdq_module(qdq-relaxed createQdq -Oz "${library}" ${whole} RELAXED)
  qdq_module(qdq-threads createQdq -Oz "${library}" ${whole_threads})
  qdq_module(qdq-threads-relaxed createQdq -Oz "${library}" ${whole_threads} RELAXED)
  set(run BINDINGS qdq_run_bindings qdq_run_ops)
  set(run_threads BINDINGS qdq_run_threads_bindings qdq_run_ops THREADS)
  qdq_module(qdq-run createQdqRun -Oz "${run_library}" ${run})
  qdq_module(qdq-run-relaxed createQdqRun -Oz "${run_library}" ${run} RELAXED)
  qdq_module(qdq-run-threads createQdqRun -Oz "${run_library}" ${run_threads})
  qdq_module(qdq-run-threads-relaxed createQdqRun -Oz "${run_library}" ${run_threads} RELAXED)
  qdq_module(qdq-cli createQdqCli -O1 qdq_cli BINDINGS qdq_cli_bindings THREADS)
  qdq_module(qdq-cli-relaxed createQdqCli -O1 qdq_cli BINDINGS qdq_cli_bindings THREADS RELAXED)
endif()
get_property(modules GLOBAL PROPERTY QDQ_MODULES)
add_custom_target(qdq_modules DEPENDS ${modules})
