// Step 1: a model comes in.
import { cards, formatBytes, formatShape, h } from "../../src/report/html/dom.js";
import { Engine } from "./engine.js";
import { dropZone, loadExample } from "./files.js";
import { byId, problemLine } from "./page.js";
import type { NamedFile } from "./protocol.js";
import type { Store } from "./state.js";
import { defaultRecipe } from "./state.js";
import { workLine } from "./work.js";

// `takeData` is given files that came along with the model.
export function modelStep(
  store: Store,
  takeData: (use: "calibration" | "test", files: readonly NamedFile[]) => Promise<void>,
): void {
  const facts = h("div", {});
  const { element: problem, fail } = problemLine();
  const work = workLine("open");
  // A worker that brings its module while the person still looks for a file.
  let spare: Engine | undefined = new Engine();
  let opening = 0;

  async function open(model: NamedFile): Promise<boolean> {
    const turn = ++opening;
    fail("");
    const engine = spare ?? new Engine();
    spare = undefined;
    try {
      const info = await work.run(`Reading ${model.name}`, (how) => engine.call("open", [model], how));
      if (!info || turn !== opening) {
        engine.dispose();
        return false;
      }
      store.state.engine?.dispose();
      store.update({
        engine,
        name: model.name,
        model: info,
        calibration: undefined,
        test: undefined,
        classes: [],
        recipe: defaultRecipe,
        explanation: undefined,
        explanationError: undefined,
        runs: [],
        busy: false,
      });
      byId("status").textContent = `${model.name} is open`;
      return true;
    } catch (error) {
      engine.dispose();
      fail(`${model.name} could not be opened: ${(error as Error).message}`);
      byId("status").textContent = "";
      return false;
    }
  }

  async function take(files: readonly NamedFile[]): Promise<void> {
    const model = files.find(({ name }) => /\.(pt2|onnx)$/.test(name));
    if (!model)
      return fail(
        `none of the ${files.length} files is a model; wanted a .pt2 that torch.export.save wrote, or an .onnx`,
      );
    if (await open(model)) {
      const data = files.filter((file) => file !== model);
      if (data.length > 0) await takeData("calibration", data);
    }
  }

  async function example(): Promise<void> {
    button.disabled = true;
    try {
      const files = await loadExample();
      const under = (folder: string): NamedFile[] =>
        files
          .filter(({ name }) => name.startsWith(`${folder}/`))
          .map(({ name, file }) => ({ name: name.slice(folder.length + 1), file }));
      const shared = files.filter(({ name }) => name === "preprocess.json" || name === "classes.txt");
      if (await open(files.find(({ name }) => name === "model.pt2")!)) {
        await takeData("calibration", [...under("calibration"), ...shared]);
        await takeData("test", [...under("test"), ...shared]);
      }
    } catch (error) {
      fail((error as Error).message);
    } finally {
      button.disabled = false;
    }
  }

  const button = h("button", { id: "example", type: "button", onclick: () => void example() }, "Try the example");
  byId("model").append(
    h(
      "div",
      { class: "row" },
      dropZone(
        "model-file",
        "Drop a .pt2 or .onnx model",
        "or choose one that torch.export.save wrote",
        ".pt2,.onnx",
        (files) => void take(files),
      ),
      h(
        "div",
        { class: "aside" },
        button,
        h("p", {}, "A small network that tells 16 shapes apart, with its images (2 MB)."),
      ),
    ),
    work.element,
    problem,
    facts,
  );

  store.listen(({ model, name }, changed) => {
    if (!changed.has("model") || !model) return;
    const { nodes, attributes, inputs, outputs } = model.program;
    const weights = attributes.filter(({ kind }) => kind === "parameter").reduce((sum, { bytes }) => sum + bytes, 0);
    const values = (list: typeof inputs): string =>
      list.map((value) => `${value.name} ${value.dtype ?? ""}${formatShape(value.shape)}`).join(", ");
    facts.replaceChildren(
      cards([
        ["Model", name, "", "model-name"],
        ["Size", formatBytes(model.bytes), "", "model-size"],
        ["Operators", String(nodes.filter(({ op }) => op === "call_function").length), "", "model-operators"],
        ["Parameters", formatBytes(weights)],
        ["Inputs", values(inputs)],
        ["Outputs", values(outputs)],
      ]),
    );
  });
}
