// npm takes README.md of the package's folder, and nothing else, for the page of the package. While it packs, that is
// node/README.md; the repository's own waits in build/.
//   node bindings/readme.mjs npm | repository
import { copyFileSync, existsSync, mkdirSync, rmSync } from "node:fs";

const kept = "build/README.md";
if (process.argv[2] === "npm") {
  mkdirSync("build", { recursive: true });
  if (!existsSync(kept)) copyFileSync("README.md", kept); // else the last packing was cut short
  copyFileSync("node/README.md", "README.md");
} else if (existsSync(kept)) {
  copyFileSync(kept, "README.md");
  rmSync(kept);
}
