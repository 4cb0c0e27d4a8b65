// What is the page's alone: its places, durations, and files for the person.
import { h } from "../../src/report/html/dom.js";

export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element #${id}`);
  return element;
}

// Whether what is chosen stands above the views rather than beside them; the same width stands in style.css.
export const isNarrow = (): boolean => matchMedia("(max-width: 60rem)").matches;

// Does what can wait until the page is there and the browser has nothing else to do.
export function whenIdle(act: () => void): void {
  const wait = (): void => void ("requestIdleCallback" in window ? requestIdleCallback(act) : setTimeout(act, 200));
  if (document.readyState === "complete") wait();
  else addEventListener("load", wait, { once: true });
}

export const formatSeconds = (seconds: number): string =>
  seconds >= 90
    ? `${Math.round(seconds / 60)} min`
    : seconds >= 10
      ? `${Math.round(seconds)} s`
      : seconds >= 1
        ? `${seconds.toFixed(1)} s`
        : `${Math.round(seconds * 1000)} ms`;

export const isImage = (name: string): boolean => /\.(jpe?g|png|bmp)$/i.test(name);

// Where a step says what went wrong. An empty reason takes it away. openData() names files as those of a folder "data",
// which nobody has here.
export function problemLine(): { element: HTMLElement; fail(reason: string): void } {
  const element = h("p", { class: "problem", role: "alert", hidden: true });
  return {
    element,
    fail(reason) {
      const isNew = element.hidden && reason !== "";
      element.textContent = reason.replace(/^data\//, "");
      element.hidden = reason === "";
      // On a phone the place of the sentence may lie below the window.
      if (isNew) element.scrollIntoView({ block: "nearest" });
    },
  };
}

// Gives bytes to the person as a file.
export function download(name: string, bytes: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
