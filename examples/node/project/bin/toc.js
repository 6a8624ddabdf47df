#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { toc } from "../lib/toc.js";

const [file] = process.argv.slice(2);
if (!file) {
  console.error("usage: toc FILE");
  process.exit(2);
}
process.stdout.write(toc(readFileSync(file, "utf8")));
