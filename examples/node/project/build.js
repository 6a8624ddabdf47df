// Writes dist/: the program as one file, and the SHA-256 of it.
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const lib = readFileSync("lib/toc.js", "utf8").replace(/^export /gm, "");
const bin = readFileSync("bin/toc.js", "utf8")
  .replace(/^import .*lib\/toc\.js.*\n/m, "")
  .replace(/^(#!.*\n)/, "$1" + lib);

rmSync("dist", { recursive: true, force: true });
mkdirSync("dist");
writeFileSync("dist/toc.mjs", bin);
chmodSync("dist/toc.mjs", 0o755);
const sum = createHash("sha256").update(bin).digest("hex");
writeFileSync("dist/SHA256SUMS", `${sum}  toc.mjs\n`);
console.log(`dist/toc.mjs ${bin.length} bytes`);
