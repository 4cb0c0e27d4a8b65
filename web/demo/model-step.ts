// A model comes in, with what it keeps in other files.
import { cards, formatBytes, formatShape, h } from "../../src/report/html/dom.js";
import { Engine } from "./engine.js";
import { dropZone, loadExample, noneOf } from "./files.js";
import { byId, problemLine, whenIdle } from "./page.js";
import type { Place } from "./address.js";
import type { NamedFile } from "./protocol.js";
import { recentModels } from "./recent.js";
import type { Store } from "./state.js";
import { defaultRecipe } from "./state.js";
import { workLine } from "./work.js";

// What is data, or tells about data; all else beside an ONNX model may hold its weights.
const isData = (name: string): boolean => /\.(jpe?g|png|bmp|np[yz]|csv|json|txt)$/i.test(name);

// A model of a gigabyte and more takes 64-bit memory where the engine has it, as npx does.
const largeModel = 2 ** 30;
const wideMemory = 16e9;

// `takeData` is given files that came along with the model. Answers what opens the example, in a state that an address
// tells.
export function modelStep(
  store: Store,
  takeData: (use: "calibration" | "test", files: readonly NamedFile[]) => Promise<void>,
): (place?: Place) => Promise<void> {
  const facts = h("div", {});
  const { element: problem, fail } = problemLine();
  const work = workLine("open");
  let opening = 0;
  // A worker that brings its module while the person still looks for a file.
  let spare: Engine | undefined;
  whenIdle(() => {
    if (!store.state.model && opening === 0) spare = new Engine();
  });

  // An ONNX model that wants files which are not there yet.
  let waiting: NamedFile | undefined;

  async function open(
    model: NamedFile,
    beside: readonly NamedFile[] = [],
    place?: Place,
    isExample = false,
  ): Promise<boolean> {
    const turn = ++opening;
    fail("");
    const size = [model, ...beside].reduce((sum, { file }) => sum + file.size, 0);
    const engine = size >= largeModel ? new Engine(wideMemory) : (spare ?? new Engine());
    if (engine !== spare) spare?.dispose();
    spare = undefined;
    try {
      const info = await work.run(`Reading ${model.name}`, (how) => engine.call("open", [model, beside], how));
      if (!info || turn !== opening) {
        engine.dispose();
        return false;
      }
      store.state.engine?.dispose();
      waiting = undefined;
      store.update({
        engine,
        name: model.name,
        model: info,
        calibration: undefined,
        test: undefined,
        classes: [],
        vocabulary: [],
        isExample,
        recipe: place?.recipe ?? defaultRecipe,
        target: undefined,
        tab: place?.tab ?? "layers",
        node: place?.node ?? "",
        find: place?.find ?? "",
        shown: undefined,
        explanation: undefined,
        explanationError: undefined,
        runs: [],
        busy: false,
      });
      byId("status").textContent = `${model.name} is open`;
      return true;
    } catch (error) {
      engine.dispose();
      if (turn !== opening) return false; // another model is what the person wants now
      if (/\.onnx$/i.test(model.name)) waiting = model;
      fail(`${model.name} could not be opened: ${(error as Error).message}`);
      byId("status").textContent = "";
      return false;
    }
  }

  async function take(files: readonly NamedFile[]): Promise<void> {
    const named = files.find(({ name }) => /\.(pt2|onnx)$/i.test(name));
    // Weights that are dropped after their model belong to it.
    const model = named ?? (files.some(({ name }) => !isData(name)) ? waiting : undefined);
    if (!model) return fail(`${noneOf(files, "a model")}; wanted a .pt2 that torch.export.save wrote, or an .onnx`);
    const others = files.filter((file) => file !== model);
    const beside = /\.onnx$/i.test(model.name) ? others.filter(({ name }) => !isData(name)) : [];
    if (await open(model, beside)) {
      void recent.keep([model, ...beside]);
      const data = others.filter(({ name }) => isData(name));
      if (data.length > 0) await takeData("calibration", data);
    }
  }

  async function example(place?: Place): Promise<void> {
    button.disabled = true;
    try {
      const files = await loadExample();
      const under = (folder: string): NamedFile[] =>
        files
          .filter(({ name }) => name.startsWith(`${folder}/`))
          .map(({ name, file }) => ({ name: name.slice(folder.length + 1), file }));
      const shared = files.filter(({ name }) => name === "preprocess.json" || name === "classes.txt");
      if (await open(files.find(({ name }) => name === "model.pt2")!, [], place, true)) {
        await takeData("calibration", [...under("calibration"), ...shared]);
        await takeData("test", [...under("test"), ...shared]);
        // The button that had the focus is gone; the next one is Quantize.
        if (document.activeElement === document.body) byId("start").focus({ preventScroll: true });
      }
    } catch (error) {
      fail((error as Error).message);
    } finally {
      button.disabled = false;
    }
  }

  const recent = recentModels((files) => void take(files));
  const button = h("button", { id: "example", type: "button", onclick: () => void example() }, "Try the example");
  byId("model").append(
    dropZone(
      "model-file",
      "Drop an .onnx or .pt2 model",
      "or choose one, with its data files if it has any",
      "",
      (files) => void take(files),
    ),
    h(
      "div",
      { class: "try" },
      button,
      h("p", {}, "A small network that names clothing, with 400 photographs (0.5 MB)."),
    ),
    work.element,
    problem,
    recent.element,
    facts,
  );

  store.listen(({ model, name }, changed) => {
    if (!changed.has("model") || !model) return;
    const { nodes, attributes, inputs, outputs } = model.program;
    const weights = attributes.reduce((sum, { bytes }) => sum + bytes, 0);
    const values = (list: typeof inputs): string =>
      list.map(({ name, called = name, dtype = "", shape }) => `${called} ${dtype}${formatShape(shape)}`).join("\n");
    facts.replaceChildren(
      cards([
        ["Model", name, "", "model-name"],
        ["Size", formatBytes(model.bytes), "", "model-size"],
        ["Operators", String(nodes.filter(({ op }) => op === "call_function").length), "", "model-operators"],
        ["Weights and constants", formatBytes(weights)],
        ["Inputs", values(inputs)],
        ["Outputs", values(outputs)],
      ]),
    );
  });
  return example;
}
