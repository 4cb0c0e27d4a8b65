// What an editor shows of the package: every exported name and every member has a doc comment.
const path = require("node:path");
const ts = require("typescript");

const root = path.join(__dirname, "../..");
const entries = [
  "dist/esm/node/index.d.ts",
  "dist/esm/node/run.d.ts",
  "dist/cjs/node/index.d.ts",
  "dist/esm/web/index.d.ts",
  "dist/esm/node/async.d.ts",
];
const program = ts.createProgram(
  entries.map((entry) => path.join(root, entry)),
  { strict: true, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [] },
);
const checker = program.getTypeChecker();

const text = (symbol) => ts.displayPartsToString(symbol.getDocumentationComment(checker));

// The members that a symbol's own declarations have, without private ones and signatures of indexes.
function membersOf(symbol) {
  const declared = (symbol.declarations ?? []).some(
    (node) => ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node),
  );
  if (!declared) return [];
  return [...symbol.members.values()].filter(({ declarations = [], name }) => {
    const [node] = declarations;
    if (!node || name === "__index") return false;
    if (ts.isTypeParameterDeclaration(node) || (node.name && ts.isPrivateIdentifier(node.name))) return false;
    return !(ts.getCombinedModifierFlags(node) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected));
  });
}

test.each(entries)("%s documents every name and every member", (entry) => {
  const file = program.getSourceFile(path.join(root, entry));
  const missing = [];
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(file));
  expect(exported.length).toBeGreaterThan(/run|async/.test(entry) ? 10 : 100);
  for (const name of exported) {
    const symbol = name.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(name) : name;
    if (!text(symbol)) missing.push(symbol.name);
    for (const member of membersOf(symbol)) {
      const documented =
        member.name === "__constructor"
          ? member.declarations.every((node) => ts.getJSDocCommentsAndTags(node).length > 0)
          : text(member) !== "";
      if (!documented) missing.push(`${symbol.name}.${member.name}`);
    }
  }
  expect(missing).toEqual([]);
});

test("the typings show nothing of the module's inside", () => {
  const files = program.getSourceFiles().map(({ fileName }) => path.relative(root, fileName));
  expect(files.filter((file) => /^dist\/.*(wasm\/|loader|instantiate|engine)/.test(file))).toEqual([]);
});
