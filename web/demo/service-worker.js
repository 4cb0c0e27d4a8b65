// Keeps the page for times without a network. The build puts two constants before this text: `files`, all files of the
// page with a hash in their names, and `version`, which is another for each build.
/* global files, version */
const name = `qdq-${version}`;
const isModule = (file) => file.endsWith(".wasm");

self.addEventListener("install", (event) => {
  const all = ["./", ...files.filter((file) => !isModule(file))];
  event.waitUntil(
    caches
      .open(name)
      .then((cache) => cache.addAll(all))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  const dropOld = async () => {
    for (const other of await caches.keys()) if (other.startsWith("qdq-") && other !== name) await caches.delete(other);
    await self.clients.claim();
  };
  event.waitUntil(dropOld());
});

// The page says which module it computes with, by the name of its file.
self.addEventListener("message", (event) => {
  const keep = async () => {
    const cache = await caches.open(name);
    const file = files.find((each) => isModule(each) && each.split("/").at(-1) === event.data?.module);
    if (file && !(await cache.match(file))) await cache.add(file);
  };
  event.waitUntil(keep());
});

// What has a hash in its name never changes; of all else the newest counts, as long as there is a network.
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== location.origin) return;
  const answer = async () => {
    const cache = await caches.open(name);
    const isFixed = files.some((file) => request.url.endsWith(`/${file}`));
    const kept = await cache.match(request, { ignoreSearch: true });
    if (isFixed && kept) return kept;
    try {
      const fresh = await fetch(request);
      if (fresh.ok) await cache.put(request, fresh.clone());
      return fresh;
    } catch (error) {
      if (kept) return kept;
      throw error;
    }
  };
  event.respondWith(answer());
});
