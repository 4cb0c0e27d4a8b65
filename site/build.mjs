// Builds the documentation into build/docs, static files for any folder of any server.
// usage: node site/build.mjs MAN_PAGE SCHEMA   (texts that `qdq man` and `qdq recipe --schema` printed)
// The pages are docs/ and the other Markdown of the repository, as they are, and pages of reference that are made here.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build } from "vitepress";
import { apiPages } from "./api.mjs";
import { groups } from "./config.mjs";
import { checkLinks } from "./links.mjs";
import { commandsPage, cppPage, recipePage } from "./references.mjs";
import { relocate } from "./relocate.mjs";

const source = "build/docs-source";
const out = "build/docs";

// Every page of the repository: where it lies, and where the site has it.
function gathered() {
  const pages = new Map([
    ["CHANGELOG.md", "changelog.md"],
    ["CONTRIBUTING.md", "contributing.md"],
    ["SECURITY.md", "security.md"],
  ]);
  for (const file of readdirSync("docs", { recursive: true })) {
    if (file.endsWith(".md")) pages.set(`docs/${file}`, file);
  }
  for (const name of readdirSync("examples"))
    if (existsSync(`examples/${name}/README.md`)) pages.set(`examples/${name}/README.md`, `examples/${name}.md`);
  return pages;
}

// A link as the site has it; null for what is a file of the repository and no page.
function linkOf(target, from, pages) {
  if (/^([a-z]+:|#|\/)/.test(target)) return target;
  const [file, anchor] = target.split("#");
  const wanted = path.normalize(path.join(path.dirname(from), file)).replace(/\/$/, "");
  const page =
    pages.get(wanted) ?? pages.get(`${wanted}/README.md`) ?? (wanted === "README.md" ? "index.md" : undefined);
  const place =
    page ?? (/\.(png|svg)$/.test(wanted) || wanted.startsWith("docs/") ? path.relative("docs", wanted) : null);
  if (place === null) return null;
  const relative = path.relative(path.dirname(pages.get(from)), place);
  return `${relative.startsWith(".") ? "" : "./"}${relative}${anchor ? `#${anchor}` : ""}`;
}

// The text with its links as the site has them; code is left alone.
function rewritten(text, from, pages) {
  return text
    .split(/(^```[\s\S]*?^```|`[^`\n]+`(?!\]))/m)
    .map((part, i) =>
      i % 2
        ? part
        : part.replace(/(!?)\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]+)\)/g, (_, image, words, target) => {
            const link = linkOf(target, from, pages);
            return link === null ? words : `${image}[${words}](${link})`;
          }),
    )
    .join("");
}

function write(page, text) {
  const file = path.join(source, page);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}

const [man, schema] = process.argv.slice(2);
if (!schema) throw new Error("usage: node site/build.mjs MAN_PAGE SCHEMA");
for (const folder of [source, out]) rmSync(folder, { recursive: true, force: true });
const pages = gathered();
for (const [from, page] of pages) write(page, rewritten(readFileSync(from, "utf8"), from, pages));
for (const picture of readdirSync("docs").filter((name) => /\.(png|svg)$/.test(name)))
  cpSync(`docs/${picture}`, `${source}/${picture}`);
write("reference/commands.md", commandsPage(readFileSync(man, "utf8")));
write("reference/recipe.md", recipePage(JSON.parse(readFileSync(schema, "utf8"))));
write("reference/cpp.md", cppPage("src"));
const api = await apiPages(`${source}/api`);
rmSync(`${source}/api/modules.md`, { force: true });
rmSync(`${source}/api/async`, { recursive: true, force: true });

// Nobody finds a page that is not in the sidebar.
const listed = new Set(groups.flatMap(({ items }) => items.map(({ link }) => `${link.slice(1)}.md`)));
const lost = [...pages.values()].filter((page) => !listed.has(page) && page !== "index.md");
if (lost.length > 0) throw new Error(`site/config.mjs has no place for ${lost.join(", ")}`);

write(
  ".vitepress/theme/index.mjs",
  'import theme from "vitepress/theme-without-fonts";\nimport "./style.css";\nexport default theme;\n',
);
cpSync("site/style.css", `${source}/.vitepress/theme/style.css`);
write(
  ".vitepress/config.mjs",
  `import { settings } from ${JSON.stringify(path.resolve("site/config.mjs"))};\n` +
    `export default settings(${JSON.stringify([path.resolve(source), path.resolve(out), api])});\n`,
);
await build(source);
relocate(out);
checkLinks(out);
