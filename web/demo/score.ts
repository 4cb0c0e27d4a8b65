// How near the outputs of a quantized model come to the float model's, as one number of which more is better.
import type { Tensor } from "qdq";

const numbersOf = ({ data }: Tensor): ArrayLike<number> => data as ArrayLike<number>;

// The place of the largest score of a row.
function best(scores: ArrayLike<number>, from: number, count: number): number {
  let at = from;
  for (let i = from + 1; i < from + count; ++i) if (scores[i]! > scores[at]!) at = i;
  return at;
}

// Of outputs [samples, classes] the percentage of equal answers; of others the ratio of signal to noise in dB, at most
// 200. `expected`: the float model's outputs, batch by batch.
export function scoreBeside(expected: readonly (readonly Tensor[])[]): {
  score: (outputs: Tensor[][]) => number;
  unit: "%" | "dB";
} {
  const isClassifier = expected.every(([first]) => first?.dtype === "float32" && first.shape.length === 2);
  const equalAnswers = (outputs: Tensor[][]): number => {
    let [same, all] = [0, 0];
    outputs.forEach(([y], batch) => {
      const x = expected[batch]![0]!;
      const [samples = 0, classes = 1] = x.shape;
      for (let i = 0; i < samples; ++i)
        if (best(numbersOf(x), i * classes, classes) === best(numbersOf(y!), i * classes, classes)) ++same;
      all += samples;
    });
    return (100 * same) / Math.max(1, all);
  };
  const decibels = (outputs: Tensor[][]): number => {
    let [signal, noise] = [0, 0];
    outputs.forEach(([y], batch) => {
      const [a, b] = [numbersOf(expected[batch]![0]!), numbersOf(y!)];
      for (let i = 0; i < a.length; ++i) {
        const [from, to] = [Number(a[i]), Number(b[i])];
        signal += from * from;
        noise += (from - to) ** 2;
      }
    });
    return noise === 0 ? 200 : Math.max(-200, Math.min(200, 10 * Math.log10(signal / noise)));
  };
  return isClassifier ? { score: equalAnswers, unit: "%" } : { score: decibels, unit: "dB" };
}
