// What is done for the accuracy after the calibration: recovery, a score to reach, or training.
import { h } from "../../src/report/html/dom.js";
import type { QuantizeOptions } from "./protocol.js";

export interface AfterCalibration {
  element: HTMLElement;
  options(): Pick<QuantizeOptions, "recovers" | "wanted" | "epochs">;
  recover(): void; // as if the person had chosen recovery without training
}

export function afterCalibration(): AfterCalibration {
  const recovers = h("input", { id: "recover", type: "checkbox" });
  const recoversLabel = h(
    "label",
    {
      title:
        "Equalized channels, better ranges, corrected biases: whatever brings the outputs nearer to the float model's",
    },
    recovers,
    " Recover accuracy",
  );
  const epochs = h("input", {
    id: "epochs",
    type: "number",
    min: "1",
    max: "1000",
    step: "1",
    placeholder: "off",
    title:
      "Quantization-aware training: the weights adapt to the rounding, from labels or, without them, from " +
      "the float model's answers",
    oninput: () => {
      // What training ends with is not recovered any more.
      recovers.disabled = wanted.disabled = epochs.value !== "";
    },
  });
  const wanted = h("input", {
    id: "wanted",
    type: "number",
    min: "0",
    max: "200",
    step: "0.1",
    placeholder: "off",
    title:
      "Leaves as few operators in float as this score needs: percent of equal answers, or dB for models that do not " +
      "classify",
  });
  const element = h(
    "details",
    { id: "after-calibration", open: true },
    h("summary", {}, "After the calibration"),
    h("div", { class: "controls" }, recoversLabel),
    h("label", { class: "choice" }, "Minimum score (%, dB) ", wanted),
    h("label", { class: "choice" }, "Training epochs ", epochs),
  );
  return {
    element,
    options() {
      const score = wanted.valueAsNumber;
      const rounds = epochs.valueAsNumber;
      if (Number.isFinite(rounds)) return { recovers: false, epochs: Math.max(1, Math.floor(rounds)) };
      return { recovers: recovers.checked, ...(Number.isFinite(score) && { wanted: score }) };
    },
    recover() {
      epochs.value = "";
      recovers.disabled = wanted.disabled = false;
      recovers.checked = true;
    },
  };
}
