// Makes built pages independent of the folder that they are served from: VitePress knows only a fixed one.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { placeholderBase } from "./config.mjs";

const here = "window.__qdqBase";

/** Files of `folder` refer to each other by relative addresses; scripts find the folder when a page is opened. */
export function relocate(folder) {
  for (const file of readdirSync(folder, { recursive: true })) {
    if (!/\.(html|js|css)$/.test(file)) continue;
    const name = path.join(folder, file);
    const text = readFileSync(name, "utf8");
    const up = "../".repeat(file.split("/").length - 1) || "./";
    const changed = file.endsWith(".js")
      ? script(text)
      : file.endsWith(".css")
        ? text.replaceAll(placeholderBase, up)
        : page(text, up);
    if (changed.includes(placeholderBase)) throw new Error(`${name} still names ${placeholderBase}`);
    if (changed !== text) writeFileSync(name, changed);
  }
}

// The site's data is JSON in a script; what stands behind it sets the folder.
function page(text, up) {
  const base = `<script>${here}=new URL(${JSON.stringify(up)},location.href).pathname</script>`;
  return text
    .replace("<head>", `<head>${base}`)
    .replace(
      /window\.__VP_SITE_DATA__=JSON\.parse\((".*?[^\\]")\);/,
      (whole) => `${whole}__VP_SITE_DATA__.base=${here};`,
    )
    .replaceAll(`\\"${placeholderBase}\\"`, '\\"\\"')
    .replaceAll(placeholderBase, up);
}

// A literal becomes an expression; the index of the search is one long literal with many addresses in it.
function script(text) {
  if (/^const \w+=['`]\{"documentCount"/.test(text))
    return text
      .replace(
        /;export\{(\w+) as default\};?\s*$/,
        (_, name) => `;const moved=${name}.replaceAll("//here/",${here});export{moved as default};`,
      )
      .replaceAll(placeholderBase, "//here/");
  return text.replace(new RegExp(`(["'\`])${placeholderBase}([^"'\`$]*)\\1`, "g"), (_, __, rest) =>
    rest ? `(${here}+${JSON.stringify(rest)})` : `(${here})`,
  );
}
