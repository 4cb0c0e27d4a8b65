// Decoders of both engines as functions (prompt, count) that make `count` tokens: for Node and for pages.

export async function stepsOfQdq({ loadPt2, lowerDecoder }, model) {
  const decoder = lowerDecoder(await loadPt2(model));
  return async (prompt, count) => {
    for await (const _ of decoder.generate(prompt, { maxTokens: count }));
  };
}

// `file` is the name of the model, whose second file is `data`.
export async function stepsOfOrt({ InferenceSession, Tensor, env }, model, data, { file, layers, shared, size }) {
  env.wasm.numThreads = 1;
  const externalData = [{ path: `${file}.data`, data }];
  const session = await InferenceSession.create(model, { executionProviders: ["wasm"], externalData });
  const names = Array.from({ length: layers }, (_, i) => ["key", "value"].map((kind) => `${i}.${kind}`)).flat();
  return async (prompt, count) => {
    let ids = prompt;
    let total = 0;
    let caches = Object.fromEntries(
      names.map((name) => [`past_key_values.${name}`, new Tensor("float32", [], [1, shared, 0, size])]),
    );
    for (let i = 0; i < count; ++i) {
      total += ids.length;
      const out = await session.run({
        ...caches,
        input_ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]),
        seqlens: new Tensor("int32", [total - 1], [1]),
        total: new Tensor("int32", [total], []),
      });
      caches = Object.fromEntries(names.map((name) => [`past_key_values.${name}`, out[`present.${name}`]]));
      const logits = out.logits.data.subarray(-out.logits.dims[2]);
      ids = [logits.reduce((best, value, at) => (value > logits[best] ? at : best), 0)];
    }
  };
}
