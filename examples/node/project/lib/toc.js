// The table of contents of a Markdown text.

const fence = /^ {0,3}(`{3,}|~{3,})/;
const heading = /^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$/;

/** headings returns the level and text of each heading outside code blocks. */
export function headings(markdown) {
  const found = [];
  let open = null; // the fence of the code block that is open
  for (const line of markdown.split(/\r?\n/)) {
    const f = fence.exec(line)?.[1];
    if (open) {
      if (f && f[0] === open[0] && f.length >= open.length) open = null;
      continue;
    }
    if (f) {
      open = f;
      continue;
    }
    const h = heading.exec(line);
    if (h) found.push({ level: h[1].length, text: h[2] });
  }
  return found;
}

/** anchor returns the name under which a heading can be linked. */
export function anchor(text, seen = new Map()) {
  const base = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
  const n = seen.get(base) ?? 0;
  seen.set(base, n + 1);
  return n === 0 ? base : `${base}-${n}`;
}

/** toc returns the table of contents as a Markdown list. */
export function toc(markdown) {
  const all = headings(markdown);
  const top = Math.min(...all.map((h) => h.level));
  const seen = new Map();
  return all
    .map((h) => `${"  ".repeat(h.level - top)}- [${h.text}](#${anchor(h.text, seen)})\n`)
    .join("");
}
