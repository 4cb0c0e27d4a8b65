// What the small model of tests/golden/transformers_js is asked, in Node and in Chromium.

// The first half is good.
export const sentences = [
  "the film was great and the people very kind",
  "a warm and lovely day",
  "this book is good",
  "a sad story of a fine, bright and happy people",
  "the room was cold and dark",
  "rude people with awful food",
  "this film is bad",
  "a great day and a poor, ugly, cold room",
];

// The logits of GOOD that the model's file of this dtype gives the sentences; `pipeline` is that of transformers.js.
export async function logitsOf(pipeline, model, options) {
  const classify = await pipeline("text-classification", model, options);
  const answers = await classify(sentences);
  await classify.dispose();
  return answers.map(({ label, score }) => {
    const logit = Math.log(score / (1 - score));
    return label === "GOOD" ? logit : -logit;
  });
}

// Prints how a file answers beside the float model, and says what is wrong: how far its logits may be off is `most`.
export function judge(dtype, logits, exact, most) {
  const off = Math.max(...logits.map((logit, i) => Math.abs(logit - exact[i])));
  const right = logits.filter((logit, i) => logit > 0 === i < sentences.length / 2).length;
  console.log(`${dtype.padEnd(6)} ${right} of ${sentences.length} right, logits at most ${off.toFixed(4)} off`);
  const failures = [];
  if (right !== sentences.length) failures.push(`${dtype} classifies otherwise`);
  if (!(off <= most)) failures.push(`${dtype} is ${off} off, wanted at most ${most}`);
  if (dtype !== "fp32" && off === 0) failures.push(`${dtype} is the float model`);
  return failures;
}
