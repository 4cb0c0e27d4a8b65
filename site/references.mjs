// Pages of reference, made of what the program and the sources say of themselves.
import { readFileSync } from "node:fs";

/** A text inside of Markdown and Vue: nothing in it is markup. */
const plain = (text) => text.replace(/[&<>{}|*_`[\]\\]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const code = (text) => `<code v-pre>${text.replace(/[&<>|]/g, (sign) => `&#${sign.charCodeAt(0)};`)}</code>`;

/** The page of verbs and options, of the text that `qdq man` prints. */
export function commandsPage(man) {
  const words = man.replaceAll("\\-", "-").replaceAll("\\&", "").replaceAll("\\e", "\\");
  const lines = words.slice(words.indexOf("\n.SS ")).split("\n");
  const out = [
    "# Commands and options",
    "",
    "`qdq` is the native program; `npx qdq` takes the same words. Every table below is what `qdq man` says.",
    "[The command line in use](../command-line.md) explains the verbs by what they are for.",
  ];
  for (let i = 0; i < lines.length; i += 1) {
    const verb = /^\.SS "(.*)"$/.exec(lines[i]);
    if (verb) {
      const [, name] = /^qdq (\S+)/.exec(verb[1]);
      out.push("", `## ${name}`, "", "```text", `${verb[1]} [OPTIONS]`, "```", "", `${sentence(plain(lines[i + 1]))}`);
      out.push("", "| option | meaning |", "|---|---|");
      i += 1;
    } else if (lines[i] === ".TP") {
      const option = lines[i + 1].replace(/^\.B /, "");
      if (!/^-h, --help/.test(option) && /^[-A-Z]/.test(option))
        out.push(`| ${code(option)} | ${plain(lines[i + 2])} |`);
      i += 2;
    } else if (lines[i].startsWith(".SH")) break;
  }
  return `${out.join("\n")}\n`;
}
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The page of the fields of recipes, of their JSON Schema. */
export function recipePage(schema) {
  const { definitions } = schema;
  const nameOf = ({ $ref }) => $ref.split("/").pop();
  const anchor = (name) => `[${name}](#${name.toLowerCase()})`;
  const kindOf = (shape) => {
    if (shape.$ref === "#") return "a recipe";
    if (shape.$ref) return anchor(nameOf(shape));
    if (shape.const) return code(JSON.stringify(shape.const));
    if (shape.enum)
      return shape.enum.length > 12
        ? "a word of those below"
        : shape.enum.map((word) => code(JSON.stringify(word))).join(", ");
    if (shape.anyOf) return [...new Set(shape.anyOf.filter(({ pattern }) => !pattern).map(kindOf))].join(" or ");
    if (Array.isArray(shape.type)) return shape.type.join(" or ");
    if (shape.type === "array")
      return Array.isArray(shape.items)
        ? `a list of ${shape.items.map(kindOf).join(", ")}`
        : `a list: ${kindOf(shape.items)}`;
    return shape.type ?? "anything";
  };
  const out = [
    "# Fields of recipes",
    "",
    "This page is made of the JSON Schema that `qdq recipe --schema` prints and that the npm package has as",
    "`qdq/recipe.schema.json`. Parser and schema are one table: what the one takes, the other takes.",
    "[Recipes](../recipes.md) shows how they are used. Every object may have a field `$comment`, which qdq does not",
    "read.",
  ];
  for (const [name, shape] of Object.entries(definitions)) {
    out.push("", `## ${name}`, "");
    if (shape.description) out.push(plain(shape.description), "");
    if (!shape.properties) {
      out.push(`${sentence(kindOf(shape.anyOf ? { anyOf: shape.anyOf } : shape))}.`);
      continue;
    }
    out.push("| field | is | default | says |", "|---|---|---|---|");
    for (const [field, value] of Object.entries(shape.properties)) {
      if (field === "$comment") continue;
      const needed = shape.required?.includes(field) ? "needed" : "";
      const otherwise =
        value.default === undefined ? needed : code(JSON.stringify(value.default).replaceAll(",", ", "));
      out.push(`| ${code(field)} | ${kindOf(value)} | ${otherwise} | ${plain(value.description ?? "")} |`);
    }
  }
  const lists = wordLists(definitions);
  for (const [title, words] of lists) out.push("", `## ${title}`, "", words.map(code).join(", "));
  return `${out.join("\n")}\n`;
}
// The long lists of words, each once.
function wordLists(definitions) {
  const wordsOf = (shape) => shape?.enum ?? shape?.anyOf?.find(({ enum: words }) => words)?.enum ?? [];
  return [
    ["Words: observers", wordsOf(definitions.ObserverWithArgs.properties.class)],
    ["Words: QConfigs", wordsOf(definitions.NamedQConfig.properties.named)],
    ["Words: dtypes", wordsOf(definitions.QuantizationSpec.properties.dtype)],
    ["Words: dtypes of observers", wordsOf(definitions.ObserverArguments.properties.dtype)],
  ];
}

/** The page of the public header: the headers' own text, in the groups of qdq.h. */
export function cppPage(sources) {
  const header = readFileSync(`${sources}/qdq.h`, "utf8");
  const [intro, ...groups] = header.split(/\n\n(?=\/\/ )/);
  const words = (comment) => comment.replace(/^\/\/ ?/gm, "");
  const out = [
    "# C++: the public header",
    "",
    "`#include <qdq/qdq.h>` is all that a program includes. This page is the text of the headers that it names, in",
    "its groups, so that it cannot differ from what a compiler reads. Comments say shapes, dtypes, rounding and",
    "errors.",
    "",
    "```cpp",
    intro
      .split("\n")
      .filter((line) => /^\/\/ {3}/.test(line))
      .map((line) => line.slice(5))
      .join("\n"),
    "```",
    "",
    "Errors are `qdq::Error`, or `std::bad_alloc` where the system has no memory left. Objects may move between",
    "threads; two threads must not use one object at once. Results are the same on any number of threads.",
  ];
  for (const group of groups) {
    const lines = group.split("\n");
    const comment = lines.filter((line) => line.startsWith("//")).join("\n");
    const includes = [...group.matchAll(/#include "(.*)"/g)].map(([, file]) => file);
    if (includes.length === 0) continue;
    const title = words(comment).replaceAll("\n", " ");
    out.push("", `## ${sentence(title.split(/[;:]/)[0].replace(/\.$/, ""))}`, "", plain(title));
    for (const file of includes) {
      const text = readFileSync(`${sources}/${file}`, "utf8")
        .replace(/^#(pragma once|include .*)\n/gm, "")
        .replace(/^(namespace .*\{|\} {2}\/\/ namespace .*)\n/gm, "")
        .replace(/\n{3,}/g, "\n\n")
        .trim();
      out.push("", `### qdq/${file}`, "", "```cpp", text, "```");
    }
  }
  return `${out.join("\n")}\n`;
}
