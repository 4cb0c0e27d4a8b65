// The schema of recipes and the parser take the same recipes: those of tests, examples and documents, and each of them
// with one thing changed.
const { execFileSync } = require("node:child_process");
const { readFileSync, readdirSync } = require("node:fs");
const path = require("node:path");
const Ajv = require("ajv");
const ts = require("typescript");
const { qdq } = require("./shapes.js");

const root = path.join(__dirname, "../..");
const read = (file) => readFileSync(path.join(root, file), "utf8");
const schema = JSON.parse(read("dist/recipe.schema.json"));
const fits = new Ajv({ strict: true, strictTypes: false, strictRequired: false, strictTuples: false }).compile(schema);

const isObject = (value) => value !== null && typeof value === "object";
function* recipesIn(value) {
  if (!isObject(value)) return;
  // "JavaScript" stands for a quantizer of a program's own, which no file has.
  if (value.quantizer === "JavaScript") return;
  if (!Array.isArray(value) && typeof value.quantizer === "string") yield value;
  else for (const part of Object.values(value)) yield* recipesIn(part);
}
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
const unitTests = readdirSync(path.join(root, "tests/unit"), { recursive: true }).filter((f) => f.endsWith(".cpp"));
const sources = {
  documents: readdirSync(path.join(root, "docs"), { recursive: true })
    .filter((file) => file.endsWith(".md") && !file.includes("node_modules"))
    .flatMap((file) =>
      [...read(`docs/${file}`).matchAll(/^```json\n([\s\S]*?)^```/gm)].map(([, json]) => parsed(json)),
    ),
  "unit tests": unitTests.flatMap((file) =>
    [...read(`tests/unit/${file}`).matchAll(/R"\((\{[\s\S]*?)\)"/g)].map(([, json]) => parsed(json)),
  ),
  "seeds of the fuzzer": readdirSync(path.join(root, "tests/fuzz/corpus/recipe")).map((file) =>
    parsed(read(`tests/fuzz/corpus/recipe/${file}`)),
  ),
  "golden models": [parsed(read("tests/golden/models/models.json"))],
  examples: [parsed(read("examples/shapes/recipe.json"))],
};

// What only the parser knows: names that are looked up elsewhere, and numbers that do not go with each other.
const beyondTheSchema = new RegExp(
  [
    "which qdq does not have",
    "quant_min -?\\d",
    "cannot work with",
    "does not include 0",
    "is empty: quant_min",
    "is inside more than",
    "bounds only one of quant_min",
    "fixes only one of scale",
    "regular expression",
    "which PyTorch 2.6 does not support",
    "does not read",
  ].join("|"),
);

async function parserTakes(recipe) {
  try {
    await qdq.quantizationCapabilities(recipe);
    return { takes: true, message: "" };
  } catch (error) {
    return { takes: false, message: error.message };
  }
}

async function disagreement(recipe) {
  const { takes, message } = await parserTakes(recipe);
  if (fits(recipe) === takes || (!takes && beyondTheSchema.test(message))) return null;
  return `${JSON.stringify(recipe)}: parser: ${takes || message}; schema: ${JSON.stringify(fits.errors?.slice(0, 3))}`;
}

// The recipe once with every value changed, removed, or given a neighbour.
function* mutations(recipe) {
  const paths = [];
  const walk = (value, way) => {
    for (const [key, part] of Object.entries(value)) {
      paths.push([...way, key]);
      if (isObject(part)) walk(part, [...way, key]);
    }
  };
  walk(recipe, []);
  for (const way of paths) {
    const changed = (change) => {
      const copy = structuredClone(recipe);
      const last = way.at(-1);
      const parent = way.slice(0, -1).reduce((value, key) => value[key], copy);
      change(parent, Array.isArray(parent) ? Number(last) : last);
      return copy;
    };
    for (const value of [null, true, "x", -3, 1.5, [], {}, ["a", "b"]])
      yield changed((parent, key) => (parent[key] = value));
    yield changed((parent, key) => (Array.isArray(parent) ? parent.splice(key, 1) : delete parent[key]));
    yield changed((parent, key) => {
      if (Array.isArray(parent)) parent.push(parent[key]);
      else parent[`${key}z`] = parent[key];
    });
    if (/^[a-z_]+$/.test(way.at(-1))) {
      yield changed((parent, key) => {
        if (!Array.isArray(parent)) parent.$comment = { [key]: "a comment" };
      });
    }
  }
}

