// Gives WebAssembly tests in Node the settings of a longer fuzzing: QDQ_FUZZ_SEED and QDQ_FUZZ_ROUNDS.
Module.preRun = () => {
  for (const [name, value] of Object.entries(process.env)) if (name.startsWith("QDQ_FUZZ_")) ENV[name] = value;
};
