// The pictures of a run's predictions.
import { h } from "../../src/report/html/dom.js";
import { isImage } from "./page.js";
import type { Run } from "./state.js";

export const imageOf = (run: Run, file: string): Blob | undefined =>
  isImage(file) ? run.evaluatedOn?.choice.files.find(({ name }) => name === file)?.file : undefined;

// A small picture of a file for the report, which stands alone.
export async function dataUrl(image: Blob): Promise<string> {
  const bitmap = await createImageBitmap(image);
  const size = 96;
  const scale = Math.min(1, size / Math.max(bitmap.width, bitmap.height));
  const canvas = h("canvas", {
    width: Math.max(1, Math.round(bitmap.width * scale)),
    height: Math.max(1, Math.round(bitmap.height * scale)),
  });
  canvas.getContext("2d")!.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.85);
}
