// Fails where a link of the built pages leads to no page, or to no place in it.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";

export function checkLinks(folder) {
  const pages = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith(".html"));
  const text = new Map(pages.map((file) => [file, readFileSync(path.join(folder, file), "utf8")]));
  const ids = new Map(
    [...text].map(([file, html]) => [file, new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))]),
  );
  const dead = new Set();
  let count = 0;
  for (const [file, html] of text) {
    if (file === "404.html") continue;
    for (const [, quoted] of html.matchAll(/<(?:a|link|img|script)\b[^>]*?\s(?:href|src)="([^"]*)"/g)) {
      const link = quoted.replaceAll("&amp;", "&");
      if (/^[a-z]+:/.test(link)) continue;
      count += 1;
      const [place, anchor] = link.split("#");
      const target = place === "" ? file : path.normalize(path.join(path.dirname(file), decodeURI(place)));
      const found = target === "." || target.endsWith("/") ? path.join(target, "index.html") : target;
      if (place.startsWith("/") || !existsSync(path.join(folder, found))) dead.add(`${file}: ${link}`);
      else if (anchor && ids.has(found) && !ids.get(found).has(decodeURIComponent(anchor)))
        dead.add(`${file}: ${link}, no such place`);
    }
  }
  if (dead.size > 0) throw new Error(`dead links:\n  ${[...dead].join("\n  ")}`);
  console.log(`${pages.length} pages, ${count} links, none dead`);
}