test.each(Object.keys(sources))(
  "the schema takes the recipes of %s that the parser takes, and no others",
  async (name) => {
    const recipes = [...recipesIn(sources[name])];
    expect(recipes.length).toBeGreaterThan(0);
    const differing = [];
    for (const recipe of recipes) differing.push(await disagreement(recipe));
    expect(differing.filter(Boolean)).toEqual([]);
  },
);

test("the schema takes the profiles' recipes and those that qdq recipe prints", async () => {
  const run = (...args) =>
    JSON.parse(execFileSync(process.execPath, [path.join(root, "dist/cjs/node/cli.js"), "recipe", ...args]));
  const recipes = [run(), run("--quantizer", "x86-inductor"), run("--fx", "x86"), run("--weights-only")];
  for (const name of ["ort", "executorch", "openvino", "qnn"])
    recipes.push(JSON.parse(JSON.stringify(run("--for", name))));
  for (const recipe of recipes) {
    expect(fits(recipe) || fits.errors).toBe(true);
    expect(await parserTakes(recipe)).toEqual({ takes: true, message: "" });
  }
});

test("schema and parser agree on recipes with one thing changed", async () => {
  const seen = new Set();
  const differing = [];
  let taken = 0;
  for (const recipe of recipesIn(Object.values(sources))) {
    if (JSON.stringify(recipe).length > 3000) continue;
    for (const changed of mutations(recipe)) {
      const text = JSON.stringify(changed);
      if (seen.has(text) || typeof changed?.quantizer !== "string") continue;
      seen.add(text);
      const found = await disagreement(changed);
      if (found) differing.push(found);
      else if (fits(changed)) taken += 1;
    }
  }
  expect(differing.slice(0, 10)).toEqual([]);
  expect(seen.size).toBeGreaterThan(2000);
  expect(taken).toBeGreaterThan(200); // a good part of the changes leaves a recipe
});

test("the types of recipes have the fields of the schema", () => {
  const file = path.join(root, "dist/esm/bindings/api/recipe.d.ts");
  const program = ts.createProgram([file], { strict: true, types: [] });
  const checker = program.getTypeChecker();
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file)));
  const fieldsOf = (name) => {
    const symbol = exported.find((each) => each.name === name);
    const names = checker
      .getDeclaredTypeOfSymbol(symbol)
      .getProperties()
      .map((each) => each.name);
    return names.map((each) => each.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)).sort();
  };
  const types = {
    XNNPACKRecipe: "XNNPACKQuantizer",
    X86InductorRecipe: "X86InductorQuantizer",
    EmbeddingRecipe: "EmbeddingQuantizer",
    FxRecipe: "QConfigMapping",
    PatternRecipe: "PatternQuantizer",
    AnnotationRecipe: "AnnotationQuantizer",
    ComposableRecipe: "ComposableQuantizer",
    QConfigMappingRecipe: "Mapping",
    PrepareCustomConfigRecipe: "PrepareCustomConfig",
    StandaloneModuleRecipe: "StandaloneModule",
    PatternRow: "PatternRow",
  };
  const fields = Object.fromEntries(Object.keys(types).map((type) => [type, fieldsOf(type)]));
  const wanted = Object.fromEntries(
    Object.entries(types).map(([type, name]) => [
      type,
      Object.keys(schema.definitions[name].properties)
        .filter((field) => field !== "$comment" || /Recipe$/.test(type))
        .sort(),
    ]),
  );
  const withoutComments = (lists) =>
    Object.fromEntries(
      Object.entries(lists).map(([type, list]) => [type, list.filter((field) => field !== "$comment")]),
    );
  expect(withoutComments(fields)).toEqual(withoutComments(wanted));
});

test("a word that is nearly right is met with the right one", async () => {
  for (const [recipe, meant] of [
    [{ quantizer: "XNNPACKQuantizer", globl: {} }, "did you mean 'global'?"],
    [{ quantizer: "XNNPACKQuantizer", global: { is_dynamc: true } }, "did you mean 'is_dynamic'?"],
    [{ quantizer: "XNNPACKQantizer" }, "did you mean 'XNNPACKQuantizer'?"],
    [{ quantizer: "QConfigMapping", qconfig_mapping: { default: "x68" } }, "did you mean 'x86'?"],
  ])
    expect((await parserTakes(recipe)).message).toContain(meant);
});
