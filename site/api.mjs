// The reference of the JavaScript API: TypeDoc reads the doc comments of what the package exports.
import { readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Application } from "typedoc";

const look = {
  plugin: ["typedoc-plugin-markdown"],
  tsconfig: "tsconfig.json",
  skipErrorChecking: true,
  excludeInternal: true,
  excludePrivate: true,
  readme: "none",
  disableSources: true,
  logLevel: "Error",
  outputFileStrategy: "modules",
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  entryFileName: "modules",
  parametersFormat: "table",
  interfacePropertiesFormat: "table",
  classPropertiesFormat: "table",
  typeDeclarationFormat: "table",
  propertyMembersFormat: "table",
};

// What a file says in front of its imports, and a title of its name.
function described(file) {
  const [, comment] = /^((?:\/\/.*\n)+)/.exec(readFileSync(file, "utf8")) ?? [];
  const about = (comment ?? "").replace(/^\/\/ ?/gm, "").trim();
  const name = path.basename(file, ".ts").replaceAll("-", " ");
  return { about, title: name.charAt(0).toUpperCase() + name.slice(1) };
}

async function generate(entryPoints, out) {
  const app = await Application.bootstrapWithPlugins({ ...look, entryPoints, out });
  const project = await app.convert();
  if (!project) throw new Error("TypeDoc could not read the API");
  await app.generateOutputs(project);
}

// TypeDoc numbers the place of a type that shares its name with a value; headings that stand once have no number.
function withoutNumbers(text) {
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, words]) =>
    words
      .replace(/\\?<.*$/, "")
      .replace(/\(\)$/, "")
      .toLowerCase(),
  );
  return text.replace(/\(#([a-z0-9_]+)-\d+\)/g, (whole, name) =>
    headings.filter((heading) => heading === name).length === 1 ? `(#${name})` : whole,
  );
}

/** Writes the pages to `out` and gives their titles and links, and one that lists all exports. */
export async function apiPages(out) {
  const files = [
    ...new Set([...readFileSync("bindings/api/index.ts", "utf8").matchAll(/from "\.\/([a-z0-9-]+)\.js"/g)]),
  ]
    .map(([, name]) => `bindings/api/${name}.ts`)
    .filter((file, i, all) => all.indexOf(file) === i)
    .sort();
  await generate(files, out);
  await generate(["node/async.ts"], `${out}/async`);
  renameSync(`${out}/async/modules.md`, `${out}/async.md`);
  const pages = [];
  const exported = [];
  for (const file of readdirSync(out).filter((name) => name.endsWith(".md") && name !== "modules.md")) {
    const name = path.basename(file, ".md");
    const { about, title } = described(name === "async" ? "node/async.ts" : `bindings/api/${name}.ts`);
    const entry = name === "async" ? "qdq/async" : "qdq";
    const text = withoutNumbers(readFileSync(`${out}/${file}`, "utf8").replace(/^# .*\n+/, ""));
    writeFileSync(`${out}/${file}`, `# ${title}\n\n${about}\n\nImported from \`${entry}\`.\n\n${text}`);
    pages.push({ title, link: `/api/${name}` });
    for (const [, symbol] of text.matchAll(/^### (.*)$/gm)) exported.push({ symbol, name });
  }
  pages.sort((a, b) => a.title.localeCompare(b.title));
  const letters = {};
  for (const each of exported) (letters[each.symbol[0].toUpperCase()] ??= []).push(each);
  const index = [
    "# JavaScript: all exports",
    "",
    "Made by TypeDoc of the doc comments that editors show, too. `qdq` has everything but `async`; `qdq/run` has what",
    "opens and runs programs. [The guide](../web.md) shows how they go together.",
  ];
  const anchor = (symbol) =>
    symbol
      .replace(/\\?<.*$/, "")
      .replace(/\(\)$/, "")
      .toLowerCase();
  for (const letter of Object.keys(letters).sort()) {
    index.push("", `## ${letter}`, "");
    const entries = letters[letter].sort((a, b) => a.symbol.localeCompare(b.symbol));
    index.push(
      entries
        .map(({ symbol, name }) => `[\`${symbol.replace(/\\?<.*$/, "")}\`](./${name}.md#${anchor(symbol)})`)
        .join(", "),
    );
  }
  writeFileSync(`${out}/index.md`, `${index.join("\n")}\n`);
  return [{ title: "All exports", link: "/api/" }, ...pages];
}
