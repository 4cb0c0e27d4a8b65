// The page that every bundler makes: opens a model, runs it and writes what came out as its title.
import { configure, loadPt2, lower, tensor } from "qdq";
import { openSession } from "qdq/async";
import { place, workers } from "./place.js";

const report = (text) => {
  document.title = text;
};
try {
  if (place) configure({ wasm: place });
  const model = await (await fetch("model.pt2")).arrayBuffer();
  const [scores] = lower(await loadPt2(model)).run([tensor(new Float32Array(3 * 40 * 40).fill(0.5), [1, 3, 40, 40])]);
  if (workers) {
    const session = await openSession(model);
    const outputs = await session.run({ x: tensor(new Float32Array(3 * 40 * 40).fill(0.5), [1, 3, 40, 40]) });
    const [again] = Object.values(outputs);
    if (String(again.data) !== String(scores.data)) throw new Error("the worker computed something else");
    session.dispose();
  }
  report(`${scores.dtype} ${scores.shape} ${scores.data.every(Number.isFinite)}`);
} catch (error) {
  report(`failed: ${error.message}`);
}
