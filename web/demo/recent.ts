// Models that this browser keeps for the next visit, if the person wants it: in IndexedDB, which no other site reads.
import { formatBytes, h } from "../../src/report/html/dom.js";
import { problemLine } from "./page.js";
import type { NamedFile } from "./protocol.js";

interface Kept {
  name: string; // of the model's file, which is the key
  files: readonly NamedFile[]; // the model, and what it keeps in other files
  at: number; // when it was opened
}

const most = 5; // models that are kept
const wish = "qdq-keeps-models"; // in localStorage

const answerOf = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function models(mode: IDBTransactionMode): Promise<IDBObjectStore> {
  const request = indexedDB.open("qdq", 1);
  request.onupgradeneeded = () => void request.result.createObjectStore("models", { keyPath: "name" });
  const database = await answerOf(request);
  const transaction = database.transaction("models", mode);
  transaction.oncomplete = () => database.close();
  return transaction.objectStore("models");
}

const latestFirst = async (): Promise<Kept[]> =>
  (await answerOf<Kept[]>((await models("readonly")).getAll())).sort((a, b) => b.at - a.at);

const forget = async (name: string): Promise<void> => void (await answerOf((await models("readwrite")).delete(name)));

export interface Recent {
  element: HTMLElement;
  keep(files: readonly NamedFile[]): Promise<void>; // the model first
}

// `open` is given the files of the model that is chosen.
export function recentModels(open: (files: readonly NamedFile[]) => void): Recent {
  const list = h("ul", { "aria-label": "recent models" });
  const { element: problem, fail } = problemLine();
  const tick = h("input", {
    type: "checkbox",
    id: "keep-models",
    checked: localStorage.getItem(wish) !== null,
    onchange: () => void choose(),
  });

  async function show(): Promise<void> {
    const kept = await latestFirst();
    list.replaceChildren(
      ...kept.map(({ name, files }) =>
        h(
          "li",
          {},
          h("button", { type: "button", class: "link", onclick: () => open(files) }, name),
          h("small", {}, formatBytes(files.reduce((sum, { file }) => sum + file.size, 0))),
          h(
            "button",
            {
              type: "button",
              class: "small",
              "aria-label": `Forget ${name}`,
              onclick: () => void attempt(forget(name)),
            },
            "Forget",
          ),
        ),
      ),
    );
  }
  // Whatever a browser refuses (a full disk, a private window) is said, and the page works without it.
  async function attempt(work: Promise<unknown>): Promise<void> {
    fail("");
    try {
      await work;
      await show();
    } catch (error) {
      fail(`This browser keeps no models: ${(error as Error).message}`);
    }
  }
  async function choose(): Promise<void> {
    if (tick.checked) return localStorage.setItem(wish, "yes");
    localStorage.removeItem(wish);
    await attempt(latestFirst().then((kept) => Promise.all(kept.map(({ name }) => forget(name)))));
  }
  async function put(files: readonly NamedFile[]): Promise<void> {
    await answerOf((await models("readwrite")).put({ name: files[0]!.name, files, at: Date.now() } satisfies Kept));
    for (const { name } of (await latestFirst()).slice(most)) await forget(name);
  }

  if (tick.checked) void attempt(Promise.resolve());
  return {
    element: h(
      "div",
      { class: "recent" },
      list,
      h("label", {}, tick, " Keep the models that I open in this browser"),
      problem,
    ),
    keep: (files) => (tick.checked ? attempt(put(files)) : Promise.resolve()),
  };
}
