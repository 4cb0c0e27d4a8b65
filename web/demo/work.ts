// Long work as people see it: what is being done, how far it is, the time left, and a way out.
import { formatBytes, h } from "../../src/report/html/dom.js";
import { EngineError } from "./engine.js";
import type { Work } from "./engine.js";
import { byId, formatSeconds } from "./page.js";
import type { Stage } from "./protocol.js";

export interface WorkLine {
  element: HTMLElement;
  // Shows `what` until the job ends. Answers undefined if the person cancelled it; other errors come through.
  run<T>(what: string, job: (work: Work) => Promise<T>): Promise<T | undefined>;
  tell(text: string): void;
}

function farText({ done, total, unit }: Stage): string {
  if (unit === "percent") return `${Math.floor(done)} %`;
  if (unit === "bytes") return `${formatBytes(done)} of ${formatBytes(total)}`;
  return `batch ${Math.min(total, Math.floor(done) + 1)} of ${total}`;
}

// `id` names the text ("ID-text") and the button ("ID-cancel"); `watch` is told of every stage too.
export function workLine(id: string, watch: (stage: Stage) => void = () => {}): WorkLine {
  const bar = h("progress", { hidden: true, "aria-label": "progress" });
  const text = h("p", { id: `${id}-text`, class: "told" });
  let abort: AbortController | undefined;
  const cancel = h(
    "button",
    { id: `${id}-cancel`, type: "button", hidden: true, onclick: () => abort?.abort() },
    "Cancel",
  );
  const tell = (line: string): void => {
    text.textContent = line;
  };

  async function run<T>(what: string, job: (work: Work) => Promise<T>): Promise<T | undefined> {
    const own = (abort = new AbortController());
    let stage: Stage = { stage: what, done: 0, total: 0 };
    let began = performance.now();
    let last = began; // when the stage last moved
    const show = (): void => {
      const { done, total, expected, note } = stage;
      const now = performance.now();
      if (total > 0) {
        bar.max = total;
        bar.value = done;
      } else bar.removeAttribute("value");
      // Steps take alike; time since the last one is taken off what they still need.
      const so = (now - began) / 1000;
      const left = done > 0 ? (((last - began) / done) * (total - done) - (now - last)) / 1000 : (expected ?? 0) - so;
      const time =
        left >= 1
          ? `, about ${formatSeconds(left)} left`
          : done === 0 && so >= 1
            ? `, ${formatSeconds(so)} so far`
            : "";
      tell(`${stage.stage}${total > 0 ? `: ${farText(stage)}` : ""}${note ? `, ${note}` : ""}${time}`);
    };
    const begin = (name: string): void => {
      began = performance.now();
      byId("status").textContent = name;
    };
    begin(what);
    show();
    bar.hidden = cancel.hidden = false;
    const clock = setInterval(show, 1000);
    const onProgress = (fresh: Stage): void => {
      if (fresh.stage !== stage.stage) begin(fresh.stage);
      last = performance.now();
      stage = fresh;
      show();
      watch(fresh);
    };
    try {
      const answer = await job({ onProgress, signal: own.signal });
      if (own === abort) tell("");
      return answer;
    } catch (error) {
      const cancelled = error instanceof EngineError && error.code === "Cancelled";
      if (own === abort) {
        tell(cancelled ? "Cancelled." : "");
        byId("status").textContent = cancelled ? "Cancelled" : "";
      }
      if (!cancelled) throw error;
      return undefined;
    } finally {
      clearInterval(clock);
      if (own === abort) bar.hidden = cancel.hidden = true;
    }
  }
  return {
    element: h("div", { class: "work", tabindex: "-1" }, h("div", { class: "controls" }, cancel, bar), text),
    run,
    tell,
  };
}
