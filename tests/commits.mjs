// Checks the messages of the commits since BASE: a subject "room: imperative sentence" of at most 72 columns, and a
// blank line before the body. A room is a folder of src or of the checkout, or one of the words below.
// usage: node tests/commits.mjs [BASE]    BASE: a commit or branch, origin/main by default
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";

const base = process.argv[2] || "origin/main";
const folders = (path) =>
  readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
const rooms = new Set([...folders("src"), ...folders("."), "all", "build", "dev", "package", "page"]);

function messagesSince(commit) {
  try {
    const log = execFileSync("git", ["log", "--no-merges", "--format=%h%n%B%x00", `${commit}..HEAD`], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return log.split("\0").map((text) => text.trim());
  } catch {
    console.log(`there is no commit ${commit} here, so no message was checked`);
    return [];
  }
}

function faults(subject, blank) {
  const [, prefix, sentence] = /^([^:]+): (.*)$/.exec(subject) ?? [];
  const found = [];
  if ([...subject].length > 72) found.push(`the subject has ${[...subject].length} columns, at most 72 are wanted`);
  if (!sentence) found.push('the subject is not of the form "room: imperative sentence"');
  for (const room of prefix?.split(", ") ?? []) if (!rooms.has(room)) found.push(`there is no room ${room}`);
  if (sentence?.endsWith(".")) found.push("the subject ends in a full stop");
  if (blank) found.push("no blank line follows the subject");
  return found;
}

const messages = messagesSince(base).filter(Boolean);
for (const message of messages) {
  const [hash, subject = "", blank = ""] = message.split("\n");
  for (const fault of faults(subject, blank)) {
    console.error(`${hash} "${subject}": ${fault}`);
    process.exitCode = 1;
  }
}
