import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { anchor, headings, toc } from "../lib/toc.js";

test("headings in code are no headings", () => {
  const md = "# One\n```sh\n# not one\n```\n## Two ##\n~~~~\n~~~\n# nor this\n~~~~\n";
  assert.deepEqual(headings(md), [
    { level: 1, text: "One" },
    { level: 2, text: "Two" },
  ]);
});

test("anchors are unique", () => {
  const seen = new Map();
  assert.equal(anchor("What's new?", seen), "whats-new");
  assert.equal(anchor("What's new?", seen), "whats-new-1");
});

test("the list starts at the highest level", () => {
  assert.equal(toc("## A\n### B c\n## D\n"), "- [A](#a)\n  - [B c](#b-c)\n- [D](#d)\n");
  assert.equal(toc("no headings"), "");
});

test("the program prints the table of a file", (t) => {
  const dir = mkdtempSync(join(tmpdir(), "toc-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "a.md");
  writeFileSync(file, "# Grüße\n");
  const bin = fileURLToPath(new URL("../bin/toc.js", import.meta.url));
  assert.equal(execFileSync(process.execPath, [bin, file], { encoding: "utf8" }), "- [Grüße](#grüße)\n");
});
