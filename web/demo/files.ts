// Files that people drop or choose, and the example.
import { h } from "../../src/report/html/dom.js";
import type { NamedFile } from "./protocol.js";

// All files of a drop, with the folders they lie in. `tell` is told how many there are so far.
async function dropped(transfer: DataTransfer, tell: (count: number) => void): Promise<NamedFile[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length === 0) return [...transfer.files].map((file) => ({ name: file.name, file }));
  const found: NamedFile[] = [];
  const walk = async (entry: FileSystemEntry): Promise<void> => {
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      if (found.push({ name: entry.fullPath.replace(/^\//, ""), file }) % 100 === 0) tell(found.length);
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    // A reader gives at most a hundred entries at a time, and an empty list at the end.
    for (;;) {
      const inner = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (inner.length === 0) break;
      for (const each of inner) await walk(each);
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
}

// The names without the folders that all files share, so that a dropped folder is the root.
function withoutSharedFolder(files: readonly NamedFile[]): NamedFile[] {
  const folders = files.map(({ name }) => name.split("/").slice(0, -1));
  let depth = 0;
  while (folders.length > 0 && folders.every((parts) => parts.length > depth && parts[depth] === folders[0]![depth]))
    ++depth;
  return files.map(({ name, file }) => ({ name: name.split("/").slice(depth).join("/"), file }));
}

// That the files are not what they were taken for.
export const noneOf = (files: readonly NamedFile[], what: string): string =>
  files.length === 1 ? `${files[0]!.name} is not ${what}` : `none of the ${files.length} files is ${what}`;

// A place to drop files on, which is a button to choose them too, and if wanted one to choose a folder ("ID-folder").
export function dropZone(
  id: string,
  label: string,
  hint: string,
  accept: string,
  take: (files: NamedFile[]) => void,
  folders = false,
): HTMLElement {
  const give = (files: readonly NamedFile[]): void => {
    if (files.length > 0) take(withoutSharedFolder(files));
  };
  const chooser = (name: string, settings: Record<string, unknown>): HTMLInputElement => {
    const input = h("input", {
      type: "file",
      id: name,
      multiple: true,
      class: "file",
      onchange: () => {
        give([...(input.files ?? [])].map((file) => ({ name: file.webkitRelativePath || file.name, file })));
        input.value = "";
      },
      ...settings,
    });
    return input;
  };
  const line = h("span", {}, hint);
  const zone = h(
    "div",
    { class: "drop" },
    h("label", { for: id }, h("strong", {}, label), line),
    chooser(id, { accept }),
  );
  if (folders && "webkitdirectory" in HTMLInputElement.prototype) {
    const name = `${id}-folder`;
    const input = chooser(name, { webkitdirectory: true });
    zone.append(
      h("div", { class: "other-way" }, input, h("label", { for: name, class: "link" }, "or choose a folder")),
    );
  }
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (!event.dataTransfer) return;
    const tell = (count: number): void => {
      line.textContent = `${count} files so far`;
    };
    void dropped(event.dataTransfer, tell)
      .finally(() => (line.textContent = hint))
      .then(give);
  });
  return zone;
}

// The files of examples/clothing as the build packed them (vite.config.ts).
export async function loadExample(): Promise<NamedFile[]> {
  const get = async (name: string): Promise<Response> => {
    const response = await fetch(new URL(`example/${name}`, document.baseURI));
    if (!response.ok)
      throw new Error(`the example could not be fetched: the server answered ${response.status} for example/${name}`);
    return response;
  };
  const index = (await (await get("index.json")).json()) as { name: string; size: number }[];
  const all = await (await get("files.bin")).blob();
  let at = 0;
  return index.map(({ name, size }) => ({ name, file: all.slice(at, (at += size)) }));
}
