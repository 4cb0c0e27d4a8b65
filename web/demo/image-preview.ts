// The calibration images: small ones to choose from, and one of them as the model sees it.
import { h } from "../../src/report/html/dom.js";
import { isImage } from "./page.js";
import type { NamedFile } from "./protocol.js";
import type { Store } from "./state.js";

const thumbnails = 12;

export interface ImagePreview {
  pictures: HTMLElement;
  preview: HTMLElement;
  showThumbnails(images: readonly NamedFile[]): void;
  show(index?: number): Promise<void>; // the image of this index, without one that of the last call
}

// What the browser cannot draw leaves its place empty; the message beside it says what is wrong with the file.
const picture = (src: string): HTMLImageElement => {
  const image = h("img", { src, alt: "", loading: "lazy", onerror: () => (image.style.visibility = "hidden") });
  return image;
};

export function imagePreview(store: Store, fail: (problem: string) => void): ImagePreview {
  const pictures = h("div", { class: "pictures", role: "group", "aria-label": "calibration images" });
  const canvas = h("canvas", { width: 1, height: 1, role: "img", "aria-label": "an image as the model sees it" });
  const caption = h("p", { "aria-live": "polite" });

  let urls: string[] = [];
  function showThumbnails(images: readonly NamedFile[]): void {
    urls.forEach((url) => URL.revokeObjectURL(url));
    const first = images.slice(0, thumbnails);
    urls = first.map(({ file }) => URL.createObjectURL(file));
    const button = ({ name }: NamedFile, i: number): HTMLElement =>
      h(
        "button",
        {
          type: "button",
          class: "thumbnail",
          title: name,
          "aria-label": `preview ${name}`,
          onclick: () => void show(i),
        },
        picture(urls[i]!),
      );
    const rest = images.length - first.length;
    pictures.replaceChildren(...first.map(button), ...(rest > 0 ? [h("span", {}, `and ${rest} more`)] : []));
  }

  let shown = 0;
  async function show(index = shown): Promise<void> {
    const { engine, calibration } = store.state;
    const images = (calibration?.choice.files ?? []).filter(({ name }) => isImage(name));
    if (!engine || !calibration || images.length === 0) return;
    shown = Math.min(index, images.length - 1);
    try {
      const { width, height, pixels } = await engine.call("preview", [calibration.choice, shown]);
      caption.textContent = `${images[shown]?.name} as the model sees it.`;
      canvas.hidden = false;
      canvas.width = width;
      canvas.height = height;
      canvas.getContext("2d")!.putImageData(new ImageData(pixels, width, height), 0, 0);
    } catch (error) {
      canvas.hidden = true;
      caption.textContent = "";
      fail((error as Error).message);
    }
  }

  return { pictures, preview: h("div", { class: "preview" }, canvas, caption), showThumbnails, show };
}
