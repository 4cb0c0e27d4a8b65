// Writes dist/sbom.cdx.json, the list of what the package is made of besides its own sources, as CycloneDX 1.5 has it:
// the libraries whose headers CMakeLists.txt gives to the WASM modules, Emscripten with the C and C++ libraries that it
// links, and the npm packages that package-lock.json installs with the package. Runs where the headers are; equal
// headers give equal bytes. A library's hash is the SHA-256 of all its files in the order of their names.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";

const include = "/usr/include";
// By the folder of its headers: the file that tells the version, and where in it.
const libraries = {
  hwy: { name: "highway", license: "Apache-2.0", file: "base.h", pattern: /define HWY_(?:MAJOR|MINOR|PATCH) (\d+)/g },
  xsimd: {
    name: "xsimd",
    license: "BSD-3-Clause",
    file: "config/xsimd_config.hpp",
    pattern: /define XSIMD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)/g,
  },
  protozero: {
    name: "protozero",
    license: "BSD-2-Clause",
    file: "version.hpp",
    pattern: /define PROTOZERO_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)/g,
  },
  nlohmann: {
    name: "nlohmann-json",
    license: "MIT",
    file: "detail/abi_macros.hpp",
    pattern: /define NLOHMANN_JSON_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)/g,
  },
  CLI: { name: "CLI11", license: "BSD-3-Clause", file: "Version.hpp", pattern: /define CLI11_VERSION "([\d.]+)"/g },
  // It has a version a header; that of the images' reader stands for it.
  stb: { name: "stb", license: "MIT OR Unlicense", file: "stb_image.h", pattern: /stb_image - v([\d.]+)/g },
};

const filesIn = (folder) =>
  readdirSync(folder, { recursive: true })
    .map((name) => `${folder}/${name}`)
    .filter((file) => statSync(file).isFile())
    .sort();

function library(folder) {
  const known = libraries[folder];
  if (!known) throw new Error(`CMakeLists.txt links ${include}/${folder}, which bindings/sbom.mjs does not know`);
  const { name, license, file, pattern } = known;
  const version = [...readFileSync(`${include}/${folder}/${file}`, "utf8").matchAll(pattern)]
    .map(([, n]) => n)
    .join(".");
  if (!/^\d+(\.\d+)+$/.test(version)) throw new Error(`${include}/${folder}/${file} tells no version of ${name}`);
  const hash = createHash("sha256");
  for (const each of filesIn(`${include}/${folder}`)) hash.update(readFileSync(each));
  return { ...component(name, version, license), hashes: [{ alg: "SHA-256", content: hash.digest("hex") }] };
}

const component = (name, version, license) => ({
  type: "library",
  "bom-ref": `${name}@${version}`,
  name,
  version,
  licenses: [{ expression: license }],
});

const json = (file) => JSON.parse(readFileSync(file, "utf8"));
const { name, version, license } = json("package.json");
const [, folders] = /foreach\(name ([\w ]+)\)\s+file\(CREATE_LINK \/usr\/include\//.exec(
  readFileSync("CMakeLists.txt", "utf8"),
);
const emscripten = readFileSync("/usr/share/emscripten/emscripten-version.txt", "utf8").replace(/["\s]/g, "");
const installed = Object.entries(json("package-lock.json").packages).filter(([path, { dev }]) => path !== "" && !dev);
const components = [
  ...folders.split(" ").map(library),
  component("emscripten", emscripten, "MIT OR NCSA"),
  ...installed.map(([path, found]) => ({
    ...component(path.replace(/.*node_modules\//, ""), found.version, found.license),
    hashes: [
      { alg: "SHA-512", content: Buffer.from(found.integrity.slice("sha512-".length), "base64").toString("hex") },
    ],
  })),
];
const self = { ...component(name, version, license), purl: `pkg:npm/${name}@${version}` };
const bom = {
  bomFormat: "CycloneDX",
  specVersion: "1.5",
  version: 1,
  metadata: { component: self },
  components,
  dependencies: [{ ref: self["bom-ref"], dependsOn: components.map((each) => each["bom-ref"]) }],
};
writeFileSync("dist/sbom.cdx.json", `${JSON.stringify(bom, null, 1)}\n`);
