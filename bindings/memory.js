// How far the glue lets the memory of a module grow: as far as src/base/memory.h says.
addToLibrary({
  $getHeapMax__deps: ["qdq_memory_limit"],
  $getHeapMax: () => _qdq_memory_limit(),
});
