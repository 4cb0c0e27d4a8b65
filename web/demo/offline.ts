// Makes the page work without a network from the second visit on, where the browser and its address allow that.
import { whenIdle } from "./page.js";
import type { Store } from "./state.js";

export function keepForOffline(store: Store): void {
  if (!("serviceWorker" in navigator) || !import.meta.env.PROD) return;
  const { serviceWorker } = navigator;
  // A browser that refuses loses nothing but this.
  whenIdle(() => serviceWorker.register(new URL("./service-worker.js", document.baseURI)).catch(() => {}));
  store.listen(({ engine }, changed) => {
    if (!changed.has("engine") || !engine) return;
    const tell = async (): Promise<void> => {
      const { module } = await engine.call("warm", []);
      (await serviceWorker.ready).active?.postMessage({ module });
    };
    tell().catch(() => {}); // whoever opened the model is told what is wrong with the engine
  });
}
